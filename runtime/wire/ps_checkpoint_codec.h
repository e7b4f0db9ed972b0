#pragma once
/// runtime/wire/ps_checkpoint_codec.h: the MANIFEST of a checkpoint (docs/ps-checkpoint.md) and a
/// shard's part of it <-> ps::Manifest, ps::PartInfo.
/// Errors: kCorrupt (which check failed), kUnsupported (another version, or a table with a choice
/// that this version does not know). Never throws, whatever the bytes.
/// Bounds: kManifestBytesMax.
/// Threads: pure functions.

#include <string>
#include <string_view>

#include "ps/core/checkpoint.h"

namespace dlrun::wire {

inline constexpr std::size_t kManifestBytesMax = 256u << 20;

/// With mark, CRC32C and length.
std::string encode(const ps::Manifest& manifest);
Result<ps::Manifest> decode_manifest(std::string_view bytes);

std::string encode(const ps::PartInfo& part);
Result<ps::PartInfo> decode_part_info(std::string_view bytes);

}  // namespace dlrun::wire
