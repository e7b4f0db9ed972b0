#pragma once
/// tests/launcher/cli_fixture.h: the whole command line against a live REST server over a fake
/// control plane.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "launcher/launcher_main.h"
#include "launcher/world.h"
#include "tests/web/server_fixture.h"

namespace dlrun::launcher {
using namespace std::chrono_literals;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Cli : public test::ServerFixture {
 protected:
  void SetUp() override {
    web::ServerOptions options;
    options.log_grace = 2s;
    serve(options);
    home = std::filesystem::temp_directory_path() / ("cli_test_" + std::to_string(::getpid()));
    std::filesystem::create_directories(home);
    write("cluster.json", json{{"rest", server->url()}, {"token_file", "token"}}.dump());
    write("token", std::string(test::kToken) + "\n");
    world.home = home;
    world.cwd = home;
    world.user = "me";
    world.environment = {{"PATH", "/bin"}};
    ASSERT_EQ(::pipe2(interrupt, O_CLOEXEC | O_NONBLOCK), 0);
  }
  void TearDown() override {
    ::close(interrupt[0]), ::close(interrupt[1]);
    std::filesystem::remove_all(home);
  }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(home / name, std::ios::binary) << text;
  }

  int cli(std::vector<std::string> args) {
    world.out_fd = ::memfd_create("out", MFD_CLOEXEC);
    world.err_fd = ::memfd_create("err", MFD_CLOEXEC);
    const int code = run_cli(args, world);
    out = slurp(world.out_fd), err = slurp(world.err_fd);
    return code;
  }
  /// On stderr (stdout) until now, while a command runs.
  std::string said() const { return written(world.err_fd); }
  std::string printed() const { return written(world.out_fd); }
  static std::string written(int fd) {
    std::string text(1u << 16, '\0');
    const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
    text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return text;
  }
  static bool eventually(const std::function<bool()>& holds) {
    const auto until = std::chrono::steady_clock::now() + 20s;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(2ms);
    }
    return true;
  }
  /// The control plane was asked `more` times more.
  bool asked(std::size_t before, std::size_t more) {
    return eventually([&] { return control.calls() >= before + more; });
  }
  static std::string slurp(int fd) {
    std::string text(static_cast<std::size_t>(::lseek(fd, 0, SEEK_END)), '\0');
    EXPECT_EQ(::pread(fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    ::close(fd);
    return text;
  }
  static web::LogRef ref(JobId job, std::uint32_t rank = 0,
                         web::LogStream stream = web::LogStream::kStdout) {
    return {{.job = job, .role = "worker", .rank = rank, .generation = Generation{1}}, stream};
  }
  void start(JobId id) {
    const auto spec = control.job(id).spec;
    control.update(
        id,
        [&](auto& view) {
          const auto keep = view.spec;
          view = test::running_job(spec.roles[0].count_max);
          view.id = id;
          view.spec = keep;
          for (auto& task : view.tasks) task.task.job = id;
        },
        "job_running");
  }
  void a_kill_ends_the_job() {
    control.on_kill([&](JobId id) {
      const auto view = control.job(id);
      for (const auto& task : view.tasks)
        for (const auto stream : {web::LogStream::kStdout, web::LogStream::kStderr})
          logs.complete({task.task, stream});
      control.update(id, [](auto& v) {
        test::end_job(v, 130);
        v.state = cluster::JobState::kCancelled;
      });
    });
  }
  void finish(JobId id, int code) {
    const auto view = control.job(id);
    for (const auto& task : view.tasks)
      for (const auto stream : {web::LogStream::kStdout, web::LogStream::kStderr})
        logs.complete({task.task, stream});
    control.update(
        id, [&](auto& v) { test::end_job(v, code); }, "job_ended");
  }

  std::filesystem::path home;
  World world;
  int interrupt[2] = {-1, -1};
  std::string out, err;
};

}  // namespace dlrun::launcher
