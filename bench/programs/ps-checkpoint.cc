// A checkpoint of 1 GiB of rows (dim 32 with Adagrad).
//   write          one shard, from the call to the synced file; baseline: the same bytes out of
//                  memory, the better of buffered + fsync and O_DIRECT + fsync
//   restore        from a cold file to a shard that serves; baseline: the slower of reading the
//                  cold file and putting the same rows, which lie in memory, into a shard
//   train_during   pushes of a client over shared memory while a checkpoint is written; baseline:
//                  the same without
// Files lie in $TMPDIR, or in /tmp; --quick: 128 MiB, two rounds.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "bench/ps/shard_thread.h"
#include "bench/report/report.h"
#include "ps/checkpoint/folder.h"
#include "ps/checkpoint/part_reader.h"
#include "ps/checkpoint/part_writer.h"

namespace dlrun::bench {
namespace {

using namespace std::chrono_literals;
constexpr std::uint32_t kDim = 32;
constexpr std::size_t kMiB = 1u << 20;
constexpr std::uint64_t kRecordBytes = ps::kRowHeadBytes + 8 * kDim;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class T>
T must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "ps-checkpoint: %s\n", result.error().to_string().c_str());
    std::exit(1);
  }
  return std::move(*result);
}
void must(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "ps-checkpoint: %s\n", status.error().to_string().c_str());
  std::exit(1);
}

ps::TableSchema table_schema() {
  return {.id = 11,
          .name = "t",
          .dim = kDim,
          .optimizer = ps::Optimizer::kAdagrad,
          .consistency = ps::Consistency::kAsp};
}

std::uint64_t key_of(std::uint64_t rank) { return mix64(rank + 1); }

/// Requests of `n` ascending keys that make rows 0 .. rows - 1 of every table.
template <class Push>
void fill(std::uint64_t rows, std::size_t n, Push push) {
  std::vector<std::uint64_t> keys;
  std::vector<float> grads;
  for (std::uint64_t rank = 0; rank < rows;) {
    keys.clear();
    while (keys.size() < n && rank < rows) keys.push_back(key_of(rank++));
    std::sort(keys.begin(), keys.end());
    grads.resize(keys.size() * kDim);
    for (std::size_t i = 0; i < grads.size(); ++i)
      grads[i] = static_cast<float>(keys[i / kDim] >> 40 & 1023) / 512 - 1;
    push(keys, grads);
  }
}

/// A shard without a network.
struct Bare {
  explicit Bare(std::uint64_t rows) {
    ps::RequestHeader h{.kind = ps::Kind::kCreateTable,
                        .client = ClientId{1},
                        .table = 11,
                        .budget = 1h,
                        .schema = table_schema()};
    h.epoch = {1, 1};
    ask(h, {}, {});
    h.kind = ps::Kind::kPush;
    h.schema.reset();
    h.dim = kDim;
    fill(rows, 16384, [&](const auto& keys, const auto& grads) {
      ++h.sequence;
      h.n = static_cast<std::uint32_t>(keys.size());
      ask(h, keys, grads);
    });
  }
  void ask(const ps::RequestHeader& h, std::span<const std::uint64_t> keys,
           std::span<const float> values) {
    ps::Effects effects;
    core.on_request(0, h, keys, values, TimePoint{1s}, effects);
    const ps::ReplyHeader& reply = std::get<ps::Reply>(effects.at(0)).header;
    if (reply.error != 0) must(fail(static_cast<Errc>(reply.error), reply.context));
  }
  ps::ShardCore core{ps::ShardSettings{}, ps::SlotMap::even(1, {1, 1})};
};

