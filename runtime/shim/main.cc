// dlrun-shim TASKDIR: descriptor 3 is the held lock of the directory, 4 a socket to the agent; both
// may be missing, so that a person can run a shim by hand.

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "runtime/shim/supervisor.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: dlrun-shim TASKDIR\n");
    return 2;
  }
  if (::chdir(argv[1]) != 0) {
    std::fprintf(stderr, "dlrun-shim: %s: %s\n", argv[1], std::strerror(errno));
    return 2;
  }
  int lock_fd = ::fcntl(3, F_GETFD) >= 0 ? 3 : ::open("lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const int agent_fd = ::fcntl(4, F_GETFD) >= 0 ? 4 : -1;
  if (lock_fd < 0 || ::flock(lock_fd, LOCK_EX | LOCK_NB) != 0) {
    std::fprintf(stderr, "dlrun-shim: %s is in use\n", argv[1]);
    return 2;
  }
  ::fcntl(lock_fd, F_SETFD, FD_CLOEXEC);
  if (agent_fd >= 0) ::fcntl(agent_fd, F_SETFD, FD_CLOEXEC);
  dlrun::shim::Supervisor supervisor(lock_fd, agent_fd);
  return supervisor.run();
}
