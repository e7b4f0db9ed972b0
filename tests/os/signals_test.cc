#include "runtime/os/signals.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace dlrun::os {
namespace {

bool readable(const SignalFd& signals) {
  pollfd fd{signals.get(), POLLIN, 0};
  return ::poll(&fd, 1, 0) == 1;
}

/// What `body` says, 0 to 255, in a process of its own: this one keeps its mask.
template <class Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(SignalFd, ASignalIsReadAndInterruptsNobody) {
  EXPECT_EQ(in_child([] {
              auto signals = SignalFd::open({SIGTERM, SIGUSR1});
              if (!signals) return 1;
              if (readable(*signals) || signals->next()) return 2;
              std::thread([] { ::kill(::getpid(), SIGTERM); }).join();
              if (!readable(*signals)) return 3;
              if (signals->next() != SIGTERM) return 4;
              if (signals->next()) return 5;
              ::kill(::getpid(), SIGUSR1);
              return signals->next() == SIGUSR1 ? 0 : 6;
            }),
            0);
}

TEST(SignalFd, WhatIsNotReadDoesNotEndTheProcessLater) {
  EXPECT_EQ(in_child([] {
              {
                auto signals = SignalFd::open({SIGTERM});
                ::kill(::getpid(), SIGTERM);
              }
              return 7;
            }),
            7);
}

TEST(SignalFd, ASetMaskBlocksNothingElse) {
  EXPECT_EQ(in_child([] {
              sigset_t usr1, now;
              sigemptyset(&usr1);
              sigaddset(&usr1, SIGUSR1);
              ::pthread_sigmask(SIG_BLOCK, &usr1, nullptr);
              if (!SignalFd::open({SIGTERM})) return 1;
              ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
              if (sigismember(&now, SIGUSR1) != 1) return 2;
              if (!SignalFd::open({SIGTERM}, SIG_SETMASK)) return 3;
              ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
              return sigismember(&now, SIGUSR1) == 0 && sigismember(&now, SIGTERM) == 1 ? 0 : 4;
            }),
            0);
}

}  // namespace
}  // namespace dlrun::os
