#include "runtime/security/secret.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace dlrun::security {
namespace {

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Status write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("write " + path);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<std::string> read_checked(const std::string& path, std::size_t bytes_max,
                                 bool want_private) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (fd.get() < 0) return fail_errno("open " + path);
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) return fail_errno("stat " + path);
  if (want_private && (st.st_mode & 077) != 0)
    return fail(Errc::kPermissionDenied, path + " can be read or written by others: chmod 600 it");
  std::string out;
  char buffer[16384];
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("read " + path);
    if (n == 0) return out;
    out.append(buffer, static_cast<std::size_t>(n));
    if (out.size() > bytes_max)
      return fail(Errc::kInvalidArgument,
                  path + " is longer than " + std::to_string(bytes_max) + " bytes");
  }
}

}  // namespace

Result<std::string> random_bytes(std::size_t n) {
  std::string out(n, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(n)) != 1)
    return fail(Errc::kInternal, "the random generator failed");
  return out;
}

Digest sha256(std::string_view bytes) {
  Digest out;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), out.data());
  return out;
}

Digest hmac_sha256(std::string_view key, std::string_view bytes) {
  Digest out;
  unsigned int n = out.size();
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), out.data(), &n);
  return out;
}

std::string to_hex(std::span<const std::uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const std::uint8_t b : bytes) {
    out.push_back(kDigits[b >> 4]);
    out.push_back(kDigits[b & 15]);
  }
  return out;
}

Result<std::string> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return fail(Errc::kInvalidArgument, "an odd number of hex digits");
  std::string out;
  out.reserve(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int hi = hex_digit(text[i]);
    const int lo = hex_digit(text[i + 1]);
    if (hi < 0 || lo < 0)
      return fail(Errc::kInvalidArgument, "not a hex digit at column " + std::to_string(i + 1));
    out.push_back(static_cast<char>(hi << 4 | lo));
  }
  return out;
}

bool equal_constant_time(std::string_view a, std::string_view b) noexcept {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Status make_private_folder(const std::string& folder) {
  std::error_code ec;
  const std::filesystem::path parent = std::filesystem::path(folder).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, ec);
  if (ec) return fail_errno("make folder " + parent.string(), ec.value());
  if (::mkdir(folder.c_str(), 0700) == 0) return {};
  if (errno != EEXIST) return fail_errno("make folder " + folder);
  struct stat st {};
  if (::stat(folder.c_str(), &st) != 0) return fail_errno("stat " + folder);
  if (!S_ISDIR(st.st_mode)) return fail(Errc::kInvalidArgument, folder + " is not a folder");
  if ((st.st_mode & 077) != 0)
    return fail(Errc::kPermissionDenied, folder + " can be entered by others: chmod 700 it");
  return {};
}

Status write_private_file(const std::string& path, std::string_view bytes) {
  const std::string temporary = path + ".tmp." + std::to_string(::getpid());
  {
    const Fd fd(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (fd.get() < 0) return fail_errno("create " + temporary);
    Status written = write_all(fd.get(), bytes, temporary);
    if (written && ::fchmod(fd.get(), 0600) != 0) written = fail_errno("chmod " + temporary);
    if (written && ::fsync(fd.get()) != 0) written = fail_errno("fsync " + temporary);
    if (!written) {
      ::unlink(temporary.c_str());
      return written;
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error_number = errno;
    ::unlink(temporary.c_str());
    return fail_errno("rename to " + path, error_number);
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const Fd dir(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (dir.get() < 0) return fail_errno("open folder " + folder);
  if (::fsync(dir.get()) != 0 && errno != EINVAL) return fail_errno("fsync folder " + folder);
  return {};
}

Result<std::string> read_file(const std::string& path, std::size_t bytes_max) {
  return read_checked(path, bytes_max, false);
}

Result<std::string> read_private_file(const std::string& path, std::size_t bytes_max) {
  return read_checked(path, bytes_max, true);
}

}  // namespace dlrun::security