/// As the shard's loop does it, with nothing to serve.
ps::PartInfo write_part(ps::ShardCore& core, std::uint64_t id, const std::string& folder) {
  must(core.begin_cut({id, {}, 1h}, TimePoint{1s}));
  std::mutex mutex;
  std::condition_variable changed;
  const auto writer = must(ps::PartWriter::create(
      {.path = folder + "/" + ps::part_file_name(ShardId{0}), .checkpoint = id}, [&] {
        const std::lock_guard lock(mutex);
        changed.notify_all();
      }));
  std::vector<ps::Block> blocks;
  while (core.cut().phase == ps::ShardCore::CutPhase::kWriting) {
    core.write_cut(256u << 10, blocks);
    for (ps::Block& block : blocks) writer->put(std::move(block));
    blocks.clear();
  }
  writer->finish();
  std::unique_lock lock(mutex);
  while (!writer->result()) changed.wait_for(lock, 10ms);
  const auto facts = must(*writer->result());
  ps::PartInfo part = core.part_info();
  part.file = ps::part_file_name(ShardId{0});
  part.bytes = facts.bytes;
  part.blocks = facts.blocks;
  part.rows = facts.rows;
  part.headers_crc = facts.headers_crc;
  return part;
}

/// `bytes` from one buffer of 1 MiB; seconds to durable.
double write_file(const std::string& path, std::uint64_t bytes, bool direct) {
  void* memory = nullptr;
  if (::posix_memalign(&memory, 4096, kMiB) != 0) std::exit(1);
  for (std::size_t i = 0; i < kMiB; i += 8) {
    const std::uint64_t word = mix64(i);
    std::memcpy(static_cast<char*>(memory) + i, &word, 8);
  }
  const auto start = std::chrono::steady_clock::now();
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | (direct ? O_DIRECT : 0), 0600);
  if (fd < 0) {
    std::free(memory);
    return 1e9;  // a file system without O_DIRECT
  }
  bool good = true;
  for (std::uint64_t at = 0; at < bytes && good; at += kMiB)
    good = ::write(fd, memory, kMiB) == static_cast<ssize_t>(kMiB);
  good = good && ::fsync(fd) == 0;
  ::close(fd);
  std::free(memory);
  ::unlink(path.c_str());
  return good ? seconds_since(start) : 1e9;
}

