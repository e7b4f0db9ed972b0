#include "io/feeder/feeder_main.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "io/feeder/feeder.h"
#include "io/feeder/task_agent_link.h"
#include "io/source/local_source.h"
#include "runtime/os/signals.h"

namespace dlrun::io {

namespace {

constexpr char kHelp[] =
    "usage: dlrun feeder\n\n"
    "Reads, parses and batches the inputs of the tasks on this node and feeds them over shared "
    "memory.\n"
    "Started by the agent, which gives DLRUN_SOCKET and DLRUN_TOKEN; not meant to be run by "
    "hand.\n";

int refuse_to_start(const Error& error) {
  std::fprintf(stderr, "dlrun feeder: %s\n", error.to_string().c_str());
  return 1;
}

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

int feeder_main(int argc, char** argv) {
  if (argc > 1) {
    const std::string_view option = argv[1];
    const bool help = option == "--help" || option == "-h";
    std::fputs(kHelp, help ? stdout : stderr);
    return help ? 0 : 1;
  }
  // Before any thread is made, so that every thread leaves these signals to the descriptor.
  const auto signals = os::SignalFd::open({SIGTERM, SIGINT});
  if (!signals) return refuse_to_start(signals.error());

  auto client = task::client_options(environment("DLRUN_SOCKET"), environment("DLRUN_TOKEN"),
                                     task::PeerKind::kFeeder);
  if (!client) return refuse_to_start(client.error());
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  if (error) return refuse_to_start({Errc::kIo, "work directory: " + error.message()});

  FeederOptions options;
  options.socket_path = (here / "feeder.sock").string();
  options.log = [](const std::string& line) {
    std::fprintf(stderr, "dlrun feeder: %s\n", line.c_str());
  };
  LocalSource source;
  TaskAgentLink link;
  Feeder feeder(options, source, link);
  if (const Status started = feeder.start(); !started) return refuse_to_start(started.error());
  if (const Status connected = link.connect(std::move(*client), feeder); !connected)
    return refuse_to_start(connected.error());
  int code = 0;
  if (const Status told = link.ready(options.socket_path); !told)
    code = refuse_to_start(told.error());

  pollfd fds[2] = {{feeder.stopped_fd(), POLLIN, 0}, {signals->get(), POLLIN, 0}};
  while (code == 0 && ::poll(fds, 2, -1) < 0 && errno == EINTR) {
  }
  if (!feeder.failure()) code = 1;  // it has said why
  feeder.shutdown();                // its threads use the link
  link.disconnect();                // whose thread calls the feeder
  return code;
}

}  // namespace dlrun::io
