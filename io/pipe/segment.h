#pragma once
/// io/pipe/segment.h: owners of what the pipe is made of: descriptors, mapped segments, Unix
/// sockets that pass descriptors. Every descriptor is close-on-exec. Segments are anonymous memfds:
/// nothing is named, nothing outlives its holders.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/os/fd.h"

namespace dlrun::io::pipe {

using os::Fd;

class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping() { reset(); }
  static Result<Mapping> map(int fd, std::size_t bytes, bool writable);
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  void reset();

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

struct Segment {
  Fd fd;
  Mapping mapping;
};

/// A memfd of `bytes`, its pages allocated now, mapped writable here, sealed against resize; with
/// `read_only_for_others` nobody can write to it or map it writable any more but through this
/// mapping. kResourceExhausted names it.
Result<Segment> make_segment(const std::string& name, std::size_t bytes, bool read_only_for_others);

/// Checks that a received memfd has exactly `bytes`, cannot shrink, and (with `read_only`) cannot
/// be written by us; maps it. kCorrupt.
Result<Mapping> map_received(int fd, const std::string& name, std::size_t bytes, bool read_only);

using os::drain_eventfd;
using os::make_eventfd;
using os::ring_eventfd;

/// Any length of path (longer than 107 bytes goes through /proc/self/fd). An old socket file at
/// `path` is replaced; mode 0600.
Result<Fd> listen_unix(const std::string& path);
/// kUnavailable when nobody listens.
Result<Fd> connect_unix(const std::string& path);

/// One message with descriptors. Never raises SIGPIPE.
Status send_message(int socket, std::span<const std::byte> bytes, std::span<const int> fds);
struct Received {
  std::size_t bytes = 0;  ///< 0 = the peer closed
  std::vector<Fd> fds;
};
/// kDeadlineExceeded; at most `fds_max` descriptors, more are closed and an error.
Result<Received> receive_message(int socket, std::span<std::byte> bytes, std::size_t fds_max,
                                 TimePoint deadline);

/// poll(2) for reading (or an end) until the deadline; interrupted calls go on. false = deadline.
inline constexpr std::size_t kPollItemsMax = 64;
struct PollItem {
  int fd = -1;
  bool ready = false;
};
Result<bool> poll_until(std::span<PollItem> items, TimePoint deadline);
TimePoint now();

}  // namespace dlrun::io::pipe
