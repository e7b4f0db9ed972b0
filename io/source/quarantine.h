#pragma once
/// io/source/quarantine.h: the file that keeps bad records for a person (BadRecordGate). Each line
/// is one append, so that several feeders may share a file.
/// Bounds: bytes_max; a line that would pass it is refused.
/// Errors: kIo and kin with the path; kResourceExhausted: full.
/// Threads: one owner.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace dlrun::io {

class Quarantine {
 public:
  /// Opens or makes the file (0600).
  static Result<std::unique_ptr<Quarantine>> open(const std::string& path, std::uint64_t bytes_max);
  ~Quarantine();
  Quarantine(const Quarantine&) = delete;
  Quarantine& operator=(const Quarantine&) = delete;
  Status append(std::string_view line);

 private:
  Quarantine(std::string path, int fd, std::uint64_t bytes_max)
      : path_(std::move(path)), fd_(fd), bytes_max_(bytes_max) {}
  const std::string path_;
  const int fd_;
  const std::uint64_t bytes_max_;
};

}  // namespace dlrun::io
