#pragma once
/// ps/client/npy.h: arrays as files that numpy.load reads.
/// Format: NEP 1, version 1.0, little endian, C order.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace dlrun::ps {

/// descr: "<u8", "<f4". Writes PATH.tmp-<pid>, syncs it and renames it to PATH: a reader sees the
/// old file or the whole new one.
/// Errors: errno's, with the path; the temporary is removed.
Status write_npy(const std::string& path, std::string_view descr,
                 const std::vector<std::uint64_t>& shape, std::span<const std::byte> bytes);

}  // namespace dlrun::ps
