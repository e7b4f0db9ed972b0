#pragma once
/// launcher/launcher_main.h: the `dlrun` command line of people: run, submit, list, show, status,
/// logs, kill, wait, nodes, events, why, check, up, down, version. It talks to a cluster over REST
/// only; docs/exit-codes.md lists what it returns.
///
/// `dlrun up` and `dlrun run` without a cluster start these from /proc/self/exe, and rely on
/// exactly this:
///   dlrun coordinator --data D
///     writes D/cluster.json (0600, by rename): {"rest": URL, "token_file": PATH, "cluster":
///     "HOST:PORT", "join": "HOST:PORT", "ca_fingerprint": HEX, "join_token_file": PATH, "pid": N}
///     once it serves; ends on SIGTERM within 5 s.
///   dlrun agent --data D --join HOST:PORT --token-file F --ca-fingerprint H --name N --cpus C
///     --memory BYTES --ports A-B
///     ends on SIGTERM within 5 s; its shims go on.

namespace dlrun::launcher {

/// The composition root of the launcher: reads argv, the environment, the terminal. Never throws.
int launcher_main(int argc, char** argv);

/// Whether launcher_main knows this first argument (so that `main` leaves only the daemons' names
/// to others).
bool is_launcher_command(const char* name);

}  // namespace dlrun::launcher
