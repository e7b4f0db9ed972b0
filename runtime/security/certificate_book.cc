#include "runtime/security/certificate_book.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <tuple>

#include "runtime/security/secret.h"

namespace dlrun::security {
namespace {

constexpr std::size_t kFileBytesMax = 64u << 20;

std::string line_of(const char* what, const CertificateBook::Entry& e) {
  return std::string(what) + " " + e.serial_hex + " " + e.node + " " + std::to_string(e.issued.ns) +
         " " + std::to_string(e.until.ns) + " " + std::to_string(e.revoked.ns) + "\n";
}

}  // namespace

Result<std::unique_ptr<CertificateBook>> CertificateBook::open(std::string path, WallTime now) {
  std::unique_ptr<CertificateBook> out(new CertificateBook(std::move(path)));
  DLRUN_TRY(out->read());
  std::erase_if(out->entries_, [&](const auto& e) { return e.second.until <= now; });
  DLRUN_TRY(out->rewrite());
  return out;
}

CertificateBook::~CertificateBook() {
  if (fd_ >= 0) ::close(fd_);
}

Status CertificateBook::read() {
  const Result<std::string> text = read_private_file(path_, kFileBytesMax);
  if (!text && text.error().code == Errc::kNotFound) return {};
  if (!text) return tl::unexpected(text.error());
  std::istringstream lines(text->substr(0, text->rfind('\n') + 1));  // a crash may cut the last one
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line);
    std::string what;
    Entry e;
    if (!(words >> what >> e.serial_hex >> e.node >> e.issued.ns >> e.until.ns >> e.revoked.ns) ||
        (what != "issued" && what != "seen" && what != "revoked") || !from_hex(e.serial_hex) ||
        !is_node_name(e.node))
      return fail(Errc::kCorrupt,
                  path_ + ": line " + std::to_string(number) + " is not an entry of a certificate");
    Entry& kept = entries_.try_emplace(e.serial_hex, e).first->second;
    if (what == "seen") kept.seen = true;
    if (what == "revoked") kept.revoked = e.revoked;
  }
  return {};
}

Status CertificateBook::rewrite() {
  std::string text;
  for (const auto& [serial, e] : entries_) {
    text += line_of("issued", e);
    if (e.seen) text += line_of("seen", e);
    if (e.revoked.ns != 0) text += line_of("revoked", e);
  }
  DLRUN_TRY(write_private_file(path_, text));
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd_ < 0) return fail_errno("open " + path_);
  return {};
}

Status CertificateBook::append(const std::string& lines) {
  const off_t before = ::lseek(fd_, 0, SEEK_END);
  if (::write(fd_, lines.data(), lines.size()) == static_cast<ssize_t>(lines.size()) &&
      ::fdatasync(fd_) == 0)
    return {};
  const Status failed = fail_errno("write " + path_);
  (void)!::ftruncate(fd_, before);  // a part of a line would spoil the next
  return failed;
}

Status CertificateBook::enter(const CertInfo& info) {
  if (entries_.size() >= kEntriesMax)
    return fail(
        Errc::kResourceExhausted,
        std::to_string(kEntriesMax) + " certificates have not ended: no more are given out");
  if (!is_node_name(info.common_name))
    return fail(Errc::kInvalidArgument, "not a node's name: \"" + info.common_name + "\"");
  Entry e{info.serial_hex, info.common_name, info.not_before, info.not_after, false, {}};
  DLRUN_TRY(append(line_of("issued", e)));
  entries_.emplace(info.serial_hex, std::move(e));
  return {};
}

Status CertificateBook::issued(const CertInfo& info) {
  const std::lock_guard lock(mutex_);
  return enter(info);
}

Status CertificateBook::seen(const CertInfo& info) {
  const std::lock_guard lock(mutex_);
  if (!entries_.contains(info.serial_hex)) DLRUN_TRY(enter(info));
  Entry& e = entries_.at(info.serial_hex);
  if (e.seen) return {};
  DLRUN_TRY(append(line_of("seen", e)));
  e.seen = true;
  return {};
}

bool CertificateBook::is_revoked(const std::string& serial_hex) const {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(serial_hex);
  return it != entries_.end() && it->second.revoked.ns != 0;
}

bool CertificateBook::is_taken(const std::string& node, WallTime now) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [&](const auto& entry) {
    const Entry& e = entry.second;
    return e.node == node && e.seen && e.revoked.ns == 0 && e.until > now;
  });
}

Result<std::vector<std::string>> CertificateBook::revoke(const std::string& node, WallTime now) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> serials;
  std::vector<Entry*> fresh;
  std::string lines;
  for (auto& [serial, e] : entries_) {
    if (e.node != node || e.until <= now) continue;
    serials.push_back(serial);
    if (e.revoked.ns != 0) continue;
    Entry copy = e;
    copy.revoked = now;
    lines += line_of("revoked", copy);
    fresh.push_back(&e);
  }
  if (serials.empty()) return fail(Errc::kNotFound, "node \"" + node + "\" has no certificate");
  if (!lines.empty()) DLRUN_TRY(append(lines));
  for (Entry* e : fresh) e->revoked = now;
  return serials;
}

std::vector<CertificateBook::Entry> CertificateBook::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> out;
  for (const auto& [serial, e] : entries_) out.push_back(e);
  std::sort(out.begin(), out.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.node, a.issued.ns, a.serial_hex) <
           std::tie(b.node, b.issued.ns, b.serial_hex);
  });
  return out;
}

}  // namespace dlrun::security
