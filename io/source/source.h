#pragma once
/// io/source/source.h: where bytes come from. LocalSource (local_source.h) is the first; HTTP, HDFS
/// and S3 fit the same calls.
/// Errors: kNotFound, kPermissionDenied, kIo with the file's name; kFailedPrecondition: the file is
/// not the one that was listed.
/// Threads: a Source from any thread; a File has one owner.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/core/msg.h"
#include "runtime/base/result.h"

namespace dlrun::io {

class File {
 public:
  virtual ~File() = default;
  virtual std::uint64_t size_bytes() const = 0;
  /// Fills `out` from `offset` as far as the file goes; the bytes read. Less than asked only at the
  /// end.
  virtual Result<std::size_t> read_at(std::uint64_t offset, std::span<char> out) = 0;
  /// Is it still the file that was opened? kFailedPrecondition if not.
  virtual Status verify() = 0;
};

class Source {
 public:
  virtual ~Source() = default;
  /// Expands the URIs, in their order, each one's files in byte order; a file named twice counts
  /// once. Errors: kNotFound (a URI that names nothing), kInvalidArgument (relative path, not a
  /// regular file), kUnsupported (scheme), kResourceExhausted (more than files_max).
  virtual Result<std::vector<FileEntry>> list(const std::vector<std::string>& uris,
                                              std::uint64_t files_max) = 0;
  /// Opens a listed file and checks its etag.
  virtual Result<std::unique_ptr<File>> open(const std::string& uri, const std::string& etag) = 0;
};

}  // namespace dlrun::io
