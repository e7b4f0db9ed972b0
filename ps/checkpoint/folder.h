#pragma once
/// ps/checkpoint/folder.h: the folder of a checkpoint: its manifest and attachments.
/// Prepare: write_attachment(), and the parts (part_writer.h). Commit: write_manifest(), then its
/// digest recorded by whoever called the checkpoint. What was prepared and not committed is no part
/// of any checkpoint.
/// Errors: kCorrupt with the path; those of the system.
/// Threads: plain functions; they block. Local files; other stores: *not yet*.

#include <string>
#include <string_view>

#include "ps/core/checkpoint.h"

namespace dlrun::ps {

inline constexpr std::size_t kAttachmentBytesMax = 64u << 20;

std::string part_file_name(ShardId shard);               ///< "shard-00003.part"
std::string attachment_file_name(std::uint32_t number);  ///< "attachment-00003"

/// Makes it (and those above it) when missing. kAlreadyExists: it has a MANIFEST already.
Status make_folder(const std::string& folder);

/// Whole and synced, or not there. `number` tells the attachments of a checkpoint apart.
Result<Attachment> write_attachment(const std::string& folder, std::uint32_t number,
                                    std::string name, std::string_view bytes);
Result<std::string> read_attachment(const std::string& folder, const Attachment& attachment);

/// Synced; returns its digest. kAlreadyExists: there is another one.
Result<std::uint64_t> write_manifest(const std::string& folder, const Manifest& manifest);
/// `digest`: what was recorded; 0: any. kNotFound: not a checkpoint (never committed).
Result<Manifest> read_manifest(const std::string& folder, std::uint64_t digest = 0);

}  // namespace dlrun::ps
