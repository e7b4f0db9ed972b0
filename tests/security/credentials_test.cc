#include "runtime/security/credentials.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>

#include "runtime/security/secret.h"
#include "tests/security/temp_folder.h"

namespace dlrun::security {
namespace {

WallTime now() { return SystemClock().wall(); }

struct Identity {
  std::string key, certificate;
};
Identity make_identity(const PemPair& ca) {
  Identity out;
  out.key = make_key().value();
  out.certificate = sign_csr(ca, make_csr(out.key, "node-1").value(),
                             {CertKind::kAgent, "node-1", std::chrono::hours(24), now()})
                        .value();
  return out;
}

/// Runs `work` in a process that is killed as it enters its n-th system call. False: it came to its
/// end before that.
bool killed_at_system_call(int n, const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child < 0) std::abort();  // kill(-1) would end every process
  if (child == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    work();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSTOPPED(status)) << "tracing is not allowed here";
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  for (int stops = 0;;) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    if (::waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return false;
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
    if (++stops != 2 * n - 1) continue;  // each stops at its begin and at its end
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    return true;
  }
}

TEST(Credentials, AKillAtAnyStepOfARenewalLeavesAKeyWithItsOwnCertificate) {
  const PemPair ca = make_ca("test", now()).value();
  const Identity first = make_identity(ca);
  const Identity second = make_identity(ca);
  std::set<std::string> found;
  bool killed = true;
  int n = 0;
  while (killed) {
    const TempFolder temp;
    const std::string folder = temp / "tls";
    ASSERT_TRUE(store_node(folder, first.key, first.certificate, ca.certificate_pem));
    ASSERT_TRUE(store_node(folder, first.key, first.certificate, ca.certificate_pem));
    killed = killed_at_system_call(
        ++n, [&] { (void)store_node(folder, second.key, second.certificate, ca.certificate_pem); });
    const auto node = open_node(folder, CertKind::kAgent, now());
    ASSERT_TRUE(node) << "at system call " << n << ": " << node.error().to_string();
    found.insert(node->key_pem);
    // What was left half made does not stand in the next one's way.
    const Identity third = second;
    ASSERT_TRUE(store_node(folder, third.key, third.certificate, ca.certificate_pem)) << n;
    EXPECT_EQ(open_node(folder, CertKind::kAgent, now())->key_pem, third.key) << n;
  }
  EXPECT_GT(n, 20);
  EXPECT_EQ(found, (std::set<std::string>{first.key, second.key}));
}

TEST(Credentials, AKillAtAnyStepOfTheFirstJoinLeavesNothingOrAll) {
  const PemPair ca = make_ca("test", now()).value();
  const Identity own = make_identity(ca);
  bool killed = true;
  for (int n = 1; killed; ++n) {
    const TempFolder temp;
    const std::string folder = temp / "tls";
    killed = killed_at_system_call(
        n, [&] { (void)store_node(folder, own.key, own.certificate, ca.certificate_pem); });
    const auto node = open_node(folder, CertKind::kAgent, now());
    EXPECT_TRUE(node || node.error().code == Errc::kNotFound)
        << "at system call " << n << ": " << node.error().to_string();
    EXPECT_TRUE(node || killed);
  }
}

TEST(Credentials, AWriteThatFailsLeavesTheSetInUse) {
  const PemPair ca = make_ca("test", now()).value();
  const Identity first = make_identity(ca);
  const Identity second = make_identity(ca);
  const TempFolder temp;
  const std::string folder = temp / "tls";
  ASSERT_TRUE(store_node(folder, first.key, first.certificate, ca.certificate_pem));
  // Nothing longer than the key can be written: as on a full disk, between key and certificate.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const ignored = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{(second.certificate + ca.certificate_pem).size() - 1, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status stored = store_node(folder, second.key, second.certificate, ca.certificate_pem);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, ignored);
  EXPECT_FALSE(stored);
  const auto node = open_node(folder, CertKind::kAgent, now());
  ASSERT_TRUE(node) << node.error().to_string();
  EXPECT_EQ(node->key_pem, first.key);
}

}  // namespace
}  // namespace dlrun::security
