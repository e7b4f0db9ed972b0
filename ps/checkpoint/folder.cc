#include "ps/checkpoint/folder.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

#include "runtime/base/crc32c.h"
#include "runtime/base/hash.h"
#include "runtime/os/files.h"
#include "runtime/wire/ps_checkpoint_codec.h"

namespace dlrun::ps {
namespace {

std::string manifest_path(const std::string& folder) { return folder + "/MANIFEST"; }

std::string numbered(const char* format, std::uint32_t number) {
  char name[32];
  std::snprintf(name, sizeof name, format, number);
  return name;
}

bool exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

Status make_one(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return fail_errno("make " + path);
}

}  // namespace

std::string part_file_name(ShardId shard) { return numbered("shard-%05u.part", shard.value); }
std::string attachment_file_name(std::uint32_t number) {
  return numbered("attachment-%05u", number);
}

Status make_folder(const std::string& folder) {
  for (std::size_t slash = folder.find('/', 1); slash != std::string::npos;
       slash = folder.find('/', slash + 1))
    DLRUN_TRY(make_one(folder.substr(0, slash)));
  DLRUN_TRY(make_one(folder));
  if (exists(manifest_path(folder)))
    return fail(Errc::kAlreadyExists, folder + " holds a checkpoint already");
  return {};
}

Result<Attachment> write_attachment(const std::string& folder, std::uint32_t number,
                                    std::string name, std::string_view bytes) {
  if (bytes.size() > kAttachmentBytesMax)
    return fail(Errc::kInvalidArgument, "attachment '" + name + "' has " +
                                            std::to_string(bytes.size()) + " bytes, at most " +
                                            std::to_string(kAttachmentBytesMax));
  Attachment a{.name = std::move(name),
               .file = attachment_file_name(number),
               .bytes = bytes.size(),
               .crc = crc32c(bytes)};
  DLRUN_TRY(os::write_file(folder + "/" + a.file, bytes, os::Durable::kYes));
  return a;
}

Result<std::string> read_attachment(const std::string& folder, const Attachment& a) {
  const std::string path = folder + "/" + a.file;
  DLRUN_ASSIGN(std::string bytes, os::read_file(path, kAttachmentBytesMax));
  if (bytes.size() != a.bytes)
    return fail(Errc::kCorrupt, path + ": torn, attachment '" + a.name + "' has " +
                                    std::to_string(bytes.size()) + " of " +
                                    std::to_string(a.bytes) + " bytes");
  if (crc32c(bytes) != a.crc)
    return fail(Errc::kCorrupt,
                path + ": the CRC32C of attachment '" + a.name + "' is not the manifest's");
  return bytes;
}

Result<std::uint64_t> write_manifest(const std::string& folder, const Manifest& manifest) {
  const std::string bytes = wire::encode(manifest);
  if (exists(manifest_path(folder))) {
    const auto there = os::read_file(manifest_path(folder), wire::kManifestBytesMax);
    if (!there || *there != bytes)
      return fail(Errc::kAlreadyExists, folder + " holds another checkpoint");
  } else {
    DLRUN_TRY(os::write_file(manifest_path(folder), bytes, os::Durable::kYes));
  }
  return fnv1a(bytes);
}

Result<Manifest> read_manifest(const std::string& folder, std::uint64_t digest) {
  const std::string path = manifest_path(folder);
  DLRUN_ASSIGN(const std::string bytes, os::read_file(path, wire::kManifestBytesMax));
  if (digest != 0 && fnv1a(bytes) != digest)
    return fail(Errc::kCorrupt, path + ": not the manifest that was committed");
  auto manifest = wire::decode_manifest(bytes);
  if (!manifest) return fail_as(path, manifest);
  return manifest;
}

}  // namespace dlrun::ps
