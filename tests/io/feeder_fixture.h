#pragma once
/// tests/io/feeder_fixture.h: a Feeder over files in a temporary folder, with a job in memory, and
/// consumers that read it.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "io/core/taken_splits.h"
#include "io/feeder/feeder.h"
#include "io/pipe/protocol.h"
#include "io/pipe/reader.h"
#include "io/source/local_source.h"
#include "tests/io/fake_agent_link.h"

extern char** environ;

namespace dlrun::io {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

inline std::size_t open_fds() {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/fd")) ++n;
  return n;
}
/// Shared memory of the machine's memfds that this process maps or holds.
inline std::size_t memfd_maps() {
  std::ifstream maps("/proc/self/maps");
  std::size_t n = 0;
  for (std::string line; std::getline(maps, line);) n += line.find("memfd:dlrun-") != line.npos;
  return n;
}
inline bool eventually(const std::function<bool()>& holds) {
  const TimePoint deadline = pipe::now() + 20s;
  while (!holds()) {
    if (pipe::now() > deadline) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

/// pass -> first id of each row
using Rows = std::map<std::uint32_t, std::multiset<std::uint64_t>>;

/// What one consumer saw.
struct Seen {
  Rows rows;
  std::vector<std::uint32_t> marks;
  std::vector<std::uint64_t> order;
  std::vector<std::uint64_t> batch_rows;
  Error end;
};

class FeederTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "dlrun-feeder-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    spec_.name = "train";
    spec_.batch_rows = 10;
    spec_.split_bytes = 200;
    spec_.uris = {dir_.string() + "/data"};
    fs::create_directory(dir_ / "data");
  }
  void TearDown() override {
    feeder_.reset();
    fs::remove_all(dir_);
  }

  /// Files of rows whose first id counts from 0 through all of them.
  void write_rows(const std::vector<int>& rows_of_files) {
    std::uint64_t id = 0;
    for (std::size_t f = 0; f < rows_of_files.size(); ++f) {
      std::ofstream out(dir_ / "data" / ("part-" + std::to_string(f)));
      for (int i = 0; i < rows_of_files[f]; ++i, ++id)
        out << (id % 2) << ' ' << id << ":1 " << (1000000 + id) << ":" << id << ".5\n";
    }
    rows_ = id;
  }
  /// Puts a gzip file in place of a plain one.
  void pack(const std::string& name, const std::string& as) {
    std::stringstream text;
    text << std::ifstream(dir_ / "data" / name, std::ios::binary).rdbuf();
    fs::remove(dir_ / "data" / name);
    const std::string path = (dir_ / "data" / as).string();
    const gzFile file = ::gzopen(path.c_str(), "wb");
    ASSERT_NE(file, nullptr);
    const std::string bytes = text.str();
    ASSERT_EQ(::gzwrite(file, bytes.data(), static_cast<unsigned int>(bytes.size())),
              static_cast<int>(bytes.size()));
    ASSERT_EQ(::gzclose(file), Z_OK);
  }
  void start(FeederOptions options = {}) {
    link_ = std::make_unique<FakeAgentLink>(std::vector<InputSpec>{spec_});
    options.socket_path = (dir_ / "feeder.sock").string();
    feeder_ = std::make_unique<Feeder>(options, source_, *link_);
    const Status started = feeder_->start();
    ASSERT_TRUE(started) << started.error().to_string();
  }
  static TaskId worker(std::uint8_t n) { return {JobId(1), "worker", n, Generation(1)}; }
  static cluster::Token token(std::uint8_t n) {
    cluster::Token t{};
    t[0] = n;
    return t;
  }
  void admit(std::uint8_t n) { feeder_->admit({token(n), worker(n), {}, spec_}); }
  Result<std::unique_ptr<PipeReader>> attach(std::uint8_t n) {
    return PipeReader::attach((dir_ / "feeder.sock").string(), token(n), 20s);
  }
  Seen read_all(std::uint8_t n, Duration pause = Duration{0}) {
    Seen seen;
    auto reader = attach(n);
    EXPECT_TRUE(reader) << reader.error().to_string();
    if (!reader) return seen;
    for (;;) {
      const auto view = (*reader)->next(20s);
      if (!view) {
        seen.end = view.error();
        return seen;
      }
      if (view->pass_ended) {
        seen.marks.push_back(view->pass);
        continue;
      }
      seen.batch_rows.push_back(view->rows);
      for (std::size_t row = 0; row < view->rows; ++row) {
        const auto at = static_cast<std::size_t>(view->offsets[row]);
        const std::uint64_t id = view->ids[at];
        EXPECT_EQ(view->labels[row], static_cast<float>(id % 2));
        EXPECT_EQ(view->ids[at + 1], 1000000 + id);
        EXPECT_EQ(view->values[at + 1], static_cast<float>(id) + 0.5f);
        seen.rows[view->pass].insert(id);
        seen.order.push_back(id);
      }
      if (pause > Duration{0}) std::this_thread::sleep_for(pause);
      (*reader)->release(*view);
    }
  }
  std::multiset<std::uint64_t> every_row() const {
    std::multiset<std::uint64_t> all;
    for (std::uint64_t id = 0; id < rows_; ++id) all.insert(id);
    return all;
  }
  pid_t spawn(const std::vector<std::string>& args, int* out) {
    const char* build = std::getenv("DLRUN_BUILD_DIR");
    const std::string program =
        build != nullptr
            ? std::string(build) + "/bin/pipe_peer"
            : (fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "bin" / "pipe_peer")
                  .string();
    int fds[2];
    EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
    std::vector<char*> argv{const_cast<char*>(program.c_str())};
    for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
    argv.push_back(nullptr);
    pid_t pid = -1;
    EXPECT_EQ(::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ), 0)
        << program;
    posix_spawn_file_actions_destroy(&actions);
    ::close(fds[1]);
    *out = fds[0];
    return pid;
  }
  static std::string read_until(int fd, const std::string& word) {
    std::string text;
    char buffer[4096];
    while (text.find(word) == text.npos) {
      const ssize_t n = ::read(fd, buffer, sizeof buffer);
      if (n <= 0) break;
      text.append(buffer, static_cast<std::size_t>(n));
    }
    return text;
  }

  fs::path dir_;
  InputSpec spec_;
  std::uint64_t rows_ = 0;
  LocalSource source_;
  std::unique_ptr<FakeAgentLink> link_;
  std::unique_ptr<Feeder> feeder_;
};

}  // namespace dlrun::io
