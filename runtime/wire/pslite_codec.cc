#include "runtime/wire/pslite_codec.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <array>
#include <cstring>
#include <string>
#include <variant>

#include "runtime/wire/pslite.capnp.h"

namespace dlrun::wire {
namespace {

using pslite::Payload;

kj::StringPtr text(const std::string& s) { return kj::StringPtr(s.c_str(), s.size()); }
std::string string_of(capnp::Text::Reader r) { return {r.begin(), r.size()}; }

struct Put {
  pslite_schema::Packet::Builder b;

  void operator()(std::monostate) { b.setNone(); }
  void operator()(const pslite::Register& v) {
    auto r = b.initRegister();
    r.setVersion(v.version);
    r.setRole(static_cast<std::uint8_t>(v.role));
    r.setCustomer(v.customer);
    r.setRank(v.rank);
    r.setWorkers(v.workers);
    r.setServers(v.servers);
    r.setTcp(text(v.tcp));
    r.setShm(text(v.shm));
    r.setName(text(v.name));
  }
  void operator()(const pslite::Roster& v) {
    auto r = b.initRoster();
    r.setJob(v.job);
    r.setYou(v.you);
    auto nodes = r.initNodes(static_cast<unsigned>(v.nodes.size()));
    for (unsigned i = 0; i < nodes.size(); ++i) {
      nodes[i].setId(v.nodes[i].id);
      nodes[i].setProcess(v.nodes[i].process);
      nodes[i].setTcp(text(v.nodes[i].tcp));
      nodes[i].setShm(text(v.nodes[i].shm));
      nodes[i].setName(text(v.nodes[i].name));
    }
  }
  void operator()(const pslite::Hello& v) {
    auto r = b.initHello();
    r.setJob(v.job);
    r.setFrom(v.from);
  }
  void operator()(const pslite::Refused& v) { b.setRefused(text(v.reason)); }
  void operator()(const pslite::Enter& v) { b.setEnter(v.group); }
  void operator()(const pslite::Passed& v) { b.setPassed(v.group); }
  void operator()(const pslite::Failed& v) { b.setFailed(text(v.reason)); }
  void operator()(const pslite::Goodbye&) { b.setGoodbye(); }
  void operator()(const pslite::Mail& v) {
    auto r = b.initMail();
    r.setApp(v.app);
    r.setCustomer(v.customer);
    r.setTimestamp(v.timestamp);
    r.setHead(v.head);
    r.setSender(v.sender);
    r.setRecver(v.recver);
    r.setRequest(v.request);
    r.setPush(v.push);
    r.setPull(v.pull);
    r.setSimpleApp(v.simple_app);
    r.setNumber(v.number);
    r.setOffset(v.offset);
    auto bytes = r.initBytes(v.arrays);
    auto types = r.initTypes(v.arrays);
    for (unsigned i = 0; i < v.arrays; ++i) {
      bytes.set(i, v.bytes[i]);
      types.set(i, v.types[i]);
    }
  }
};

Result<Payload> mail_of(pslite_schema::Packet::Mail::Reader r) {
  pslite::Mail v;
  v.app = r.getApp();
  v.customer = r.getCustomer();
  v.timestamp = r.getTimestamp();
  v.head = r.getHead();
  v.sender = r.getSender();
  v.recver = r.getRecver();
  v.request = r.getRequest();
  v.push = r.getPush();
  v.pull = r.getPull();
  v.simple_app = r.getSimpleApp();
  v.number = r.getNumber();
  v.offset = r.getOffset();
  const auto bytes = r.getBytes();
  const auto types = r.getTypes();
  if (bytes.size() > pslite::kArraysMax || types.size() != bytes.size())
    return fail(Errc::kCorrupt, "mail of " + std::to_string(bytes.size()) + " arrays");
  v.arrays = bytes.size();
  std::uint64_t room = pslite::kMailBytesMax;
  for (unsigned i = 0; i < v.arrays; ++i) {
    if (bytes[i] > room) return fail(Errc::kCorrupt, "mail that is too large");
    room -= bytes[i];
    v.bytes[i] = bytes[i];
    v.types[i] = types[i];
  }
  if (v.offset > v.total()) return fail(Errc::kCorrupt, "mail with bytes beyond its end");
  return Payload(v);
}

Result<Payload> payload_of(pslite_schema::Packet::Reader r) {
  using Which = pslite_schema::Packet::Which;
  switch (r.which()) {
    case Which::NONE:
      return Payload();
    case Which::REGISTER: {
      const auto v = r.getRegister();
      if (v.getRole() > static_cast<std::uint8_t>(pslite::kRoleLast))
        return fail(Errc::kUnsupported, "role " + std::to_string(v.getRole()));
      return Payload(pslite::Register{v.getVersion(), static_cast<pslite::Role>(v.getRole()),
                                      v.getCustomer(), v.getRank(), v.getWorkers(), v.getServers(),
                                      string_of(v.getTcp()), string_of(v.getShm()),
                                      string_of(v.getName())});
    }
    case Which::ROSTER: {
      const auto v = r.getRoster();
      pslite::Roster roster{v.getJob(), v.getYou(), {}};
      for (const auto node : v.getNodes())
        roster.nodes.push_back({node.getId(), node.getProcess(), string_of(node.getTcp()),
                                string_of(node.getShm()), string_of(node.getName())});
      return Payload(std::move(roster));
    }
    case Which::HELLO:
      return Payload(pslite::Hello{r.getHello().getJob(), r.getHello().getFrom()});
    case Which::REFUSED:
      return Payload(pslite::Refused{string_of(r.getRefused())});
    case Which::ENTER:
      return Payload(pslite::Enter{r.getEnter()});
    case Which::PASSED:
      return Payload(pslite::Passed{r.getPassed()});
    case Which::FAILED:
      return Payload(pslite::Failed{string_of(r.getFailed())});
    case Which::GOODBYE:
      return Payload(pslite::Goodbye{});
    case Which::MAIL:
      return mail_of(r.getMail());
  }
  return fail(Errc::kUnsupported, "packet of unknown kind");
}

Result<pslite::Packet> packet_of(pslite_schema::Packet::Reader r) {
  pslite::Packet packet;
  DLRUN_ASSIGN(packet.payload, payload_of(r));
  packet.session = r.getSession();
  packet.sequence = r.getSequence();
  packet.ack = r.getAck();
  packet.taken = r.getTaken();
  return packet;
}

}  // namespace

std::vector<std::byte> encode_pslite(const pslite::Packet& packet) {
  alignas(capnp::word) std::array<std::byte, 512> scratch{};
  capnp::MallocMessageBuilder message(kj::ArrayPtr<capnp::word>(
      reinterpret_cast<capnp::word*>(scratch.data()), scratch.size() / sizeof(capnp::word)));
  auto root = message.initRoot<pslite_schema::Packet>();
  root.setSession(packet.session);
  root.setSequence(packet.sequence);
  root.setAck(packet.ack);
  root.setTaken(packet.taken);
  std::visit(Put{root}, packet.payload);
  const auto words = capnp::messageToFlatArray(message);
  const auto bytes = words.asBytes();
  std::vector<std::byte> out(bytes.size());
  std::memcpy(out.data(), bytes.begin(), bytes.size());
  return out;
}

Result<pslite::Packet> decode_pslite(std::span<const std::byte> bytes) {
  if (bytes.empty() || bytes.size() % sizeof(capnp::word) != 0 ||
      bytes.size() > kPslitePacketBytesMax)
    return fail(Errc::kCorrupt, "ps-lite header of " + std::to_string(bytes.size()) + " bytes");
  // Frames are not aligned; most headers are small.
  alignas(capnp::word) std::array<std::byte, 512> small;
  kj::Array<capnp::word> large;
  std::byte* aligned = small.data();
  if (bytes.size() > small.size()) {
    large = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
    aligned = reinterpret_cast<std::byte*>(large.begin());
  }
  std::memcpy(aligned, bytes.data(), bytes.size());
  Result<pslite::Packet> out = fail(Errc::kCorrupt, "ps-lite header");
  const auto problem = kj::runCatchingExceptions([&] {
    capnp::ReaderOptions options;
    options.traversalLimitInWords = kPslitePacketBytesMax;
    options.nestingLimit = 4;
    capnp::FlatArrayMessageReader reader(
        kj::ArrayPtr<const capnp::word>(reinterpret_cast<const capnp::word*>(aligned),
                                        bytes.size() / sizeof(capnp::word)),
        options);
    const auto root = reader.getRoot<pslite_schema::Packet>();
    out = packet_of(root);
  });
  KJ_IF_MAYBE (e, problem) {
    return fail(Errc::kCorrupt, std::string("ps-lite header: ") + e->getDescription().cStr());
  }
  return out;
}

}  // namespace dlrun::wire
