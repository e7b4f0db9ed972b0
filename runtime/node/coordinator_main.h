#pragma once
/// runtime/node/coordinator_main.h: composition root of `dlrun coordinator`: settings, wiring,
/// signals. Writes DATA/cluster.json (0600, by rename) once it serves; ends in good order on
/// SIGTERM or SIGINT: jobs run on, and the next coordinator on the same folder takes them up. The
/// folder: README.md. Exit codes: 0 ended on a signal, 1 could not start or lost what it needs (the
/// reason on stderr), 2 wrong usage.

namespace dlrun::node {

int coordinator_main(int argc, char** argv);

}  // namespace dlrun::node
