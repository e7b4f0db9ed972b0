#pragma once
/// runtime/shim/log_files.h: one stream of bytes in segment files of bounded total, readable from
/// an absolute offset.
/// Files: <dir>/<stream>.<start offset, 20 digits>; the end of a segment is its start + its size. A
/// gap between a segment's end and the next one's start is bytes that were lost (disk full, or
/// dropped by retention in front). Written by one LogWriter; any number of readers in any process.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace dlrun::shim {

class LogWriter {
 public:
  LogWriter(std::string dir, std::string stream, std::uint64_t segment_bytes,
            std::uint64_t retained_bytes);
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;
  /// Continues at the end of what is there. The directory exists.
  Status open();
  /// Never blocks the task for a full disk: what cannot be written is lost, counted, and leaves a
  /// gap.
  void write(std::string_view bytes);
  std::uint64_t end() const { return end_; }
  std::uint64_t lost_bytes() const { return lost_bytes_; }

 private:
  bool start_segment();
  void retain();
  std::string dir_, stream_;
  std::uint64_t segment_bytes_, retained_bytes_;
  std::vector<std::uint64_t> starts_;  ///< of the segments on disk, ascending
  int fd_ = -1;
  std::uint64_t segment_end_ = 0;  ///< where the bytes in the open segment end
  std::uint64_t end_ = 0;
  std::uint64_t lost_bytes_ = 0;
};

struct LogSegment {
  std::uint64_t start = 0;
  std::uint64_t size = 0;
};

std::string segment_path(const std::string& dir, const std::string& stream, std::uint64_t start);
/// Ascending by start; empty when there is none. Other files are ignored.
Result<std::vector<LogSegment>> list_segments(const std::string& dir, const std::string& stream);

struct LogBytes {
  std::uint64_t offset = 0;  ///< of the first byte; above the asked one where bytes were lost
  std::string bytes;         ///< empty: at the end
  std::uint64_t end = 0;     ///< of the whole stream, now
};
/// Up to `bytes_max` bytes from `offset` on, out of one segment.
Result<LogBytes> read_log(const std::string& dir, const std::string& stream, std::uint64_t offset,
                          std::size_t bytes_max);

}  // namespace dlrun::shim
