#include "runtime/os/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

namespace dlrun::os {

Result<SignalFd> SignalFd::open(std::initializer_list<int> signals, int how) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  if (const int error = ::pthread_sigmask(how, &set, nullptr); error != 0)
    return fail_errno("block signals", error);
  Fd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return fail_errno("signalfd");
  return SignalFd(std::move(fd));
}

std::optional<int> SignalFd::next() {
  signalfd_siginfo info{};
  ssize_t n = 0;
  do {
    n = ::read(fd_.get(), &info, sizeof info);
  } while (n < 0 && errno == EINTR);
  if (n != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace dlrun::os
