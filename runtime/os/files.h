#pragma once
/// runtime/os/files.h: small files read whole and replaced whole.
/// Errors: those of the system with the path (kNotFound, kPermissionDenied, kResourceExhausted,
/// kIo).
/// Threads: plain functions, safe from any thread; they block.

#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace dlrun::os {

inline constexpr std::size_t kFileBytesMax = 1u << 20;

/// The whole file. Longer than `bytes_max`: kInvalidArgument, and no more than that is read.
Result<std::string> read_file(const std::string& path, std::size_t bytes_max = kFileBytesMax);
/// As read_file; kPermissionDenied when group or others may read or write it.
Result<std::string> read_private_file(const std::string& path,
                                      std::size_t bytes_max = kFileBytesMax);
/// The last `bytes_max` bytes of a file of any length.
Result<std::string> read_tail(const std::string& path, std::size_t bytes_max);

enum class Durable { kNo, kYes };
/// Replaces `path` by rename of a 0600 file written beside it (PATH.tmp.PID): a reader sees the old
/// bytes or the new ones. kYes: synced, the folder too, so that it also holds after a power loss. A
/// failure leaves `path` as it was.
Status write_file(const std::string& path, std::string_view bytes, Durable durable = Durable::kNo);

}  // namespace dlrun::os
