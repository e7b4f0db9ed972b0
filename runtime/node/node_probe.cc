#include "runtime/node/node_probe.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <memory>

#include "runtime/device/probe.h"

namespace dlrun::node {
namespace {

std::int64_t cpus_here() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  return std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN));
}

std::int64_t memory_here() {
  struct sysinfo info {};
  if (::sysinfo(&info) != 0) return 0;
  std::int64_t bytes = static_cast<std::int64_t>(info.totalram) * info.mem_unit;
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    std::int64_t limit = 0;
    if (file >> limit && limit > 0 && limit < bytes) bytes = limit;  // "max" does not parse
  }
  return bytes;
}

}  // namespace

Machine probe_machine() {
  Machine out;
  out.capacity.cpu_milli = cpus_here() * 1000;
  out.capacity.memory_bytes = memory_here();
  const auto gpus = device::probe_devices();
  if (!gpus) out.no_gpu = gpus.error().context;
  if (gpus)
    for (const auto& gpu : *gpus) out.capacity.gpu_uuids.push_back(gpu.uuid);
  return out;
}

Result<std::string> address_towards(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  if (const int rc = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
      rc != 0)
    return fail(Errc::kInvalidArgument, "cannot resolve " + host + ": " + ::gai_strerror(rc));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, &::freeaddrinfo);
  for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
    const int fd = ::socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    sockaddr_storage local{};
    socklen_t n = sizeof local;
    const bool ok = ::connect(fd, a->ai_addr, a->ai_addrlen) == 0 &&
                    ::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &n) == 0;
    ::close(fd);
    char text[NI_MAXHOST];
    if (ok && ::getnameinfo(reinterpret_cast<const sockaddr*>(&local), n, text, sizeof text,
                            nullptr, 0, NI_NUMERICHOST) == 0)
      return std::string(text);
  }
  return fail(Errc::kUnavailable, "no route to " + host);
}

Result<sched::PortRange> parse_port_range(const std::string& text) {
  unsigned first = 0, last = 0;
  const char* end = text.data() + text.size();
  const auto a = std::from_chars(text.data(), end, first);
  if (a.ec == std::errc() && a.ptr != end && *a.ptr == '-') {
    const auto b = std::from_chars(a.ptr + 1, end, last);
    if (b.ec == std::errc() && b.ptr == end && first >= 1 && first <= last && last <= 65535)
      return sched::PortRange{static_cast<std::uint16_t>(first),
                              static_cast<std::uint16_t>(last - first + 1)};
  }
  return fail(Errc::kInvalidArgument, "\"" + text + "\" is not a port range like 20000-20999");
}

sched::PortRange ephemeral_ports() {
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  int first = 32768, last = 60999;
  file >> first >> last;
  return {static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(last - first + 1)};
}

bool overlap(const sched::PortRange& a, const sched::PortRange& b) {
  return a.count > 0 && b.count > 0 && a.first < b.first + b.count && b.first < a.first + a.count;
}

std::string default_node_name() {
  char name[256] = "node";
  ::gethostname(name, sizeof name - 1);
  std::string out;
  for (const char c : std::string(name).substr(0, 64)) {
    const bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '.' || c == '_' || c == '-';
    out.push_back(ok ? c : '-');
  }
  return out.empty() ? "node" : out;
}

}  // namespace dlrun::node
