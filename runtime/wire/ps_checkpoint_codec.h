#pragma once
/// runtime/wire/ps_checkpoint_codec.h: the MANIFEST of a checkpoint (docs/ps-checkpoint.md), a
/// shard's part of it, and what is said about one <-> ps::Manifest, PartInfo, CutOrder, CutReport.
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

std::string encode(const ps::CutOrder& order);
Result<ps::CutOrder> decode_cut_order(std::string_view bytes);
std::string encode(const ps::CutReport& report);
Result<ps::CutReport> decode_cut_report(std::string_view bytes);

std::string encode(const ps::PartInfo& part);
Result<ps::PartInfo> decode_part_info(std::string_view bytes);

}  // namespace dlrun::wire
