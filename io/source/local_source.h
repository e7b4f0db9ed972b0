#pragma once
/// io/source/local_source.h: files of this machine's file systems: absolute paths, file:// URIs,
/// globs (* ? [...]) and directories (recursive, symbolic links to directories not followed; names
/// that start with '.' or '_' are left out, as Hadoop does). A path that exists is taken literally,
/// also when it looks like a glob. The etag is "<mtime ns>-<size>-<inode>".

#include "io/source/source.h"

namespace dlrun::io {

class LocalSource final : public Source {
 public:
  Result<std::vector<FileEntry>> list(const std::vector<std::string>& uris,
                                      std::uint64_t files_max) override;
  Result<std::unique_ptr<File>> open(const std::string& uri, const std::string& etag) override;
};

}  // namespace dlrun::io
