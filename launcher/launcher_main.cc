#include "launcher/launcher_main.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <system_error>
#include <thread>

#include "launcher/world.h"

extern char** environ;

namespace dlrun::launcher {
namespace {

int interrupt_write_fd = -1;  // for the signal handler alone

void on_signal(int signal) {
  const int saved = errno;
  const char what = signal == SIGINT ? 'I' : signal == SIGTERM ? 'T' : 'H';
  [[maybe_unused]] const ssize_t n = ::write(interrupt_write_fd, &what, 1);
  errno = saved;
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (n < 0 && errno == EAGAIN) {
      pollfd p{fd, POLLOUT, 0};
      ::poll(&p, 1, -1);
    } else if (n < 0 && errno != EINTR) {
      return false;
    }
  }
  return true;
}

World real_world() {
  World world;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (equals != nullptr)
      world.environment.emplace_back(std::string(*entry, static_cast<std::size_t>(equals - *entry)),
                                     std::string(equals + 1));
  }
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  const passwd* user = ::getpwuid(::getuid());
  world.user = user != nullptr ? user->pw_name : std::to_string(::getuid());
  std::string home = variable("HOME");
  if (home.empty() && user != nullptr) home = user->pw_dir;
  char path[PATH_MAX];
  if (::getcwd(path, sizeof path) != nullptr) world.cwd = path;
  world.home = variable("DLRUN_HOME");
  if (world.home.empty())
    world.home = (home.empty() ? "/tmp/dlrun-" + world.user : home) + "/.dlrun";
  if (!world.home.starts_with('/')) world.home = world.cwd + "/" + world.home;
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  if (n > 0) world.self_exe = std::string(path, static_cast<std::size_t>(n));
  world.out_tty = ::isatty(1) == 1;
  world.err_tty = ::isatty(2) == 1;
  world.color = world.err_tty && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
  winsize size{};
  if (world.err_tty && ::ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    world.width = size.ws_col;
  world.cores = std::max(1u, std::thread::hardware_concurrency());
  world.memory_bytes =
      static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  return world;
}

}  // namespace

bool World::out(std::string_view bytes) const {
  if (write_all(out_fd, bytes)) return true;
  if (out_error != 0) return false;
  out_error = errno;
  if (out_error != EPIPE)
    err("dlrun: stdout cannot be written, what follows is lost: " +
        std::system_category().message(out_error) + "\n");
  return false;
}
bool World::err(std::string_view bytes) const { return write_all(err_fd, bytes); }

int launcher_main(int argc, char** argv) {
  try {
    ::signal(SIGPIPE, SIG_IGN);
    World world = real_world();
    const std::vector<std::string> args(argv + 1, argv + argc);
    int pipe_fds[2];
    if (!args.empty() && args[0] == "run" && ::pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) == 0) {
      world.interrupt_fd = pipe_fds[0];
      interrupt_write_fd = pipe_fds[1];
      struct sigaction action {};
      action.sa_handler = &on_signal;
      action.sa_flags = SA_RESTART;
      for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    const int code = run_cli(args, world);
    curl_global_cleanup();
    return code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dlrun: %s\n", error.what());
    return kInternal;
  }
}

}  // namespace dlrun::launcher
