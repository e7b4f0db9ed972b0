#pragma once
/// runtime/node/agent_main.h: composition root of `dlrun agent`: joins once, then serves its node
/// for ever; the coordinator may come and go. Ends on SIGTERM or SIGINT: shims and their tasks run
/// on, and the next agent takes them up. Exit codes: 0 ended on a signal, 1 could not start (the
/// reason on stderr), 2 wrong usage.

namespace dlrun::node {

int agent_main(int argc, char** argv);

}  // namespace dlrun::node
