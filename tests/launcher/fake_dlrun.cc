// A `dlrun` for tests of local clusters: the launcher is the real one; `coordinator` serves REST
// over the fake control plane and `agent` only says that it is there, by a file. A job {"exit",
// "7"} prints a line and ends with 7; {"hang"} runs until killed.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "launcher/launcher_main.h"
#include "tests/web/fake_cluster.h"

namespace {
using namespace dlrun;
using nlohmann::json;
namespace fs = std::filesystem;

std::string flag(int argc, char** argv, const char* name) {
  for (int i = 0; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], name) == 0) return argv[i + 1];
  return "";
}

sigset_t term_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  return set;
}

int coordinator(const fs::path& data) {
  const sigset_t set = term_set();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  if (fs::exists(data / "refuse"))
    return std::fprintf(stderr, "the data folder is of a newer version\n"), 1;
  test::FakeControl control;
  test::FakeLogs logs;
  test::FakeMetrics metrics;
  const auto end = [&](JobId id, int code) {
    const web::LogRef ref{{.job = id, .role = "worker", .rank = 0, .generation = Generation{1}},
                          web::LogStream::kStdout};
    logs.complete(ref);
    logs.complete({ref.task, web::LogStream::kStderr});
    control.update(id, [&](auto& view) { test::end_job(view, code); });
    std::ofstream(data / "ended", std::ios::app) << to_string(id) << " " << code << "\n";
  };
  control.on_submit([&](JobId id) {
    const auto argv = control.job(id).spec.roles[0].argv;
    control.update(id, [&](auto& view) {
      const auto keep = view.spec;
      view = test::running_job();
      view.id = id;
      view.spec = keep;
      view.tasks[0].task.job = id;
    });
    logs.append({{.job = id, .role = "worker", .rank = 0, .generation = Generation{1}},
                 web::LogStream::kStdout},
                "hello\n");
    if (argv[0] == "exit") end(id, std::stoi(argv.at(1)));
  });
  control.on_kill([&](JobId id) { end(id, 143); });
  web::ServerOptions options;
  options.bearer_token = test::kToken;
  auto server = web::RestServer::start(options, control, logs, metrics);
  if (!server) return std::fprintf(stderr, "%s\n", server.error().context.c_str()), 1;
  std::ofstream(data / "token") << test::kToken;
  std::ofstream(data / "join_token") << "t";
  std::ofstream(data / "cluster.json.tmp")
      << json{{"rest", (*server)->url()}, {"token_file", (data / "token").string()},
              {"join", "127.0.0.1:1"},    {"join_token_file", (data / "join_token").string()},
              {"ca_fingerprint", "ab"},   {"pid", ::getpid()}}
             .dump();
  fs::rename(data / "cluster.json.tmp", data / "cluster.json");
  for (;;) {
    std::vector<cluster::NodeView> nodes;
    for (const auto& entry : fs::directory_iterator(data.parent_path()))
      if (fs::exists(entry.path() / "up")) nodes.push_back({.id = NodeId{entry.path().filename()}});
    control.set_nodes(std::move(nodes));
    const timespec wait{0, 10'000'000};
    if (::sigtimedwait(&set, nullptr, &wait) == SIGTERM) return 0;
  }
}

int agent(const fs::path& data) {
  if (fs::exists(data / "refuse")) return std::fprintf(stderr, "the clock is set back\n"), 1;
  const sigset_t set = term_set();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  std::ofstream(data / "up") << "x";
  int signal = 0;
  ::sigwait(&set, &signal);
  fs::remove(data / "up");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "coordinator") == 0)
    return coordinator(flag(argc, argv, "--data"));
  if (argc > 1 && std::strcmp(argv[1], "agent") == 0) return agent(flag(argc, argv, "--data"));
  return launcher::launcher_main(argc, argv);
}
