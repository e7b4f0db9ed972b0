#include "ps/pslite/settings.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <memory>
#include <string_view>

namespace dlrun::pslite {
namespace {

constexpr std::uint32_t kNodesMax = 4096;
constexpr std::uint64_t kDay = 24 * 3600;

std::string text_of(const Lookup& lookup, const char* name) {
  const char* value = lookup(name);
  return value == nullptr ? "" : value;
}

/// `otherwise` when it is not set or empty.
Result<std::uint64_t> number_of(const Lookup& lookup, const char* name, std::uint64_t least,
                                std::uint64_t most, std::optional<std::uint64_t> otherwise) {
  const std::string text = text_of(lookup, name);
  if (text.empty()) {
    if (otherwise) return *otherwise;
    return fail(Errc::kInvalidArgument, std::string(name) + " is not set");
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    return fail(Errc::kInvalidArgument, std::string(name) + "='" + text +
                                            "' is not a number from " + std::to_string(least) +
                                            " to " + std::to_string(most));
  return value;
}

/// As number_of(), of seconds.
Status seconds_into(Duration& to, const Lookup& lookup, const char* name, std::uint64_t least) {
  DLRUN_ASSIGN(const std::uint64_t value,
               number_of(lookup, name, least, 365 * kDay,
                         static_cast<std::uint64_t>(to / std::chrono::seconds(1))));
  to = std::chrono::seconds(value);
  return {};
}

std::string literal_of(const sockaddr* address) {
  std::array<char, NI_MAXHOST> text{};
  const socklen_t size =
      address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  return text.data();
}

Result<std::string> resolve(const std::string& host, const char* variable) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0)
    return fail(Errc::kNotFound,
                std::string(variable) + "='" + host + "': " + ::gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  return literal_of(found->ai_addr);
}

Result<std::string> address_of_interface(const std::string& name) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return fail_errno("addresses of interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, ::freeifaddrs);
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next)
      if (at->ifa_addr != nullptr && at->ifa_addr->sa_family == family && name == at->ifa_name)
        return literal_of(at->ifa_addr);
  return fail(Errc::kNotFound, "DMLC_INTERFACE='" + name + "': no such interface with an address");
}

/// This machine's address on the way to `literal`: no packet is sent.
Result<std::string> address_towards(const std::string& literal) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (::getaddrinfo(literal.c_str(), "9", &hints, &found) != 0)
    return fail(Errc::kNotFound, "no way to " + literal);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  const int fd = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return fail_errno("socket");
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  const bool ok = ::connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
                  ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0;
  ::close(fd);
  if (!ok) return fail(Errc::kNotFound, "no way to " + literal);
  return literal_of(reinterpret_cast<sockaddr*>(&own));
}

std::string tcp(const std::string& literal, const std::string& port) {
  const bool v6 = literal.find(':') != std::string::npos;
  return "tcp://" + (v6 ? "[" + literal + "]" : literal) + ":" + port;
}

/// The same for processes that see each other's abstract sockets and may link: kernel, network
/// namespace, user.
std::string mark_of_host() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat net {};
  if (boot.empty() || ::stat("/proc/self/ns/net", &net) != 0) return "";
  return boot + "/" + std::to_string(net.st_ino) + "/" + std::to_string(::geteuid());
}

}  // namespace

