#include "runtime/shim/log_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace dlrun::shim {
namespace {

constexpr std::size_t kDigits = 20;

/// The start offset when `name` is a segment of `stream`.
bool parse_segment(std::string_view name, std::string_view stream, std::uint64_t& start) {
  if (name.size() != stream.size() + 1 + kDigits || name.substr(0, stream.size()) != stream ||
      name[stream.size()] != '.') {
    return false;
  }
  std::uint64_t v = 0;
  for (const char c : name.substr(stream.size() + 1)) {
    if (c < '0' || c > '9') return false;
    if (v > (~std::uint64_t{0} - 9) / 10) return false;
    v = v * 10 + static_cast<std::uint64_t>(c - '0');
  }
  start = v;
  return true;
}

}  // namespace

std::string segment_path(const std::string& dir, const std::string& stream, std::uint64_t start) {
  char digits[kDigits + 1];
  std::snprintf(digits, sizeof digits, "%020llu", static_cast<unsigned long long>(start));
  return dir + "/" + stream + "." + digits;
}

Result<std::vector<LogSegment>> list_segments(const std::string& dir, const std::string& stream) {
  DIR* d = ::opendir(dir.c_str());
  if (d == nullptr) return fail_errno("open " + dir);
  std::vector<LogSegment> segments;
  while (const dirent* entry = ::readdir(d)) {
    std::uint64_t start = 0;
    if (!parse_segment(entry->d_name, stream, start)) continue;
    struct stat st {};
    if (::fstatat(::dirfd(d), entry->d_name, &st, 0) != 0) continue;  // dropped meanwhile
    segments.push_back({start, static_cast<std::uint64_t>(st.st_size)});
  }
  ::closedir(d);
  std::sort(segments.begin(), segments.end(),
            [](const auto& a, const auto& b) { return a.start < b.start; });
  return segments;
}

Result<LogBytes> read_log(const std::string& dir, const std::string& stream, std::uint64_t offset,
                          std::size_t bytes_max) {
  for (int attempt = 0; attempt < 3;
       ++attempt) {  // a segment may be dropped between the listing and the open
    DLRUN_ASSIGN(const auto segments, list_segments(dir, stream));
    LogBytes result;
    result.offset = offset;
    if (segments.empty()) return result;
    result.end = segments.back().start + segments.back().size;
    const auto segment = std::find_if(segments.begin(), segments.end(), [&](const LogSegment& s) {
      return s.start + s.size > offset;
    });
    if (segment == segments.end()) {
      result.offset = std::max(offset, result.end);
      return result;
    }
    result.offset = std::max(offset, segment->start);
    const std::string path = segment_path(dir, stream, segment->start);
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) continue;
    if (fd < 0) return fail_errno("open " + path);
    result.bytes.resize(
        std::min<std::uint64_t>(bytes_max, segment->start + segment->size - result.offset));
    const ssize_t n = ::pread(fd, result.bytes.data(), result.bytes.size(),
                              static_cast<off_t>(result.offset - segment->start));
    const int e = errno;
    ::close(fd);
    if (n < 0) return fail_errno("read " + path, e);
    result.bytes.resize(static_cast<std::size_t>(n));
    return result;
  }
  return fail(Errc::kUnavailable,
              dir + "/" + stream + ": segments are dropped faster than they are read");
}

LogWriter::LogWriter(std::string dir, std::string stream, std::uint64_t segment_bytes,
                     std::uint64_t retained_bytes)
    : dir_(std::move(dir)),
      stream_(std::move(stream)),
      segment_bytes_(std::max<std::uint64_t>(segment_bytes, 4096)),
      retained_bytes_(std::max(retained_bytes, 2 * segment_bytes_)) {}

LogWriter::~LogWriter() {
  if (fd_ >= 0) ::close(fd_);
}

Status LogWriter::open() {
  DLRUN_ASSIGN(const auto segments, list_segments(dir_, stream_));
  for (const LogSegment& s : segments) starts_.push_back(s.start);
  if (!segments.empty()) end_ = segments.back().start + segments.back().size;
  if (!start_segment()) return fail_errno("create " + segment_path(dir_, stream_, end_));
  return {};
}

bool LogWriter::start_segment() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = ::open(segment_path(dir_, stream_, end_).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
               0644);
  if (fd_ < 0) return false;
  segment_end_ = end_;
  if (starts_.empty() || starts_.back() != end_) starts_.push_back(end_);
  retain();
  return true;
}

void LogWriter::retain() {
  // All segments but the open one are about segment_bytes_ long; the sum is known from the offsets
  // alone.
  while (starts_.size() > 1 && end_ + segment_bytes_ - starts_[1] >= retained_bytes_) {
    ::unlink(segment_path(dir_, stream_, starts_.front()).c_str());
    starts_.erase(starts_.begin());
  }
}

void LogWriter::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const bool full = fd_ >= 0 && end_ - starts_.back() >= segment_bytes_;
    const bool gap = segment_end_ != end_;
    if (fd_ < 0 || full || gap) {
      if (!start_segment()) {
        lost_bytes_ += bytes.size();
        end_ += bytes.size();
        return;
      }
    }
    const std::uint64_t room = segment_bytes_ - (end_ - starts_.back());
    const std::size_t want = static_cast<std::size_t>(std::min<std::uint64_t>(room, bytes.size()));
    const ssize_t n = ::write(fd_, bytes.data(), want);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (end_ == starts_.back()) {  // an empty segment helps nobody
        ::close(fd_);
        fd_ = -1;
        ::unlink(segment_path(dir_, stream_, end_).c_str());
        starts_.pop_back();
      }
      lost_bytes_ += bytes.size();
      end_ += bytes.size();
      return;
    }
    end_ += static_cast<std::uint64_t>(n);
    segment_end_ = end_;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace dlrun::shim
