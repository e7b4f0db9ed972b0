#include "runtime/wire/ps_codec.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <array>
#include <cstring>

#include "runtime/base/assert.h"
#include "runtime/wire/ps.capnp.h"
#include "runtime/wire/ps_table_codec.h"

namespace dlrun::wire {
namespace {

constexpr std::size_t kContextBytesMax = 2048;

std::vector<std::byte> flatten(capnp::MallocMessageBuilder& message) {
  const auto words = capnp::messageToFlatArray(message);
  const auto bytes = words.asBytes();
  std::vector<std::byte> out(bytes.size());
  std::memcpy(out.data(), bytes.begin(), bytes.size());
  return out;
}

kj::StringPtr text(const std::string& s) { return kj::StringPtr(s.c_str(), s.size()); }

/// Runs `read` on the root of the message; whatever kj finds wrong with the bytes becomes kCorrupt.
template <class Root, class Out, class Read>
Result<Out> with_root(std::span<const std::byte> bytes, Read read) {
  if (bytes.empty() || bytes.size() % sizeof(capnp::word) != 0 ||
      bytes.size() > kPsHeaderBytesMax) {
    return fail(Errc::kCorrupt, "parameter header of " + std::to_string(bytes.size()) + " bytes");
  }
  alignas(capnp::word) std::array<std::byte, kPsHeaderBytesMax> aligned;
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  Result<Out> out = fail(Errc::kCorrupt, "parameter header");
  const auto problem = kj::runCatchingExceptions([&] {
    capnp::ReaderOptions options;
    options.traversalLimitInWords = kPsHeaderBytesMax;
    options.nestingLimit = 4;
    const kj::ArrayPtr<const capnp::word> words(
        reinterpret_cast<const capnp::word*>(aligned.data()), bytes.size() / sizeof(capnp::word));
    capnp::FlatArrayMessageReader reader(words, options);
    if (reader.getEnd() != words.end()) {
      out = fail(Errc::kCorrupt, "parameter header: bytes after its end");
      return;
    }
    out = read(reader.getRoot<Root>());
  });
  KJ_IF_MAYBE (e, problem) {
    return fail(Errc::kCorrupt, std::string("parameter header: ") + e->getDescription().cStr());
  }
  return out;
}

Epoch epoch_of(ps_schema::Epoch::Reader r) { return {r.getTerm(), r.getCounter()}; }
ps::ScanCursor cursor_of(ps_schema::Cursor::Reader r) { return {r.getSlot(), r.getKey()}; }

void put_epoch(Epoch epoch, ps_schema::Epoch::Builder b) {
  b.setTerm(epoch.term);
  b.setCounter(epoch.counter);
}

void put_cursor(ps::ScanCursor cursor, ps_schema::Cursor::Builder b) {
  b.setSlot(cursor.slot);
  b.setKey(cursor.key);
}

Result<ps::RequestHeader> request_of(ps_schema::Request::Reader r) {
  ps::RequestHeader h;
  h.version = r.getVersion();
  if (!to_enum(r.getKind(), ps::Kind::kCreateTable, ps::kKindLast, h.kind)) {
    return fail(Errc::kUnsupported, "request of unknown kind " + std::to_string(r.getKind()));
  }
  const auto token = r.getToken();
  if (token.size() != h.token.size())
    return fail(Errc::kCorrupt, "token of " + std::to_string(token.size()) + " bytes");
  std::memcpy(h.token.data(), token.begin(), h.token.size());
  h.request = r.getRequest();
  h.epoch = epoch_of(r.getEpoch());
  h.client = ClientId{r.getClient()};
  h.sequence = r.getSequence();
  h.table = r.getTable();
  h.worker = ps::WorkerId{r.getWorker()};
  h.clock = r.getClock();
  h.budget = Duration{r.getBudgetNs()};
  h.n = r.getN();
  h.dim = r.getDim();
  h.cursor = cursor_of(r.getCursor());
  h.rate = r.getRate();
  if (!to_enum(r.getCodec(), ps::Codec::kF32, ps::kCodecLast, h.codec.codec))
    return fail(Errc::kUnsupported, "request with unknown codec " + std::to_string(r.getCodec()));
  h.codec.k = r.getCodecK();
  h.checkpoint = r.getCheckpoint();
  if (r.hasSchema()) {
    DLRUN_ASSIGN(h.schema, table_schema_of(r.getSchema()));
  }
  return h;
}

Result<ps::ReplyHeader> reply_of(ps_schema::Reply::Reader r) {
  ps::ReplyHeader h;
  h.version = r.getVersion();
  if (!to_enum(r.getKind(), ps::Kind::kCreateTable, ps::kKindLast, h.kind)) {
    return fail(Errc::kUnsupported, "reply of unknown kind " + std::to_string(r.getKind()));
  }
  h.request = r.getRequest();
  h.error = r.getError();
  h.context.assign(r.getContext().begin(), r.getContext().size());
  h.epoch = epoch_of(r.getEpoch());
  h.clock = r.getClock();
  h.n = r.getN();
  h.dim = r.getDim();
  h.cursor = cursor_of(r.getCursor());
  if (!to_enum(r.getCodec(), ps::Codec::kF32, ps::kCodecLast, h.codec.codec))
    return fail(Errc::kUnsupported, "reply with unknown codec " + std::to_string(r.getCodec()));
  h.codec.k = r.getCodecK();
  h.checkpoint = r.getCheckpoint();
  h.cut_clock = r.getCutClock();
  return h;
}

}  // namespace

namespace {

void put_plain(const ps::RequestHeader& h, ps_schema::Request::Builder b) {
  b.setVersion(h.version);
  b.setKind(static_cast<std::uint8_t>(h.kind));
  b.setRequest(h.request);
  std::memcpy(b.getToken().begin(), h.token.data(), h.token.size());
  put_epoch(h.epoch, b.getEpoch());
  b.setClient(h.client.value);
  b.setSequence(h.sequence);
  b.setTable(h.table);
  b.setWorker(h.worker.value);
  b.setClock(h.clock);
  b.setBudgetNs(h.budget.count());
  b.setN(h.n);
  b.setDim(h.dim);
  b.setRate(h.rate);
  b.setCodec(static_cast<std::uint8_t>(h.codec.codec));
  b.setCodecK(h.codec.k);
  b.setCheckpoint(h.checkpoint);
}

void put_plain(const ps::ReplyHeader& h, ps_schema::Reply::Builder b) {
  b.setVersion(h.version);
  b.setKind(static_cast<std::uint8_t>(h.kind));
  b.setRequest(h.request);
  b.setError(h.error);
  put_epoch(h.epoch, b.getEpoch());
  b.setClock(h.clock);
  b.setN(h.n);
  b.setDim(h.dim);
  b.setCodec(static_cast<std::uint8_t>(h.codec.codec));
  b.setCodecK(h.codec.k);
  b.setCheckpoint(h.checkpoint);
  b.setCutClock(h.cut_clock);
}

bool is_plain(const ps::RequestHeader& h) { return !h.schema && h.cursor == ps::ScanCursor{}; }
bool is_plain(const ps::ReplyHeader& h) {
  return h.context.empty() && h.cursor == ps::ScanCursor{};
}

void make_pointers(ps_schema::Request::Builder b) {
  b.initToken(ps::RequestHeader{}.token.size());
  b.initEpoch();
}
void make_pointers(ps_schema::Reply::Builder b) { b.initEpoch(); }

/// A message whose pointers stay while its data is written again and again. Flat: the table of
/// segments (one word: one segment), then the segment.
template <class Root>
class Plain {
 public:
  Plain() {
    make_pointers(root_);
    words_ = message_.getSegmentsForOutput()[0].size();
    DLRUN_ASSERT(message_.getSegmentsForOutput().size() == 1);
    const std::uint32_t table[2] = {0, static_cast<std::uint32_t>(words_)};
    std::memcpy(bytes_, table, sizeof table);
  }
  template <class Header>
  std::span<const std::byte> write(const Header& header) {
    put_plain(header, root_);
    return bytes();
  }
  std::span<const std::byte> bytes() const noexcept {
    return {bytes_, (words_ + 1) * sizeof(capnp::word)};
  }