Result<Settings> read_settings(const Lookup& lookup, const Wish& wish) {
  Settings settings;
  MemberOptions& member = settings.member;
  if (wish.role) {
    member.role = *wish.role;
  } else {
    const std::string role = text_of(lookup, "DMLC_ROLE");
    bool known = false;
    for (const Role each : {Role::kScheduler, Role::kServer, Role::kWorker}) {
      if (role != role_name(each)) continue;
      member.role = each;
      known = true;
    }
    if (role.empty()) return fail(Errc::kInvalidArgument, "DMLC_ROLE is not set");
    if (!known)
      return fail(Errc::kInvalidArgument,
                  "DMLC_ROLE='" + role + "' is none of worker, server, scheduler");
  }
  DLRUN_ASSIGN(const std::uint64_t workers,
               number_of(lookup, "DMLC_NUM_WORKER", 0, kNodesMax, std::nullopt));
  DLRUN_ASSIGN(const std::uint64_t servers,
               number_of(lookup, "DMLC_NUM_SERVER", 0, kNodesMax, std::nullopt));
  if (workers + servers == 0)
    return fail(Errc::kInvalidArgument, "DMLC_NUM_WORKER and DMLC_NUM_SERVER are both 0");
  member.workers = static_cast<std::uint32_t>(workers);
  member.servers = static_cast<std::uint32_t>(servers);
  member.rank = wish.rank;
  const char* const own_rank = member.role == Role::kServer ? "DMLC_SERVER_ID" : "DMLC_WORKER_ID";
  if (wish.rank == kNobody && member.role != Role::kScheduler &&
      !text_of(lookup, own_rank).empty()) {
    DLRUN_ASSIGN(const std::uint64_t rank, number_of(lookup, own_rank, 0, kNodesMax, std::nullopt));
    member.rank = static_cast<int>(rank);
  }
  DLRUN_TRY(seconds_into(member.start_within, lookup, "DLRUN_PSLITE_START_S", 1));
  DLRUN_TRY(seconds_into(member.grace, lookup, "DLRUN_PSLITE_GRACE_S", 0));
  DLRUN_TRY(seconds_into(settings.request_within, lookup, "DLRUN_PSLITE_REQUEST_S", 1));
  LinkCore::Limits& link = member.post.link;
  // 0 turns heartbeats off in ps-lite: here it means the default, for nothing waits for ever.
  for (const auto& [name, to] : {std::pair{"PS_HEARTBEAT_TIMEOUT", &link.lost_after},
                                 std::pair{"PS_HEARTBEAT_INTERVAL", &link.keepalive}}) {
    const Duration otherwise = *to;
    DLRUN_TRY(seconds_into(*to, lookup, name, 0));
    if (*to == Duration::zero()) *to = otherwise;
  }
  if (link.keepalive * 2 > link.lost_after) link.keepalive = link.lost_after / 4;
  DLRUN_ASSIGN(member.post.queue_bytes, number_of(lookup, "DLRUN_PSLITE_QUEUE_BYTES", 1, 1ull << 50,
                                                  member.post.queue_bytes));
  DLRUN_ASSIGN(const std::uint64_t drop, number_of(lookup, "PS_DROP_MSG", 0, 90, 0));
  member.post.drop_percent = static_cast<std::uint32_t>(drop);
  if (drop > 0) link.resend_after = std::chrono::milliseconds(50);
  DLRUN_ASSIGN(const std::uint64_t verbose, number_of(lookup, "PS_VERBOSE", 0, 1000, 0));
  settings.verbose = static_cast<int>(verbose);
  return settings;
}

Status find_places(const Lookup& lookup, MemberOptions& member) {
  const std::string root = text_of(lookup, "DMLC_PS_ROOT_URI");
  if (root.empty()) return fail(Errc::kInvalidArgument, "DMLC_PS_ROOT_URI is not set");
  DLRUN_ASSIGN(const std::uint64_t port,
               number_of(lookup, "DMLC_PS_ROOT_PORT", 1, 65535, std::nullopt));
  DLRUN_ASSIGN(const std::string root_address, resolve(root, "DMLC_PS_ROOT_URI"));
  member.root = tcp(root_address, std::to_string(port));
  std::array<char, 256> host{};
  (void)::gethostname(host.data(), host.size() - 1);
  member.name = std::string(host.data()) + ", process " + std::to_string(::getpid());
  if (member.role == Role::kScheduler) {
    // An address that is not this machine's own (a forwarded port) is listened for on all.
    member.bind = {{member.root}, {"tcp://*:" + std::to_string(port)}};
    return {};
  }
  if (text_of(lookup, "DLRUN_PSLITE_SHM") != "0") member.host_mark = mark_of_host();
  if (member.role == Role::kWorker) return {};
  std::string own = text_of(lookup, "DMLC_NODE_HOST");
  const std::string interface = text_of(lookup, "DMLC_INTERFACE");
  if (!own.empty()) {
    DLRUN_ASSIGN(own, resolve(own, "DMLC_NODE_HOST"));
  } else if (!interface.empty()) {
    DLRUN_ASSIGN(own, address_of_interface(interface));
  } else {
    DLRUN_ASSIGN(own, address_towards(root_address));
  }
  const std::string wish = text_of(lookup, "PORT");
  if (!wish.empty()) {
    DLRUN_ASSIGN(const std::uint64_t own_port, number_of(lookup, "PORT", 0, 65535, 0));
    member.bind.push_back({tcp(own, std::to_string(own_port)), "shm://*"});
  }
  // PORT is often the same for all servers of a host: then only one of them gets it.
  member.bind.push_back({tcp(own, "*"), "shm://*"});
  member.bind.push_back({tcp(own, "*")});
  return {};
}

}  // namespace dlrun::pslite
