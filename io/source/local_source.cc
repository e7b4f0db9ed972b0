#include "io/source/local_source.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <unordered_set>

namespace dlrun::io {

namespace {

namespace fs = std::filesystem;

std::string etag_of(const struct stat& st) {
  const std::int64_t mtime_ns =
      std::int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + std::int64_t{st.st_mtim.tv_nsec};
  return std::to_string(mtime_ns) + "-" + std::to_string(st.st_size) + "-" +
         std::to_string(st.st_ino);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// A path as the file system knows it. file://[localhost]/a%20b -> "/a b".
Result<std::string> path_of(const std::string& uri) {
  const auto wrong = [&uri](Errc code, const char* why) { return fail(code, uri + ": " + why); };
  if (uri.find('\0') != std::string::npos) return wrong(Errc::kInvalidArgument, "NUL in a path");
  const std::size_t scheme_end = uri.find("://");
  if (scheme_end == std::string::npos || uri.starts_with('/')) {
    if (!uri.starts_with('/'))
      return wrong(Errc::kInvalidArgument, "the path of an input must be absolute");
    return uri;
  }
  if (uri.compare(0, scheme_end, "file") != 0)
    return wrong(Errc::kUnsupported, "only local paths and file:// are read by this version");
  std::string_view rest = std::string_view(uri).substr(scheme_end + 3);
  if (rest.starts_with("localhost/")) rest.remove_prefix(9);
  if (!rest.starts_with('/'))
    return wrong(Errc::kInvalidArgument, "file:// needs an absolute path and no host");
  std::string path;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] != '%') {
      path += rest[i];
      continue;
    }
    const int high = i + 2 < rest.size() ? hex_digit(rest[i + 1]) : -1;
    const int low = i + 2 < rest.size() ? hex_digit(rest[i + 2]) : -1;
    if (high < 0 || low < 0 || (high == 0 && low == 0))
      return wrong(Errc::kInvalidArgument, "bad %-escape");
    path += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return path;
}

bool is_hidden(const fs::path& path) {
  const std::string name = path.filename().string();
  return !name.empty() && (name[0] == '.' || name[0] == '_');
}

class Listing {
 public:
  explicit Listing(std::uint64_t files_max) : files_max_(files_max) {}

  Status add_path(const std::string& path) {
    struct stat st {};
    if (::stat(path.c_str(), &st) != 0) return fail_errno(path);
    if (S_ISDIR(st.st_mode)) return add_directory(path);
    if (!S_ISREG(st.st_mode)) return fail(Errc::kInvalidArgument, path + ": not a regular file");
    if (!seen_.insert(path).second) return {};
    if (files_.size() >= files_max_)
      return fail(Errc::kResourceExhausted,
                  path + ": more than " + std::to_string(files_max_) + " files in one input");
    files_.push_back({path, static_cast<std::uint64_t>(st.st_size), etag_of(st)});
    return {};
  }

  std::vector<FileEntry> take() { return std::move(files_); }

 private:
  Status add_directory(const std::string& directory) {
    std::error_code error;
    std::vector<std::string> found;
    fs::recursive_directory_iterator it(directory, error);
    for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
      std::error_code kind;
      if (is_hidden(it->path())) {
        if (it->is_directory(kind)) it.disable_recursion_pending();
        continue;
      }
      if (it->is_regular_file(kind)) found.push_back(it->path().string());
      if (found.size() > files_max_)
        return fail(Errc::kResourceExhausted,
                    directory + ": more than " + std::to_string(files_max_) + " files");
    }
    if (error) return fail_errno(directory, error.value());
    std::sort(found.begin(), found.end());
    for (const std::string& path : found) DLRUN_TRY(add_path(path));
    return {};
  }

  std::uint64_t files_max_;
  std::vector<FileEntry> files_;
  std::unordered_set<std::string> seen_;
};

class LocalFile final : public File {
 public:
  LocalFile(std::string path, std::string etag, int fd, std::uint64_t size)
      : path_(std::move(path)), etag_(std::move(etag)), fd_(fd), size_(size) {}
  ~LocalFile() override { ::close(fd_); }

  std::uint64_t size_bytes() const override { return size_; }

  Result<std::size_t> read_at(std::uint64_t offset, std::span<char> out) override {
    std::size_t done = 0;
    while (done < out.size()) {
      const ssize_t n =
          ::pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail_errno("read " + path_);
      if (n == 0) break;
      done += static_cast<std::size_t>(n);
    }
    return done;
  }

  Status verify() override {
    struct stat st {};
    if (::fstat(fd_, &st) != 0) return fail_errno("stat " + path_);
    const std::string now = etag_of(st);
    if (now == etag_) return {};
    return fail(
        Errc::kFailedPrecondition,
        path_ + ": the file changed while the job reads it (was " + etag_ + ", is " + now + ")");
  }

 private:
  std::string path_;
  std::string etag_;
  int fd_;
  std::uint64_t size_;
};

}  // namespace

Result<std::vector<FileEntry>> LocalSource::list(const std::vector<std::string>& uris,
                                                 std::uint64_t files_max) {
  Listing listing(files_max);
  for (const std::string& uri : uris) {
    DLRUN_ASSIGN(const std::string path, path_of(uri));
    struct stat st {};
    if (::stat(path.c_str(), &st) == 0) {
      DLRUN_TRY(listing.add_path(path));
      continue;
    }
    if (errno != ENOENT || path.find_first_of("*?[") == std::string::npos) return fail_errno(uri);
    glob_t found{};
    const int code = ::glob(path.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &found);
    std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    ::globfree(&found);
    if (code == GLOB_NOMATCH) return fail(Errc::kNotFound, uri + ": no file matches");
    if (code != 0) return fail(Errc::kIo, uri + ": a directory cannot be read");
    std::sort(paths.begin(), paths.end());
    for (const std::string& match : paths) DLRUN_TRY(listing.add_path(match));
  }
  std::vector<FileEntry> files = listing.take();
  if (!files.empty()) return files;
  std::string named;
  for (const std::string& uri : uris) named += (named.empty() ? "" : ", ") + uri;
  return fail(Errc::kNotFound, named + ": no file there");
}

Result<std::unique_ptr<File>> LocalSource::open(const std::string& uri, const std::string& etag) {
  DLRUN_ASSIGN(const std::string path, path_of(uri));
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return fail_errno("open " + path);
  struct stat st {};
  if (::fstat(fd, &st) != 0) {
    auto failure = fail_errno("stat " + path);
    ::close(fd);
    return failure;
  }
  auto file = std::make_unique<LocalFile>(path, etag, fd, static_cast<std::uint64_t>(st.st_size));
  DLRUN_TRY(file->verify());
  return file;
}

}  // namespace dlrun::io
