#pragma once
/// bench/roofs/ring.h: the best we know for moving floats between two threads that share a host
/// through a small ring in shared memory which stays in the cache: no protocol, no tables, no
/// bounds checks. What the parameter server's shared memory is held against.
/// push: the sender copies each message into the ring in chunks, the receiver adds them to its own
/// array. pull: the server copies from its array into the ring, the receiver
/// copies out. At most `window` messages are not yet acknowledged (or asked for and not there).
/// Units: bytes a message, GB/s (1e9) of payload.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dlrun::bench {

struct MoveJob {
  std::size_t message_bytes = 0;
  std::size_t messages = 0;
  std::size_t window = 1;
  std::size_t chunk_bytes = 256u << 10;  ///< of the ring
};

double ring_push(const MoveJob& job);
double ring_pull(const MoveJob& job);
/// memcpy of the same messages by one thread.
double plain_copy(const MoveJob& job);

/// Nanoseconds of `n` round trips of 64 bytes each way through two lines of memory, both sides
/// looking without end.
std::vector<double> ring_round_trips(std::size_t n);
/// The same where both sides sleep on a futex, with a pause before each trip, so that both do.
std::vector<double> futex_round_trips(std::size_t n, std::uint32_t pause_us);

}  // namespace dlrun::bench
