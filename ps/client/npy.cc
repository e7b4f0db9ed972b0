#include "ps/client/npy.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "runtime/base/assert.h"

namespace dlrun::ps {
namespace {

std::string npy_header(std::string_view descr, const std::vector<std::uint64_t>& shape) {
  std::string dict = "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (";
  for (const std::uint64_t extent : shape) dict += std::to_string(extent) + ",";
  dict += "), }";
  constexpr std::size_t kPreamble = 10;
  while ((kPreamble + dict.size() + 1) % 64 != 0) dict += ' ';
  dict += '\n';
  DLRUN_ASSERT(dict.size() < 65536);
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dict.size() & 0xff);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

Status write_all(int fd, const void* data, std::size_t size, const std::string& path) {
  const auto* p = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::write(fd, p, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("write " + path);
    p += n;
    size -= static_cast<std::size_t>(n);
  }
  return {};
}

}  // namespace

Status write_npy(const std::string& path, std::string_view descr,
                 const std::vector<std::uint64_t>& shape, std::span<const std::byte> bytes) {
  const std::string temporary = path + ".tmp-" + std::to_string(::getpid());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return fail_errno("create " + temporary);
  const std::string header = npy_header(descr, shape);
  Status status = write_all(fd, header.data(), header.size(), temporary);
  if (status) status = write_all(fd, bytes.data(), bytes.size(), temporary);
  if (status && ::fsync(fd) != 0) status = fail_errno("sync " + temporary);
  if (::close(fd) != 0 && status) status = fail_errno("close " + temporary);
  if (status && std::rename(temporary.c_str(), path.c_str()) != 0)
    status = fail_errno("rename to " + path);
  if (!status) ::unlink(temporary.c_str());
  return status;
}

}  // namespace dlrun::ps
