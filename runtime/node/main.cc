// The binary `dlrun`: the first argument chooses the program. Daemons and native tasks are named
// here, people's commands in the launcher.

#include <cstdio>
#include <cstring>

#include "runtime/node/agent_main.h"
#include "runtime/node/coordinator_main.h"
#ifdef HAVE_DLRUN_LAUNCHER
#include "launcher/launcher_main.h"
#endif
#ifdef HAVE_DLRUN_IO_FEEDER
#include "io/feeder/feeder_main.h"
#endif
#ifdef HAVE_DLRUN_PS_SHARD
#include "ps/shard/shard_host_main.h"
#endif

int main(int argc, char** argv) {
  const char* command = argc > 1 ? argv[1] : "";
  if (std::strcmp(command, "coordinator") == 0)
    return dlrun::node::coordinator_main(argc - 1, argv + 1);
  if (std::strcmp(command, "agent") == 0) return dlrun::node::agent_main(argc - 1, argv + 1);
#ifdef HAVE_DLRUN_PS_SHARD
  if (std::strcmp(command, "shard-host") == 0)
    return dlrun::ps::shard_host_main(argc - 1, argv + 1);
#endif
#ifdef HAVE_DLRUN_IO_FEEDER
  if (std::strcmp(command, "feeder") == 0) return dlrun::io::feeder_main(argc - 1, argv + 1);
#endif
#ifdef HAVE_DLRUN_LAUNCHER
  return dlrun::launcher::launcher_main(argc, argv);
#else
  std::fprintf(stderr, "dlrun: \"%s\" is not in this build\n", command);
  return 2;
#endif
}
