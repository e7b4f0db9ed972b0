// A program written for ps-lite on one host: a worker pushes a dense tensor to a server that adds
// it, and pulls it back. Scheduler and server are processes of their own. Without a baseline.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/report/report.h"
#include "ps/ps.h"
#include "runtime/transport/zmq_transport.h"

namespace {

using Clock = std::chrono::steady_clock;

/// One key is one tensor; what is pulled is sent from where it lies.
struct AddHandle {
  std::unordered_map<ps::Key, ps::SArray<float>> store;
  void operator()(const ps::KVMeta& meta, const ps::KVPairs<float>& data,
                  ps::KVServer<float>* server) {
    ps::SArray<float>& mine = store[data.keys[0]];
    ps::KVPairs<float> res;
    if (meta.push) {
      if (mine.empty()) mine.resize(data.vals.size());
      for (std::size_t i = 0; i < mine.size(); ++i) mine[i] += data.vals[i];
    }
    if (meta.pull) {
      res.keys = data.keys;
      res.vals = mine;
      res.lens = {static_cast<int>(mine.size())};
    }
    server->Response(meta, res);
  }
};

void set_variables(const char* role, const std::string& port, bool shm) {
  ps::Environment::Init({{"DMLC_ROLE", role},
                         {"DMLC_NUM_WORKER", "1"},
                         {"DMLC_NUM_SERVER", "1"},
                         {"DMLC_PS_ROOT_URI", "127.0.0.1"},
                         {"DMLC_PS_ROOT_PORT", port},
                         {"DLRUN_PSLITE_SHM", shm ? "1" : "0"}});
}

pid_t start(const char* role, const std::string& port, bool shm) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  set_variables(role, port, shm);
  ps::Start(0);
  if (ps::IsServer()) {
    auto* server = new ps::KVServer<float>(0);
    server->set_request_handle(AddHandle());
    ps::RegisterExitCallback([server] { delete server; });
  }
  ps::Finalize(0, true);
  std::exit(0);
}

/// Seconds of one push and one pull, waited for one after the other.
double pair_seconds(ps::KVWorker<float>& kv, ps::Key key, std::size_t floats, int times) {
  const ps::SArray<ps::Key> keys({key});
  const ps::SArray<int> lens({static_cast<int>(floats)});
  const ps::SArray<float> vals(floats, 1);
  ps::SArray<float> out(floats);
  const auto began = Clock::now();
  for (int i = 0; i < times; ++i) {
    kv.Wait(kv.ZPush(keys, vals, lens));
    kv.Wait(kv.ZPull(keys, &out));
  }
  return std::chrono::duration<double>(Clock::now() - began).count() / times;
}

void measure(bool shm, int rounds) {
  std::string port;
  {
    dlrun::transport::ZmqTransport zmq;
    const auto channel = zmq.listen({{"tcp://127.0.0.1:*"}});
    if (!channel) std::abort();
    const std::string endpoint = (*channel)->endpoints()[0];
    port = endpoint.substr(endpoint.rfind(':') + 1);
  }
  const pid_t others[] = {start("scheduler", port, shm), start("server", port, shm)};
  set_variables("worker", port, shm);
  ps::Start(0);
  {
    ps::KVWorker<float> kv(0, 0);
    ps::Key key = 0;
    for (const std::size_t kib : {4, 1024, 16384}) {
      dlrun::bench::Figure figure;
      figure.bench = "pslite";
      figure.metric = "push + pull of " + std::to_string(kib) + " KiB, " + (shm ? "shm" : "tcp");
      figure.unit = "us";
      figure.better = dlrun::bench::Better::kLess;
      figure.reason = "none yet";
      const int times = kib <= 4 ? 500 : kib <= 1024 ? 50 : 5;
      ++key;
      (void)pair_seconds(kv, key, kib * 256, 3);
      for (int i = 0; i < rounds; ++i)
        figure.values.push_back(pair_seconds(kv, key, kib * 256, times) * 1e6);
      dlrun::bench::print(figure);
    }
  }
  ps::Finalize(0, true);
  for (const pid_t pid : others)
    if (pid > 0) ::waitpid(pid, nullptr, 0);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 && std::strcmp(argv[1], "--quick") == 0 ? 3 : 9;
  // One process is one node once: each transport in a child.
  for (const bool shm : {true, false}) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      measure(shm, rounds);
      return 0;
    }
    int status = 0;
    if (pid < 0 || ::waitpid(pid, &status, 0) != pid || status != 0) return 1;
  }
  return 0;
}
