#pragma once
/// runtime/security/secret.h: random bytes, hex, comparison in constant time, and files that only
/// their owner reads. Errors: kIo, kPermissionDenied, kNotFound of the file system, with the path.
/// Threads: plain functions, safe from any thread.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace dlrun::security {

using Digest = std::array<std::uint8_t, 32>;

/// From the operating system's generator.
Result<std::string> random_bytes(std::size_t n);
Digest sha256(std::string_view bytes);
Digest hmac_sha256(std::string_view key, std::string_view bytes);
std::string to_hex(std::span<const std::uint8_t> bytes);
/// kInvalidArgument unless `text` is an even number of hex digits.
Result<std::string> from_hex(std::string_view text);
/// Takes the same time wherever the first difference is. Lengths are not secret.
bool equal_constant_time(std::string_view a, std::string_view b) noexcept;

/// Makes `folder` with mode 0700 (its parents with 0755). kPermissionDenied when it exists and
/// others may enter.
Status make_private_folder(const std::string& folder);
/// Replaces `path` atomically with a 0600 file: temporary beside it, fsync, rename, fsync of the
/// folder.
Status write_private_file(const std::string& path, std::string_view bytes);
/// At most `bytes_max` are read; a longer file is kInvalidArgument.
Result<std::string> read_file(const std::string& path, std::size_t bytes_max = 1u << 20);
/// As read_file; kPermissionDenied when group or others may read or write it.
Result<std::string> read_private_file(const std::string& path, std::size_t bytes_max = 1u << 20);

}  // namespace dlrun::security
