// The interface before customers: Start(), KVWorker(app), Barrier(group), Finalize().
#include "ps/ps.h"

int main(int /*argc*/, char** argv) {
  ps::Start(argv[0]);
  if (ps::IsServer()) {
    auto* server = new ps::KVServer<float>(0);
    server->set_request_handle(ps::KVServerDefaultHandle<float>());
    ps::RegisterExitCallback([server] { delete server; });
  }
  if (ps::IsWorker()) {
    ps::KVWorker<float> kv(0);
    kv.Wait(kv.Push({1, 3}, {1.5f, 2.5f, 3.5f, 4.5f}));
    ps::Postoffice::Get()->Barrier(ps::kWorkerGroup);
    std::vector<float> out;
    kv.Wait(kv.Pull({1, 3}, &out));
    const float n = static_cast<float>(ps::NumWorkers());
    CHECK(out == (std::vector<float>{1.5f * n, 2.5f * n, 3.5f * n, 4.5f * n}));
  }
  ps::SimpleApp app(5);
  ps::Postoffice::Get()->Barrier(ps::kScheduler + ps::kServerGroup + ps::kWorkerGroup);
  if (ps::IsScheduler()) app.Wait(app.Request(1, "hello", ps::kWorkerGroup));
  ps::Finalize();
  return 0;
}
