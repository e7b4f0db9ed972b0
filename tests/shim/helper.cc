// A program with bad habits, for the shim's tests: helper MODE [ARG]
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

extern char** environ;

namespace {

void forever() {
  for (;;) ::pause();
}

/// A child in its own session, a grandchild that forked twice and ignores TERM, one that is
/// stopped. All are in place when it returns.
void fork_brood() {
  int ready[2];
  if (::pipe(ready) != 0) std::exit(9);
  const auto tell = [&] { (void)!::write(ready[1], "x", 1); };
  if (::fork() == 0) {
    ::setsid();
    tell();
    forever();
  }
  const pid_t middle = ::fork();
  if (middle == 0) {
    ::setsid();
    if (::fork() == 0) {
      ::signal(SIGTERM, SIG_IGN);
      tell();
      forever();
    }
    ::_exit(0);
  }
  const pid_t stopped = ::fork();
  if (stopped == 0) {
    ::raise(SIGSTOP);
    forever();
  }
  char c;
  for (int i = 0; i < 2; ++i) (void)!::read(ready[0], &c, 1);
  ::waitpid(middle, nullptr, 0);
  ::waitpid(stopped, nullptr, WUNTRACED);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const long arg = argc > 2 ? std::atol(argv[2]) : 0;
  if (mode == "exit") return static_cast<int>(arg);
  if (mode == "signal") ::kill(::getpid(), static_cast<int>(arg));
  if (mode == "sleep") forever();
  if (mode == "term-exits") {
    ::signal(SIGTERM, [](int) { ::_exit(42); });
    std::puts("ready");
    std::fflush(stdout);
    forever();
  }
  if (mode == "brood") {  // main waits
    fork_brood();
    std::puts("ready");
    std::fflush(stdout);
    forever();
  }
  if (mode == "brood-leaves") {  // main ends, the brood stays
    fork_brood();
    return 5;
  }
  if (mode == "hog") {
    std::string all;
    for (long i = 0; i < arg; ++i) {
      auto* p = static_cast<char*>(std::malloc(1 << 20));
      if (p == nullptr) return 3;
      std::memset(p, static_cast<int>(i | 1), 1 << 20);
    }
    return 0;
  }
  if (mode == "noise") {  // arg bytes on stdout, half as many on stderr
    std::string bytes;
    for (long i = 0; i < arg; ++i) bytes.push_back(static_cast<char>((i * 2654435761u) >> 13));
    for (int fd = 1; fd <= 2; ++fd) {
      std::size_t n = bytes.size() / static_cast<std::size_t>(fd);
      const char* p = bytes.data();
      while (n > 0) {
        const ssize_t w = ::write(fd, p, n);
        if (w <= 0) return 4;
        p += w;
        n -= static_cast<std::size_t>(w);
      }
    }
    return 0;
  }
  if (mode == "show") {  // argv and env, NUL after each, then cwd
    for (int i = 0; i < argc; ++i) ::fwrite(argv[i], 1, std::strlen(argv[i]) + 1, stdout);
    ::fputc('\1', stdout);
    for (char** e = environ; *e != nullptr; ++e) ::fwrite(*e, 1, std::strlen(*e) + 1, stdout);
    ::fputc('\1', stdout);
    char cwd[4096];
    std::fputs(::getcwd(cwd, sizeof cwd) != nullptr ? cwd : "?", stdout);
    return 0;
  }
  if (mode == "fds") {
    for (int fd = 0; fd < 100; ++fd) {
      if (::fcntl(fd, F_GETFD) >= 0) std::printf("%d ", fd);
    }
    std::printf("nofile %ld", ::sysconf(_SC_OPEN_MAX));
    return 0;
  }
  return 2;
}
