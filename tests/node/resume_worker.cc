/// resume_worker OUT GATE: a worker of the resume test. Reads its share of "train" and commits
/// after every third batch. What it does stands in OUT.<generation>.<rank>, each line there before
/// the next thing is done, so that a kill -9 loses none:
///   from TAG          the commit that it begins from; "-" = none
///   batch PASS HASH ID...   next() returned it: a hash of all its bytes, the first id of each row
///   enter TAG         it enters this commit
///   refused           and it was not made
///   end               there is no more
/// Slow until the file GATE is there.

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "dlrun/dlrun.hpp"

namespace {

using namespace dlrun::api;

class Diary {
 public:
  explicit Diary(const std::string& path)
      : fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {}
  ~Diary() {
    if (fd_ >= 0) ::close(fd_);
  }
  Diary(const Diary&) = delete;
  Diary& operator=(const Diary&) = delete;
  bool write(std::string line) const {
    line += '\n';
    return fd_ >= 0 && ::write(fd_, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  }

 private:
  int fd_;
};

void add(std::uint64_t& hash, const void* data, std::size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 0x100000001b3u;
}

std::string line_of(const dlrun_batch& batch) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const std::size_t rows = batch.rows;
  std::string ids;
  if (rows > 0) {
    const auto values = static_cast<std::size_t>(batch.offsets[rows]);
    add(hash, batch.offsets, (rows + 1) * sizeof batch.offsets[0]);
    add(hash, batch.labels, rows * sizeof batch.labels[0]);
    add(hash, batch.ids, values * sizeof batch.ids[0]);
    add(hash, batch.values, values * sizeof batch.values[0]);
    for (std::size_t row = 0; row < rows; ++row)
      ids += " " + std::to_string(batch.ids[batch.offsets[row]]);
  }
  return "batch " + std::to_string(batch.pass) + " " + std::to_string(hash) + ids;
}

int run(const std::string& out, const std::string& gate) {
  Session task;
  const std::string generation = std::to_string(task.info().generation);
  const Diary diary(out + "." + generation + "." + std::to_string(task.rank()));
  if (!diary.write("from " + task.committed().value_or("-"))) return 3;
  Input train = task.input("train");
  bool commits = true;
  for (int taken = 1;; ++taken) {
    {
      const auto batch = train.next();
      if (!batch) break;
      if (!diary.write(line_of(**batch))) return 3;
    }
    if (::access(gate.c_str(), F_OK) != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(40));
    if (taken % 3 != 0 || !commits) continue;
    const std::string tag = generation + "/" + std::to_string(taken);
    if (!diary.write("enter " + tag)) return 3;
    try {
      task.commit(tag);
    } catch (const Failure& failure) {
      if (!diary.write("refused")) return 3;
      std::fprintf(stderr, "resume_worker: %s\n", failure.what());
      commits = false;
    }
  }
  return diary.write("end") ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 64;
  try {
    return run(argv[1], argv[2]);
  } catch (const dlrun::api::Failure& failure) {
    std::fprintf(stderr, "resume_worker: %s\n", failure.what());
    return 1;
  }
}
