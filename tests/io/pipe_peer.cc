// The other end of the pipe in a process of its own, for tests that kill it.
//   pipe_peer read SOCKET TOKEN_BYTE [HOLD]   prints "pass id" for each row; after HOLD batches
//                                             sleeps with them held
//   pipe_peer feed SOCKET FILE...             a feeder (libsvm, two passes) with a ledger of its
//                                             own; prints "ready"
//   pipe_peer main DIRECTORY                  feeder_main() in that directory
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "io/feeder/feeder.h"
#include "io/feeder/feeder_main.h"
#include "io/pipe/reader.h"
#include "io/source/local_source.h"
#include "tests/io/fake_agent_link.h"

using namespace dlrun;
using namespace dlrun::io;
using namespace std::chrono_literals;

namespace {

int read_all(const std::string& socket, std::uint8_t token_byte, long hold) {
  cluster::Token token{};
  token[0] = token_byte;
  auto reader = PipeReader::attach(socket, token, 20s);
  if (!reader) return std::fprintf(stderr, "%s\n", reader.error().to_string().c_str()), 2;
  for (long batches = 0;;) {
    const auto view = (*reader)->next(20s);
    if (!view && view.error().code == Errc::kEndOfData) return 0;
    if (!view) return std::fprintf(stderr, "%s\n", view.error().to_string().c_str()), 3;
    if (view->pass_ended) continue;
    for (std::uint64_t row = 0; row < view->rows; ++row)
      std::printf(
          "%u %llu\n", view->pass,
          static_cast<unsigned long long>(view->ids[static_cast<std::size_t>(view->offsets[row])]));
    if (++batches == hold) {
      std::puts("holding");
      std::fflush(stdout);
      for (;;) ::pause();
    }
    if (hold < 0) (*reader)->release(*view);
  }
}

int feed(const std::string& socket, std::vector<std::string> files) {
  InputSpec spec;
  spec.name = "train";
  spec.uris = std::move(files);
  spec.passes = 2;
  spec.batch_rows = 10;
  spec.split_bytes = 200;
  FakeAgentLink link({spec});
  LocalSource source;
  FeederOptions options;
  options.socket_path = socket;
  Feeder feeder(options, source, link);
  if (!feeder.start()) return 2;
  task::AdmitConsumer admit;
  admit.token[0] = 1;
  admit.consumer = {JobId(1), "worker", 0, Generation(1)};
  admit.input = spec;
  feeder.admit(admit);
  std::puts("ready");
  std::fflush(stdout);
  for (;;) ::pause();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 64;
  const std::string mode = argv[1];
  if (mode == "main") return ::chdir(argv[2]) == 0 ? feeder_main(1, argv) : 64;
  if (argc < 4) return 64;
  if (mode == "read")
    return read_all(argv[2], static_cast<std::uint8_t>(std::atoi(argv[3])),
                    argc > 4 ? std::atol(argv[4]) : -1);
  return feed(argv[2], {argv + 3, argv + argc});
}
