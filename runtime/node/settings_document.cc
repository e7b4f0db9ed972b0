#include "runtime/node/agent_settings.h"
#include "runtime/node/coordinator_settings.h"

namespace dlrun::node {

std::string settings_document() {
  CoordinatorFlags coordinator;
  AgentFlags agent;
  return "# Settings of the daemons\n\n"
         "Made from the tables in `runtime/node/*_settings.cc`, which also read the command line "
         "and print `--help`; a test holds this page\n"
         "against them (`DLRUN_WRITE=1` writes it anew). A setting is `--name value` or "
         "`--name=value`. A wrong value is refused with its\n"
         "bounds, exit code 2. What a job can set: `docs/jobfile.md`; what people's commands take: "
         "`dlrun COMMAND --help`.\n\n" +
         settings_markdown("dlrun coordinator", coordinator_settings(coordinator)) + "\n" +
         settings_markdown("dlrun agent", agent_settings(agent)) +
         "\n## Environment\n\n"
         "| variable | of | what |\n|---|---|---|\n"
         "| `DLRUN_HOME` | `dlrun` | folder of `cluster.json` and of clusters that the launcher "
         "starts; default `~/.dlrun` |\n"
         "| `NO_COLOR` | `dlrun` | no colours |\n";
}

}  // namespace dlrun::node
