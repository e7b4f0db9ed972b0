#pragma once
/// ps/shard/shard_host_main.h: the program of a role whose program is kShardHost (`dlrun
/// shard-host`): one parameter shard. Composition root: reads DLRUN_SOCKET, DLRUN_TOKEN and
/// DLRUN_ADDRESS (address to bind and advertise; 127.0.0.1 when unset).

namespace dlrun::ps {

/// Connects to the agent, restores the checkpoint that it names, binds a free tcp port and an
/// abstract Unix socket, says Ready, serves until StopNow, SIGTERM or SIGINT. Returns the exit
/// code: 0 after an orderly stop, 1 when the agent or the sockets could not be reached or the
/// checkpoint could not be restored, 2 when the environment is wrong; the reason goes to stderr.
int shard_host_main(int argc, char** argv);

}  // namespace dlrun::ps
