#pragma once
/// io/feeder/feeder_main.h: composition root of the feeder process (`dlrun feeder`): one per node
/// and user, under a shim. Finds its agent in DLRUN_SOCKET and DLRUN_TOKEN; listens on
/// <cwd>/feeder.sock (0600) and announces that path to the agent as Ready{ipc}; ends on StopNow,
/// on TERM, or when the agent is gone for good.

namespace dlrun::io {

/// argv[0] and options (see --help). Returns the exit code: 0 ended in good order, 1 could not
/// start (the reason on stderr).
int feeder_main(int argc, char** argv);

}  // namespace dlrun::io