/// Out of the page cache, as far as the kernel does it.
void make_cold(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  if (fd < 0) return;
  ::fdatasync(fd);
  (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
}

double read_file(const std::string& path) {
  std::vector<char> buffer(kMiB);
  const auto start = std::chrono::steady_clock::now();
  const int fd = ::open(path.c_str(), O_RDONLY);
  if (fd < 0) std::exit(1);
  (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  while (::read(fd, buffer.data(), buffer.size()) > 0) {
  }
  ::close(fd);
  return seconds_since(start);
}

double build(const ps::Manifest& manifest, const std::vector<ps::Block>& blocks) {
  const auto start = std::chrono::steady_clock::now();
  ps::ShardCore core(ps::ShardSettings{}, ps::SlotMap::even(1, {1, 1}));
  must(core.begin_restore(manifest, false, TimePoint{1s}));
  for (const ps::Block& block : blocks) must(core.restore_block(0, block.header, block.raw));
  must(core.end_restore());
  return seconds_since(start);
}

Figure figure(const std::string& metric, const std::string& unit, const std::string& baseline,
              double at_least) {
  return {"ps-checkpoint",
          metric,
          unit,
          Better::kMore,
          {},
          baseline,
          {},
          "",
          Must{.ratio_at_least = at_least, .value_at_most = {}}};
}

void write_and_restore(std::uint64_t rows, int rounds, const std::string& folder) {
  Figure write = figure("write", "GB/s", "write out of memory, durable", 0.8);
  Figure restore = figure("restore", "GB/s", "slower of cold read and build in memory", 0.8);
  Bare shard(rows);
  std::uint64_t id = 0;
  for (int round = 0; round < rounds; ++round) {
    std::fprintf(stderr, "ps-checkpoint: round %d\n", round + 1);
    const std::string scratch = folder + "/scratch";
    const double gigabytes = static_cast<double>(rows * kRecordBytes) * 1e-9;
    const double base = std::min(write_file(scratch, rows * kRecordBytes, false),
                                 write_file(scratch, rows * kRecordBytes, true));
    auto start = std::chrono::steady_clock::now();
    const ps::PartInfo part = write_part(shard.core, ++id, folder);
    write.values.push_back(gigabytes / seconds_since(start));
    write.baselines.push_back(gigabytes / base);

    const ps::Manifest manifest = must(ps::merge_parts("bench", {1, 1}, {part}, {}));
    const std::string path = folder + "/" + part.file;
    std::vector<ps::Block> blocks;
    must(ps::read_part(folder, part,
                       {[](const ps::BlockHeader&) { return true; },
                        [&](const ps::BlockHeader& h, std::string_view raw) -> Status {
                          blocks.push_back({h, std::string(raw)});
                          return {};
                        }}));
    const double built = build(manifest, blocks);
    blocks = {};
    make_cold(path);
    const double read = read_file(path);
    make_cold(path);
    start = std::chrono::steady_clock::now();
    ps::ShardCore core(ps::ShardSettings{}, ps::SlotMap::even(1, {1, 1}));
    must(ps::restore_shard(core, folder, manifest, false, TimePoint{1s}));
    restore.values.push_back(gigabytes / seconds_since(start));
    restore.baselines.push_back(gigabytes / std::max(built, read));
  }
  print(write);
  print(restore);
}

void train_during(std::uint64_t rows, int rounds, const std::string& folder) {
  Figure during = figure("train_during", "M rows/s", "the same without a checkpoint", 0.5);
  ShardThread shard("shm://*");
  const auto client = shard.client(ps::WorkerId{1});
  const ps::Table table = must(client->open_table(table_schema(), 60s));
  fill(rows, 65536,
       [&](const auto& keys, const auto& grads) { must(client->push(table, keys, grads, 60s)); });
  SplitMix64 rng(9);
  std::vector<std::vector<std::uint64_t>> requests(64);
  for (auto& keys : requests) {
    for (int i = 0; i < 4096; ++i) keys.push_back(key_of(rng.below(rows)));
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  }
  const std::vector<float> grads(4096 * kDim, 0.01f);
  std::size_t next = 0;
  const auto push_once = [&] {
    const auto& keys = requests[next++ % requests.size()];
    must(client->push(table, keys, {grads.data(), keys.size() * kDim}, 60s));
    return static_cast<double>(keys.size());
  };
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t id = static_cast<std::uint64_t>(round) + 1;
    std::atomic<bool> done = false;
    shard.post([&](ps::ShardLoop& loop) {
      must(loop.begin_cut({id, {}, 60s}, {.folder = folder}, [&](Result<ps::PartInfo> part) {
        must(std::move(part));
        done = true;
      }));
    });
    double pushed = 0;
    auto start = std::chrono::steady_clock::now();
    while (!done) {
      pushed += push_once();
      if (client->checkpoint_called(table).checkpoint == id) must(client->mark(id, 60s));
    }
    const double taken = seconds_since(start);
    during.values.push_back(pushed / taken * 1e-6);
    pushed = 0;
    start = std::chrono::steady_clock::now();
    while (seconds_since(start) < taken) pushed += push_once();
    during.baselines.push_back(pushed / seconds_since(start) * 1e-6);
  }
  print(during);
}

}  // namespace
}  // namespace dlrun::bench

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  const char* tmp = std::getenv("TMPDIR");
  std::string folder = std::string(tmp == nullptr ? "/tmp" : tmp) + "/dlrun-bench-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  const std::uint64_t rows = (quick ? 128ull << 20 : 1ull << 30) / dlrun::bench::kRecordBytes;
  dlrun::bench::write_and_restore(rows, quick ? 2 : 5, folder);
  dlrun::bench::train_during(rows, quick ? 2 : 5, folder);
  std::filesystem::remove_all(folder);
  return 0;
}
