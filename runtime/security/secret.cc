#include "runtime/security/secret.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

namespace dlrun::security {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
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
  return os::write_file(path, bytes, os::Durable::kYes);
}

}  // namespace dlrun::security
