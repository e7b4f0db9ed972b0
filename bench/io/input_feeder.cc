#include "bench/io/input_feeder.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace dlrun::bench {

void fail_bench(const Error& error) {
  std::fprintf(stderr, "%s\n", error.to_string().c_str());
  std::exit(1);
}

Folder::Folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "dlrun-bench-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    fail_bench({Errc::kUnavailable, "no folder " + pattern});
  path_ = pattern;
}

Folder::~Folder() {
  std::error_code gone;
  std::filesystem::remove_all(path_, gone);
}

Result<io::InputStart> InputFeeder::Link::files(const TaskId& consumer, const std::string& input,
                                                const std::vector<io::FileEntry>& files, Duration) {
  const std::lock_guard lock(mutex_);
  DLRUN_TRY(ledger_.set_files(input, files));
  if (from_) DLRUN_TRY(ledger_.restore(*std::exchange(from_, std::nullopt)));
  return ledger_.start(input, consumer, world_);
}

Result<io::LeaseAnswer> InputFeeder::Link::lease(const task::FeederLease& request, Duration) {
  const std::lock_guard lock(mutex_);
  for (const io::SplitKey& key : request.done)
    (void)ledger_.done(request.input, request.consumer, key.split_id, key.pass);
  if (request.resync) ledger_.resync(request.input, request.consumer, request.held);
  io::LeaseAnswer answer;
  if (!request.steps.empty()) {
    DLRUN_ASSIGN(answer.steps,
                 ledger_.steps(request.input, request.consumer, world_, request.steps));
    return answer;
  }
  if (request.splits_max == 0) return answer;
  return ledger_.lease(request.input, request.consumer,
                       ledger_.share(request.input, request.consumer, request.splits_max));
}

io::LedgerState InputFeeder::Link::commit(const std::vector<io::ConsumerCursor>& consumers) {
  const std::lock_guard lock(mutex_);
  return get(ledger_.commit(consumers, world_)).at(0);
}

namespace {
cluster::Token token_of(std::uint32_t rank) {
  cluster::Token token{};
  token[0] = static_cast<std::uint8_t>(rank + 1);
  return token;
}
io::FeederOptions options_of(const std::string& socket) {
  io::FeederOptions options;
  options.socket_path = socket;
  return options;
}
}  // namespace

InputFeeder::InputFeeder(io::InputSpec spec, const Folder& folder, std::uint32_t world,
                         const std::optional<io::LedgerState>& from)
    : spec_(std::move(spec)),
      socket_(folder / "feeder.sock"),
      link_(spec_, world, from),
      feeder_(options_of(socket_), source_, link_) {
  if (const Status started = feeder_.start(); !started) fail_bench(started.error());
  for (std::uint32_t rank = 0; rank < world; ++rank)
    feeder_.admit({token_of(rank), consumer(rank), {}, spec_});
}

std::unique_ptr<io::PipeReader> InputFeeder::attach(std::uint32_t rank) {
  return get(io::PipeReader::attach(socket_, token_of(rank), std::chrono::seconds(20)));
}

io::LedgerState InputFeeder::commit(const std::vector<io::ConsumerCursor>& consumers) {
  return link_.commit(consumers);
}

}  // namespace dlrun::bench
