#pragma once
/// ps/pslite/core/msg.h: what the processes of a ps-lite program say to each other. Values only;
/// runtime/wire/pslite_codec.h has their bytes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace dlrun::pslite {

inline constexpr std::uint32_t kProtocolVersion = 1;

enum class Role : std::uint8_t { kScheduler, kServer, kWorker };
inline constexpr Role kRoleLast = Role::kWorker;
inline const char* role_name(Role role) noexcept {
  constexpr std::array<const char*, 3> kNames = {"scheduler", "server", "worker"};
  return kNames[static_cast<std::size_t>(role)];
}

/// The numbers of nodes are ps-lite's: programs compute with them. Groups are sums of three bits.
inline constexpr int kSchedulerId = 1;
inline constexpr int kSchedulerBit = 1;
inline constexpr int kServerBit = 2;
inline constexpr int kWorkerBit = 4;
inline constexpr int kNobody = -1;
inline constexpr int id_of(Role role, int rank) noexcept {
  return role == Role::kScheduler ? kSchedulerId : 8 + 2 * rank + (role == Role::kWorker ? 1 : 0);
}
inline constexpr int rank_of(int id) noexcept { return id < 8 ? 0 : (id - 8) / 2; }
inline constexpr Role role_of(int id) noexcept {
  return id < 8 ? Role::kScheduler : id % 2 == 0 ? Role::kServer : Role::kWorker;
}
inline constexpr int bit_of(Role role) noexcept {
  return role == Role::kScheduler ? kSchedulerBit : role == Role::kServer ? kServerBit : kWorkerBit;
}
/// "server 1".
inline std::string node_name(int id) {
  return id < 8 ? "the scheduler" : role_name(role_of(id)) + (" " + std::to_string(rank_of(id)));
}

/// A node says who it is: one for each customer that starts. To the scheduler.
struct Register {
  std::uint32_t version = kProtocolVersion;
  Role role = Role::kWorker;
  int customer = 0;
  int rank = kNobody;  ///< the one it would like
  std::uint32_t workers = 0;
  std::uint32_t servers = 0;
  std::string tcp, shm;  ///< where a server listens; shm may be empty
  std::string name;      ///< "host, process 123", for people
  friend bool operator==(const Register&, const Register&) = default;
};
struct RosterNode {
  int id = 0;
  int process = 0;  ///< the lowest id of the same process: where its mail goes
  std::string tcp, shm, name;
  friend bool operator==(const RosterNode&, const RosterNode&) = default;
};
/// All have registered. To each process.
struct Roster {
  std::uint64_t job = 0;
  int you = 0;  ///< the receiver's `process`
  std::vector<RosterNode> nodes;
  friend bool operator==(const Roster&, const Roster&) = default;
};
/// The first on a link between a worker and a server.
struct Hello {
  std::uint64_t job = 0;
  int from = 0;
  friend bool operator==(const Hello&, const Hello&) = default;
};
/// You are not wanted here.
struct Refused {
  std::string reason;
  friend bool operator==(const Refused&, const Refused&) = default;
};
/// Arrives at a barrier; all have.
struct Enter {
  int group = 0;
  friend bool operator==(const Enter&, const Enter&) = default;
};
struct Passed {
  int group = 0;
  friend bool operator==(const Passed&, const Passed&) = default;
};
/// The job cannot go on. From whom it happens to, and to everybody.
struct Failed {
  std::string reason;
  friend bool operator==(const Failed&, const Failed&) = default;
};
/// Nothing comes after it on this link.
struct Goodbye {
  friend bool operator==(const Goodbye&, const Goodbye&) = default;
};

/// What users send: numbers, and up to kArraysMax arrays: a body and, of keys and values, three.
inline constexpr std::size_t kArraysMax = 4;
/// Of one mail. Beyond that it is refused where it is sent, and where it comes in.
inline constexpr std::uint64_t kMailBytesMax = 64ull << 30;
/// One mail may come in several packets, each with a part of its arrays' bytes laid end to end.
struct Mail {
  int app = 0;
  int customer = 0;
  int timestamp = 0;
  int head = 0;
  int sender = 0;
  int recver = 0;
  bool request = false;
  bool push = false;
  bool pull = false;
  bool simple_app = false;
  std::uint64_t number = 0;  ///< of the mail on its link
  std::uint64_t offset = 0;  ///< of this packet's bytes
  std::uint32_t arrays = 0;
  std::array<std::uint64_t, kArraysMax> bytes{};
  std::array<std::uint8_t, kArraysMax> types{};  ///< ps-lite's DataType
  friend bool operator==(const Mail&, const Mail&) = default;

  std::uint64_t total() const noexcept {
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < arrays; ++i) sum += bytes[i];
    return sum;
  }
};

/// monostate: only the numbers of the link.
using Payload = std::variant<std::monostate, Register, Roster, Hello, Refused, Enter, Passed,
                             Failed, Goodbye, Mail>;

/// The header of every packet of a link.
struct Packet {
  std::uint64_t session = 0;   ///< of the link: a random number of the side that dialled
  std::uint64_t sequence = 0;  ///< from 1; 0: nothing to be kept, monostate
  std::uint64_t ack = 0;       ///< all up to this one came
  std::uint64_t taken = 0;     ///< bytes of requests that have been taken
  Payload payload;
  friend bool operator==(const Packet&, const Packet&) = default;
};

}  // namespace dlrun::pslite