 private:
  static constexpr std::size_t kBytes = 512;
  alignas(capnp::word) std::byte bytes_[kBytes] = {};
  capnp::MallocMessageBuilder message_{kj::ArrayPtr<capnp::word>(
      reinterpret_cast<capnp::word*>(bytes_) + 1, kBytes / sizeof(capnp::word) - 1)};
  typename Root::Builder root_ = message_.initRoot<Root>();
  std::size_t words_ = 0;
};

/// Where the pointers of a plain message stand, and what they are.
template <class Root>
struct PlainLayout {
  static constexpr std::size_t kBytesMax = 512;
  std::array<std::byte, kBytesMax> bytes{};
  std::size_t size = 0;                              ///< bytes
  std::size_t pointers_begin = 0, pointers_end = 0;  ///< bytes

  PlainLayout() {
    const Plain<Root> plain;
    size = plain.bytes().size();
    DLRUN_ASSERT(size <= kBytesMax);
    std::memcpy(bytes.data(), plain.bytes().data(), size);
    // The root's pointer: 2 bits of kind, 30 of offset, 16 words of data, 16 of pointers.
    std::uint64_t root = 0;
    std::memcpy(&root, bytes.data() + kRootAt, sizeof root);
    pointers_begin =
        (kRootAt / kWord + 1 + (root & 0xffffffff) / 4 + (root >> 32 & 0xffff)) * kWord;
    pointers_end = pointers_begin + (root >> 48) * kWord;
  }
  /// Nothing in such a message points elsewhere than in the one that we made ourselves.
  bool fits(const std::byte* message) const noexcept {
    return std::memcmp(message, bytes.data(), kRootAt + kWord) == 0 &&
           std::memcmp(message + pointers_begin, bytes.data() + pointers_begin,
                       pointers_end - pointers_begin) == 0;
  }

