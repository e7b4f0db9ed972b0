#pragma once
/// bench/roofs/tcp.h: the same jobs as bench/roofs/ring.h over one TCP connection on loopback, and
/// round trips over a bare pair of ZeroMQ sockets. No protocol: the receiver reads a message into a
/// buffer (and adds it to its array: push), and acknowledges.
/// Units: GB/s (1e9) of payload; ns.

#include <cstdint>
#include <vector>

#include "bench/roofs/ring.h"

namespace dlrun::bench {

enum class Acks {
  kEach,        ///< a byte a message
  kCumulative,  ///< a count after each read, which may hold many messages
};
double tcp_push(const MoveJob& job, Acks acks);
/// The server sends a message for each byte of asking; `acks` says whether the client asks for one
/// at a time or for all that the window allows.
double tcp_pull(const MoveJob& job, Acks acks);

/// DEALER to ROUTER and back, 64 bytes each way, over tcp on loopback.
std::vector<double> zmq_round_trips(std::size_t n);

}  // namespace dlrun::bench
