// Programs to ps-lite's public interface, one for each first argument. Every process of a job runs
// it with the same arguments; what is wrong is a CHECK.
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "ps/ps.h"

using namespace ps;

namespace {

/// A server with the handle that adds, for the length of the job.
template <typename Val>
void ServeSums() {
  if (!IsServer()) return;
  auto* server = new KVServer<Val>(0);
  server->set_request_handle(KVServerDefaultHandle<Val>());
  RegisterExitCallback([server] { delete server; });
}

std::vector<Key> SpreadKeys(int n) {
  std::vector<Key> keys;
  for (int i = 0; i < n; ++i) keys.push_back(kMaxKey / n * i + i);
  keys.push_back(kMaxKey);  // the last key there is
  return keys;
}

// Every worker pushes its rank + 1 many times; the sums are exact in float.
void Sums() {
  Start(0);
  ServeSums<float>();
  if (IsWorker()) {
    KVWorker<float> kv(0, 0);
    const std::vector<Key> keys = SpreadKeys(5000);
    const std::vector<float> vals(keys.size(), MyRank() + 1.0f);
    std::vector<int> open;
    for (int i = 0; i < 20; ++i) open.push_back(kv.Push(keys, vals));
    for (const int ts : open) kv.Wait(ts);
    Postoffice::Get()->Barrier(0, kWorkerGroup);
    std::vector<float> sums;
    kv.Wait(kv.Pull(keys, &sums));
    const int n = NumWorkers();
    CHECK_EQ(sums.size(), keys.size());
    for (const float sum : sums) CHECK_EQ(sum, 20.0f * n * (n + 1) / 2);
    // No keys at all: done at once.
    std::vector<float> nothing;
    kv.Wait(kv.Pull({}, &nothing));
    CHECK(nothing.empty());
    Postoffice::Get()->Barrier(0, kWorkerGroup);
    // Push and pull in one: keys of this worker alone.
    std::vector<Key> own;
    for (int i = 0; i < 100; ++i) own.push_back(kMaxKey / 100 * i + 77 + MyRank());
    std::vector<float> ones(own.size(), 1), outs;
    for (int i = 1; i <= 10; ++i) {
      kv.Wait(kv.PushPull(own, ones, &outs));
      for (const float out : outs) CHECK_EQ(out, i);
    }
    // Without copies; a part of an array.
    SArray<Key> zkeys(own);
    SArray<float> zvals(ones), zouts;
    kv.Wait(kv.ZPush(zkeys.segment(10, 20), zvals.segment(10, 20)));
    kv.Wait(kv.ZPull(zkeys, &zouts));
    for (size_t i = 0; i < own.size(); ++i) CHECK_EQ(zouts[i], i >= 10 && i < 20 ? 11 : 10);
  }
  Finalize(0, true);
}

// Values of many bytes: cut into segments, put together, in order.
void Large() {
  Start(0);
  ServeSums<double>();
  if (IsWorker()) {
    KVWorker<double> kv(0, 0);
    const size_t n = 400000;
    std::vector<Key> keys(n);
    std::vector<double> vals(n);
    for (size_t i = 0; i < n; ++i) {
      keys[i] = kMaxKey / n * i;
      vals[i] = static_cast<double>(i) + 0.25;
    }
    kv.Wait(kv.Push(keys, vals));
    Postoffice::Get()->Barrier(0, kWorkerGroup);
    std::vector<double> out(n);
    kv.Wait(kv.Pull(keys, &out));
    for (size_t i = 0; i < n; ++i) CHECK_EQ(out[i], NumWorkers() * vals[i]);
  }
  Finalize(0, true);
}

// Key k has k % 5 values; lens go and come back.
void Ragged() {
  Start(0);
  ServeSums<int>();
  if (IsWorker()) {
    KVWorker<int> kv(0, 0);
    std::vector<Key> keys;
    std::vector<int> vals, lens;
    for (int i = 0; i < 1000; ++i) {
      keys.push_back(kMaxKey / 1000 * i);
      lens.push_back(1 + i % 5);
      for (int k = 0; k < lens.back(); ++k) vals.push_back(i * 10 + k);
    }
    kv.Wait(kv.Push(keys, vals, lens));
    Postoffice::Get()->Barrier(0, kWorkerGroup);
    std::vector<int> out, out_lens;
    kv.Wait(kv.Pull(keys, &out, &out_lens));
    CHECK(out_lens == lens);
    CHECK_EQ(out.size(), vals.size());
    for (size_t i = 0; i < out.size(); ++i) CHECK_EQ(out[i], NumWorkers() * vals[i]);
  }
  Finalize(0, true);
}

// Requests with bodies from the scheduler to everybody, itself too; from workers to servers; from
// servers to workers. Answers carry what was asked.
void Simple() {
  std::atomic<int> requests(0);
  std::mutex mutex;
  std::map<int, std::multiset<std::string>> answers;  // by request
  Start(0);
  {
    SimpleApp app(0, 0);
    app.set_request_handle([&](const SimpleData& req, SimpleApp* self) {
      CHECK_EQ(req.body.size(), static_cast<size_t>(req.head));
      ++requests;
      self->Response(req, std::to_string(Postoffice::Get()->van()->my_node().id) + req.body);
    });
    app.set_response_handle([&](const SimpleData& res, SimpleApp*) {
      const std::lock_guard<std::mutex> lock(mutex);
      answers[res.timestamp].insert(res.body);
    });
    Postoffice::Get()->Barrier(0, kScheduler + kServerGroup + kWorkerGroup);
    const int to = IsScheduler() ? kScheduler + kServerGroup + kWorkerGroup
                   : IsWorker()  ? kServerGroup
                                 : kWorkerGroup;
    std::vector<int> open;
    for (int i = 0; i < 50; ++i) open.push_back(app.Request(i * 7, std::string(i * 7, 'b'), to));
    const std::vector<int> nodes = Postoffice::Get()->GetNodeIDs(to);
    for (int i = 0; i < 50; ++i) {
      app.Wait(open[i]);
      std::multiset<std::string> wanted;
      for (const int node : nodes) wanted.insert(std::to_string(node) + std::string(i * 7, 'b'));
      const std::lock_guard<std::mutex> lock(mutex);
      CHECK(answers[open[i]] == wanted) << "request " << i;
    }
    Postoffice::Get()->Barrier(0, kScheduler + kServerGroup + kWorkerGroup);
  }
  const int n = IsScheduler() ? 50 : 50 + 50 * (IsWorker() ? NumServers() : NumWorkers());
  CHECK_EQ(requests.load(), n);
  Finalize(0, true);
}

// One worker process with two customers that each count as a worker: DMLC_NUM_WORKER is 2.
void Customers() {
  const char* role = Environment::Get()->find("DMLC_ROLE");
  if (std::string(role) != "worker") {
    Start(0);
    ServeSums<float>();
    Finalize(0, true);
    return;
  }
  const auto run = [](int customer) {
    Start(customer);
    {
      KVWorker<float> kv(0, customer);
      std::vector<Key> keys;
      for (int i = 0; i < 500; ++i) keys.push_back(kMaxKey / 500 * i + customer);
      const std::vector<float> vals(keys.size(), customer + 1.0f);
      for (int i = 0; i < 10; ++i) kv.Wait(kv.Push(keys, vals));
      Postoffice::Get()->Barrier(customer, kWorkerGroup);
      std::vector<float> out;
      kv.Wait(kv.Pull(keys, &out));
      for (const float v : out) CHECK_EQ(v, 10 * (customer + 1));
    }
    if (customer != 0) Finalize(customer, true);
  };
  std::thread first(run, 0), second(run, 1);
  first.join();
  std::thread last([] { Finalize(0, true); });
  second.join();
  last.join();
}

// Several apps and customers after one Start; a callback on one thread, waiting on another.
void Callbacks() {
  Start(0);
  std::vector<KVServer<float>*> servers;
  if (IsServer()) {
    for (const int app : {0, 1}) {
      servers.push_back(new KVServer<float>(app));
      servers.back()->set_request_handle(KVServerDefaultHandle<float>());
    }
    RegisterExitCallback([servers] {
      for (KVServer<float>* server : servers) delete server;
    });
  }
  if (IsWorker()) {
    KVWorker<float> a(0, 0), b(1, 1), c(0, 2);
    std::mutex mutex;
    std::condition_variable cv;
    int done = 0;
    std::vector<std::thread> threads;
    for (KVWorker<float>* kv : {&a, &b, &c}) {
      threads.emplace_back([&, kv] {
        for (int i = 0; i < 20; ++i)
          kv->Push({7, kMaxKey / 2 + 7}, {1, 2}, {}, 0, [&] {
            const std::lock_guard<std::mutex> lock(mutex);
            ++done;
            cv.notify_all();
          });
      });
    }
    {
      std::unique_lock<std::mutex> lock(mutex);
      CHECK(cv.wait_for(lock, std::chrono::seconds(30), [&] { return done == 60; }));
    }
    for (std::thread& thread : threads) thread.join();
    Postoffice::Get()->Barrier(0, kWorkerGroup);
    std::vector<float> out;
    // A callback that starts the next request.
    std::vector<float> second;
    bool both = false;
    a.Pull({7, kMaxKey / 2 + 7}, &out, nullptr, 0, [&] {
      b.Pull({7, kMaxKey / 2 + 7}, &second, nullptr, 0, [&] {
        const std::lock_guard<std::mutex> lock(mutex);
        both = true;
        cv.notify_all();
      });
    });
    std::unique_lock<std::mutex> lock(mutex);
    CHECK(cv.wait_for(lock, std::chrono::seconds(30), [&] { return both; }));
    const float n = NumWorkers();
    CHECK(out == (std::vector<float>{40 * n, 80 * n}));  // a and c share an app
    CHECK(second == (std::vector<float>{20 * n, 40 * n}));
  }
  Finalize(0, true);
}

// Barriers of each group that a node is in, in an order that would block if they were one.
void Groups() {
  Start(0);
  Postoffice* office = Postoffice::Get();
  for (int round = 0; round < 20; ++round) {
    if (IsWorker()) office->Barrier(0, kWorkerGroup);
    if (IsServer()) office->Barrier(0, kServerGroup);
    if (!IsServer()) office->Barrier(0, kWorkerGroup + kScheduler);
    if (!IsScheduler()) office->Barrier(0, kWorkerGroup + kServerGroup);
    office->Barrier(0, kWorkerGroup + kServerGroup + kScheduler);
  }
  CHECK_EQ(office->GetNodeIDs(kWorkerGroup).size(), static_cast<size_t>(NumWorkers()));
  CHECK_EQ(office->GetNodeIDs(7).size(), static_cast<size_t>(NumWorkers() + NumServers() + 1));
  const std::vector<Range>& ranges = office->GetServerKeyRanges();
  CHECK_EQ(ranges.size(), static_cast<size_t>(NumServers()));
  CHECK_EQ(ranges.front().begin(), 0u);
  CHECK_EQ(ranges.back().end(), kMaxKey);
  if (!IsScheduler()) CHECK_EQ(Postoffice::IDtoRank(office->van()->my_node().id), MyRank());
  Finalize(0, true);
}

// A server that answers when all workers have pushed a key: synchronous training.
void Synchronous() {
  Start(0);
  struct Round {
    std::vector<KVMeta> waiting;
    float sum = 0;
  };
  if (IsServer()) {
    auto* server = new KVServer<float>(0);
    auto* rounds = new std::map<Key, Round>;
    server->set_request_handle(
        [rounds](const KVMeta& meta, const KVPairs<float>& data, KVServer<float>* self) {
          CHECK_EQ(data.keys.size(), 1u);
          CHECK_EQ(meta.cmd, 5);
          Round& round = (*rounds)[data.keys[0]];
          round.sum += data.vals[0];
          round.waiting.push_back(meta);
          if (round.waiting.size() < static_cast<size_t>(NumWorkers())) return;
          KVPairs<float> res;
          res.keys = data.keys;
          res.vals = SArray<float>(1, round.sum);
          for (const KVMeta& each : round.waiting) self->Response(each, res);
          rounds->erase(data.keys[0]);
        });
    RegisterExitCallback([server, rounds] {
      delete server;
      delete rounds;
    });
  }
  if (IsWorker()) {
    KVWorker<float> kv(0, 0);
    for (int step = 0; step < 50; ++step) {
      std::vector<float> outs;
      kv.Wait(kv.PushPull({static_cast<Key>(step)}, {MyRank() + 1.0f}, &outs, nullptr, 5));
      CHECK_EQ(outs[0], NumWorkers() * (NumWorkers() + 1) / 2);
    }
  }
  Finalize(0, true);
}

// Nobody waits for the others at the start; at the end in a barrier of the program's own.
void NoBarriers() {
  StartAsync(0);
  ServeSums<float>();
  if (IsWorker()) {
    KVWorker<float> kv(0, 0);
    kv.Wait(kv.Push({1, kMaxKey - 1}, {1, 2}));
  }
  Postoffice::Get()->Barrier(0, kWorkerGroup + kServerGroup + kScheduler);
  Finalize(0, false);
}

// Keeps everybody busy until somebody is killed.
void Forever(const std::string& how) {
  Start(0);
  ServeSums<float>();
  if (IsWorker()) {
    KVWorker<float> kv(0, 0);
    LOG(INFO) << "training";
    const std::vector<Key> keys = SpreadKeys(100);
    const std::vector<float> vals(keys.size(), 1);
    while (how == "waiting") {
      kv.Wait(kv.Push(keys, vals));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    // Only callbacks tell this one.
    std::mutex mutex;
    std::condition_variable cv;
    while (true) {
      bool done = false;
      kv.Push(keys, vals, {}, 0, [&] {
        const std::lock_guard<std::mutex> lock(mutex);
        done = true;
        cv.notify_all();
      });
      std::unique_lock<std::mutex> lock(mutex);
      cv.wait(lock, [&] { return done; });
    }
  }
  Finalize(0, true);
}

// A handler that is wrong, and one that never answers.
void BadHandler(bool throws) {
  Start(0);
  if (IsServer()) {
    auto* server = new KVServer<float>(0);
    server->set_request_handle(
        [throws](const KVMeta&, const KVPairs<float>& data, KVServer<float>*) {
          if (throws) CHECK_EQ(data.keys.size(), 5u) << "five keys were expected";
        });
    RegisterExitCallback([server] { delete server; });
  }
  if (IsWorker()) {
    KVWorker<float> kv(0, 0);
    kv.Wait(kv.Push({1}, {1}));
  }
  Finalize(0, true);
}

// The generation that names its role in the call.
void Roles() {
  const std::string role = Environment::Get()->find("DMLC_ROLE");
  const int wish = role == "worker" ? std::atoi(Environment::Get()->find("WISH")) : -1;
  StartPS(0, GetRole(role), wish, true);
  ServeSums<float>();
  if (wish >= 0) {
    CHECK_EQ(MyRank(), wish);
    KVWorker<float> kv(0, 0, 0);
    kv.Wait(kv.Push({1}, {1}));
    CHECK_EQ(Postoffice::GetWorker()->num_servers(), NumServers());
  }
  Finalize(0, GetRole(role), true);
}

// Variables given in the program.
void Given() {
  Environment::Init({{"DMLC_ROLE", Environment::Get()->find("MY_ROLE")}});
  Sums();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "sums")
    Sums();
  else if (what == "large")
    Large();
  else if (what == "ragged")
    Ragged();
  else if (what == "simple")
    Simple();
  else if (what == "customers")
    Customers();
  else if (what == "callbacks")
    Callbacks();
  else if (what == "groups")
    Groups();
  else if (what == "synchronous")
    Synchronous();
  else if (what == "no-barriers")
    NoBarriers();
  else if (what == "forever-waiting")
    Forever("waiting");
  else if (what == "forever-calling")
    Forever("calling");
  else if (what == "throws")
    BadHandler(true);
  else if (what == "silent")
    BadHandler(false);
  else if (what == "roles")
    Roles();
  else if (what == "given")
    Given();
  else
    return 64;
  return 0;
}