 private:
  static constexpr std::size_t kWord = sizeof(capnp::word);
  static constexpr std::size_t kRootAt = kWord;  ///< after the table of segments
};

template <class Root>
const PlainLayout<Root>& plain_layout() {
  static const PlainLayout<Root> layout;
  return layout;
}

template <class Root, class Out, class Read>
Result<Out> decode(std::span<const std::byte> bytes, Read read) {
  const PlainLayout<Root>& layout = plain_layout<Root>();
  if (bytes.size() == layout.size) {
    // A copy that nobody else writes to; bytes, which may hold what capnp reads in them.
    alignas(capnp::word) std::array<std::byte, PlainLayout<Root>::kBytesMax> copy;
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    if (layout.fits(copy.data())) {
      return read(
          capnp::readMessageUnchecked<Root>(reinterpret_cast<const capnp::word*>(copy.data()) + 1));
    }
  }
  return with_root<Root, Out>(bytes, read);
}

}  // namespace

struct HeaderWriter::Impl {
  Plain<ps_schema::Request> request;
  Plain<ps_schema::Reply> reply;
  std::vector<std::byte> other;
};

HeaderWriter::HeaderWriter() : impl_(std::make_unique<Impl>()) {}
HeaderWriter::~HeaderWriter() = default;

std::span<const std::byte> HeaderWriter::write(const ps::RequestHeader& h) {
  if (is_plain(h)) return impl_->request.write(h);
  return impl_->other = encode(h);
}

std::span<const std::byte> HeaderWriter::write(const ps::ReplyHeader& h) {
  if (is_plain(h)) return impl_->reply.write(h);
  return impl_->other = encode(h);
}

std::vector<std::byte> encode(const ps::RequestHeader& h) {
  alignas(capnp::word) std::array<std::byte, 1024> scratch{};
  capnp::MallocMessageBuilder message(kj::ArrayPtr<capnp::word>(
      reinterpret_cast<capnp::word*>(scratch.data()), scratch.size() / sizeof(capnp::word)));
  auto b = message.initRoot<ps_schema::Request>();
  make_pointers(b);
  put_plain(h, b);
  if (h.cursor != ps::ScanCursor{}) put_cursor(h.cursor, b.initCursor());
  if (h.schema) put_table_schema(*h.schema, b.initSchema());
  return flatten(message);
}

std::vector<std::byte> encode(const ps::ReplyHeader& h) {
  alignas(capnp::word) std::array<std::byte, 1024> scratch{};
  capnp::MallocMessageBuilder message(kj::ArrayPtr<capnp::word>(
      reinterpret_cast<capnp::word*>(scratch.data()), scratch.size() / sizeof(capnp::word)));
  auto b = message.initRoot<ps_schema::Reply>();
  if (!h.context.empty()) b.setContext(text(h.context.substr(0, kContextBytesMax)));
  make_pointers(b);
  put_plain(h, b);
  if (h.cursor != ps::ScanCursor{}) put_cursor(h.cursor, b.initCursor());
  return flatten(message);
}

Result<ps::RequestHeader> decode_ps_request(std::span<const std::byte> bytes) {
  return decode<ps_schema::Request, ps::RequestHeader>(bytes, request_of);
}

Result<ps::ReplyHeader> decode_ps_reply(std::span<const std::byte> bytes) {
  return decode<ps_schema::Reply, ps::ReplyHeader>(bytes, reply_of);
}

}  // namespace dlrun::wire
