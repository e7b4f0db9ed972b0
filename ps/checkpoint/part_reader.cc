#include "ps/checkpoint/part_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "ps/checkpoint/block_codec.h"
#include "ps/checkpoint/folder.h"
#include "runtime/os/fd.h"

namespace dlrun::ps {
namespace {

/// `size` bytes at `offset`; fewer only at the file's end.
Status read_at(int fd, std::uint64_t offset, std::size_t size, std::string& out,
               const std::string& path) {
  out.resize(size);
  std::size_t have = 0;
  while (have < size) {
    const ssize_t n =
        ::pread(fd, out.data() + have, size - have, static_cast<off_t>(offset + have));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("read " + path);
    if (n == 0) break;
    have += static_cast<std::size_t>(n);
  }
  out.resize(have);
  return {};
}

/// "FILE, byte N: " before what is wrong.
template <class T>
tl::unexpected<Error> at(const std::string& path, std::uint64_t offset, const Result<T>& result) {
  return fail_as(path + ", byte " + std::to_string(offset), result);
}

Status same_as_manifest(const std::string& path, const PartInfo& part, const PartCheck& check,
                        std::uint64_t bytes) {
  if (check.blocks() == part.blocks && check.rows() == part.rows && bytes == part.bytes &&
      check.headers_crc() == part.headers_crc)
    return {};
  return fail(Errc::kCorrupt,
              path + ": whole, but not the one that the manifest names (" + std::to_string(bytes) +
                  " bytes, " + std::to_string(check.rows()) + " rows; " +
                  std::to_string(part.bytes) + ", " + std::to_string(part.rows) + ")");
}

}  // namespace

Status read_part(const std::string& folder, const PartInfo& part, const PartVisitor& visitor) {
  const std::string path = folder + "/" + part.file;
  const os::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail_errno("open " + path);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return fail_errno("stat " + path);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size < part.bytes)
    return fail(Errc::kCorrupt, path + ": torn, " + std::to_string(size) + " of " +
                                    std::to_string(part.bytes) + " bytes");
  (void)::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  PartCheck check(part.checkpoint, static_cast<std::uint16_t>(part.shard.value));
  BlockCoder coder;
  std::string head, stored;
  std::uint64_t offset = 0;
  while (offset < size) {
    DLRUN_TRY(read_at(fd.get(), offset, kBlockHeaderBytes, head, path));
    const Result<BlockHeader> header = decode_block_header(head);
    if (!header) return at(path, offset, header);
    if (const Status next = check.next(*header); !next) return at(path, offset, next);
    const std::uint64_t content = offset + kBlockHeaderBytes;
    if (content + header->stored_bytes > size)
      return fail(Errc::kCorrupt, path + ", byte " + std::to_string(offset) + ": torn, block " +
                                      std::to_string(header->number) + " has " +
                                      std::to_string(size - content) + " of " +
                                      std::to_string(header->stored_bytes) + " bytes");
    offset = content + header->stored_bytes;
    if (header->kind == BlockKind::kEnd || !visitor.wants(*header)) continue;
    DLRUN_TRY(read_at(fd.get(), content, header->stored_bytes, stored, path));
    const Result<std::string_view> raw = coder.load(*header, stored);
    if (!raw) return at(path, content, raw);
    if (const Status taken = visitor.take(*header, *raw); !taken) return at(path, content, taken);
  }
  if (!check.ended()) return fail(Errc::kCorrupt, path + ": torn, it has no end");
  return same_as_manifest(path, part, check, size);
}

Status verify_checkpoint(const std::string& folder, const Manifest& manifest) {
  const PartVisitor all{[](const BlockHeader&) { return true; },
                        [](const BlockHeader&, std::string_view) { return Status{}; }};
  for (const PartInfo& part : manifest.parts) DLRUN_TRY(read_part(folder, part, all));
  for (const Attachment& a : manifest.attachments) DLRUN_TRY(read_attachment(folder, a));
  return {};
}

Status restore_shard(ShardCore& core, const std::string& folder, const Manifest& manifest,
                     bool with_windows, TimePoint now) {
  DLRUN_TRY(core.begin_restore(manifest, with_windows, now));
  for (std::size_t i = 0; i < manifest.parts.size(); ++i) {
    const PartVisitor mine{[&](const BlockHeader& header) { return core.wants_block(header); },
                           [&](const BlockHeader& header, std::string_view raw) {
                             return core.restore_block(i, header, raw);
                           }};
    DLRUN_TRY(read_part(folder, manifest.parts[i], mine));
  }
  return core.end_restore();
}

}  // namespace dlrun::ps
