#include "ps/client/shard_link.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace dlrun::ps {
namespace {

constexpr std::string_view kShmPrefix = "shm://";
/// A ring of 2 MiB holds what is under way.
constexpr std::uint64_t kShmCreditBytes = 1536u << 10;

/// Does somebody listen at this Unix socket ("@name": an abstract one) on this host?
bool answers(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() +
                                           (path[0] == '@' ? 0 : 1));
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const bool yes = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0;
  ::close(fd);
  return yes;
}

/// Where the shard is reached, the best first. Never empty.
std::vector<std::string> endpoints_of(const ShardEndpoint& shard) {
  std::vector<std::string> endpoints;
  const std::string shm = shard.ipc + std::string(kShmSuffix);
  if (!shard.ipc.empty() && answers(shm)) endpoints.push_back(std::string(kShmPrefix) + shm);
  if (answers(shard.ipc)) endpoints.push_back("ipc://" + shard.ipc);
  if (endpoints.empty() || !shard.tcp.empty()) endpoints.push_back(shard.tcp);
  return endpoints;
}

}  // namespace

bool ShardLink::shm() const noexcept { return endpoints[choice].rfind(kShmPrefix, 0) == 0; }

void ShardLink::place(transport::Channel& channel, const ShardEndpoint& shard,
                      std::uint64_t credit_bytes, TimePoint now) {
  credit_bytes_ = credit_bytes;
  std::vector<std::string> found = endpoints_of(shard);
  if (found == endpoints && peer != 0) {
    best_again_ = now;
    return;
  }
  endpoints = std::move(found);
  best_pause_ = kBestAgain;
  dial(channel, 0, now);
}

/// The first from `first` on that can be dialled.
void ShardLink::dial(transport::Channel& channel, std::size_t first, TimePoint now) {
  if (peer != 0) channel.disconnect(peer);
  peer = 0;  // each send then says kUnavailable, and the call its deadline
  for (std::size_t i = 0; i < endpoints.size() && peer == 0; ++i) {
    use((first + i) % endpoints.size());
    if (const auto dialled = channel.connect(endpoint())) peer = *dialled;
  }
  patience_ = kFailsFor;
  best_again_ = now + best_pause_;
}

void ShardLink::use(std::size_t which) {
  choice = which;
  after_ = (which + 1) % endpoints.size();
  credit = shm() ? std::min(credit_bytes_, kShmCreditBytes) : credit_bytes_;
  failing_since_.reset();
}

void ShardLink::answered() noexcept {
  if (choice != 0) return;
  patience_ = kFailsFor;
  best_pause_ = kBestAgain;
}

bool ShardLink::refused(transport::Channel& channel, TimePoint now) {
  if (!failing_since_) failing_since_ = now;
  if (now - *failing_since_ <= patience_) return false;
  dial(channel, after_, now);
  return true;
}

bool ShardLink::try_best(transport::Channel& channel, TimePoint now) {
  if (choice == 0 || now < best_again_) return false;
  best_pause_ = std::min(2 * best_pause_, kBestAgainMax);
  best_again_ = now + best_pause_;
  const auto best = channel.connect(endpoints[0]);
  if (!best) return false;
  if (peer != 0) channel.disconnect(peer);
  peer = *best;
  const std::size_t left = choice;
  use(0);
  after_ = left;
  patience_ = kTrialFor;
  return true;
}

}  // namespace dlrun::ps
