#pragma once
/// runtime/security/secret.h: random bytes, digests, hex, and files that only their owner reads
/// (reading: runtime/os/files.h).
/// Errors: kIo, kPermissionDenied, kNotFound of the file system, with the path.
/// Threads: plain functions, safe from any thread.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/constant_time.h"
#include "runtime/base/result.h"
#include "runtime/os/files.h"

namespace dlrun::security {

using Digest = std::array<std::uint8_t, 32>;

/// From the operating system's generator.
Result<std::string> random_bytes(std::size_t n);
Digest sha256(std::string_view bytes);
Digest hmac_sha256(std::string_view key, std::string_view bytes);
std::string to_hex(std::span<const std::uint8_t> bytes);
/// kInvalidArgument unless `text` is an even number of hex digits.
Result<std::string> from_hex(std::string_view text);
/// Makes `folder` with mode 0700 (its parents with 0755). kPermissionDenied when it exists and
/// others may enter.
Status make_private_folder(const std::string& folder);
/// Replaces `path` atomically with a 0600 file: temporary beside it, fsync, rename, fsync of the
/// folder.
Status write_private_file(const std::string& path, std::string_view bytes);
using os::read_file;
using os::read_private_file;

}  // namespace dlrun::security
