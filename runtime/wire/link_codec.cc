#include "runtime/wire/link_codec.h"

#include "runtime/wire/bytes.h"
#include "runtime/wire/link.capnp.h"

namespace dlrun::wire {
namespace {

void put(schema::LinkFrame::Builder to, const LinkHello& from) {
  auto hello = to.initHello();
  hello.setVersion(from.version);
  hello.setNode(from.node.value);
  hello.setIncarnation(from.incarnation.value);
  hello.setCertificate(data_of(from.certificate_pem));
  hello.setSignature(data_of(from.signature));
  hello.setLogKey(from.log_key);
}
void put(schema::LinkFrame::Builder to, const LinkWelcome& from) {
  to.initWelcome().setVersion(from.version);
}
void put(schema::LinkFrame::Builder to, const LinkRefused& from) {
  auto refused = to.initRefused();
  refused.setCode(static_cast<std::int32_t>(from.code));
  refused.setReason(from.reason);
}
void put(schema::LinkFrame::Builder to, const LinkPayload& from) {
  to.setPayload(data_of(from.bytes));
}

Result<LinkFrame> get(schema::LinkFrame::Reader from) {
  switch (from.which()) {
    case schema::LinkFrame::HELLO: {
      const auto hello = from.getHello();
      return LinkFrame(LinkHello{hello.getVersion(), NodeId(to_string(hello.getNode())),
                                 Incarnation(hello.getIncarnation()),
                                 to_string(hello.getCertificate()), to_string(hello.getSignature()),
                                 to_string(hello.getLogKey())});
    }
    case schema::LinkFrame::WELCOME:
      return LinkFrame(LinkWelcome{from.getWelcome().getVersion()});
    case schema::LinkFrame::REFUSED:
      return LinkFrame(LinkRefused{static_cast<Errc>(from.getRefused().getCode()),
                                   to_string(from.getRefused().getReason())});
    case schema::LinkFrame::PAYLOAD:
      return LinkFrame(LinkPayload{to_string(from.getPayload())});
  }
  return fail(Errc::kUnsupported, "link frame: unknown kind");
}

}  // namespace

std::string encode(const LinkFrame& frame) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<schema::LinkFrame>();
  std::visit([&](const auto& f) { put(root, f); }, frame);
  return to_bytes(message);
}

Result<LinkFrame> decode_link(std::string_view bytes) {
  return from_bytes<schema::LinkFrame>(bytes, "link frame",
                                       [](schema::LinkFrame::Reader r) { return get(r); });
}

std::string link_statement(const LinkHello& hello) {
  return "dlrun link 1\n" + hello.node.value + "\n" + std::to_string(hello.incarnation.value) +
         "\n" + hello.log_key;
}

}  // namespace dlrun::wire
