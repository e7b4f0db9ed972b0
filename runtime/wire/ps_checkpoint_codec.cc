#include "runtime/wire/ps_checkpoint_codec.h"

#include <cstring>
#include <variant>

#include "runtime/base/crc32c.h"
#include "runtime/base/overload.h"
#include "runtime/wire/bytes.h"
#include "runtime/wire/ps_checkpoint.capnp.h"
#include "runtime/wire/ps_table_codec.h"

namespace dlrun::wire {
namespace {

namespace pb = ps_checkpoint_schema;

constexpr std::string_view kMark = "dlrmani1";
constexpr std::size_t kHeadBytes = 16;

kj::StringPtr text(const std::string& s) { return kj::StringPtr(s.c_str(), s.size()); }

void put(const ps::PartInfo& part, pb::Part::Builder b) {
  b.setCheckpoint(part.checkpoint);
  b.setShard(part.shard.value);
  b.setLogSequence(part.log_sequence);
  b.setNowS(part.now_s);
  auto slots = b.initSlots(static_cast<unsigned>(part.slots.size()));
  for (unsigned i = 0; i < slots.size(); ++i) {
    slots[i].setFirst(part.slots[i].first);
    slots[i].setLast(part.slots[i].last);
  }
  auto tables = b.initTables(static_cast<unsigned>(part.tables.size()));
  for (unsigned i = 0; i < tables.size(); ++i) {
    const ps::TablePart& table = part.tables[i];
    put_table_schema(table.schema, tables[i].initSchema());
    tables[i].setClock(table.clock);
    tables[i].setRate(table.rate);
    tables[i].setHand(table.hand);
    tables[i].setRows(table.rows);
  }
  auto marks = b.initMarks(static_cast<unsigned>(part.marks.size()));
  for (unsigned i = 0; i < marks.size(); ++i) {
    marks[i].setClient(part.marks[i].client.value);
    marks[i].setWorker(part.marks[i].worker.value);
    marks[i].setSequence(part.marks[i].sequence);
  }
  auto left = b.initLeft(static_cast<unsigned>(part.left.size()));
  for (unsigned i = 0; i < left.size(); ++i) left.set(i, part.left[i].value);
  b.setFile(text(part.file));
  b.setBytes(part.bytes);
  b.setBlocks(part.blocks);
  b.setRows(part.rows);
  b.setHeadersCrc(part.headers_crc);
}

Result<ps::PartInfo> part_of(pb::Part::Reader r) {
  ps::PartInfo part{.checkpoint = r.getCheckpoint(),
                    .shard = ShardId{r.getShard()},
                    .log_sequence = r.getLogSequence(),
                    .now_s = r.getNowS()};
  for (const auto run : r.getSlots()) part.slots.push_back({run.getFirst(), run.getLast()});
  for (const auto table : r.getTables()) {
    DLRUN_ASSIGN(ps::TableSchema schema, table_schema_of(table.getSchema()));
    part.tables.push_back(
        {std::move(schema), table.getClock(), table.getRate(), table.getHand(), table.getRows()});
  }
  for (const auto mark : r.getMarks())
    part.marks.push_back(
        {ClientId{mark.getClient()}, ps::WorkerId{mark.getWorker()}, mark.getSequence()});
  for (const std::uint64_t client : r.getLeft()) part.left.emplace_back(client);
  part.file = to_string(r.getFile());
  part.bytes = r.getBytes();
  part.blocks = r.getBlocks();
  part.rows = r.getRows();
  part.headers_crc = r.getHeadersCrc();
  return part;
}

Result<ps::Manifest> manifest_of(pb::Manifest::Reader r) {
  ps::Manifest manifest{.checkpoint = r.getCheckpoint(),
                        .job = to_string(r.getJob()),
                        .epoch = {r.getEpoch().getTerm(), r.getEpoch().getCounter()}};
  for (const auto reader : r.getParts()) {
    DLRUN_ASSIGN(ps::PartInfo part, part_of(reader));
    if (!ps::is_file_name(part.file))
      return fail(Errc::kCorrupt, "a part in file '" + part.file + "'");
    manifest.parts.push_back(std::move(part));
  }
  for (const auto a : r.getAttachments()) {
    manifest.attachments.push_back(
        {to_string(a.getName()), to_string(a.getFile()), a.getBytes(), a.getCrc()});
    if (!ps::is_file_name(manifest.attachments.back().file))
      return fail(Errc::kCorrupt,
                  "an attachment in file '" + manifest.attachments.back().file + "'");
  }
  return manifest;
}

/// A code of a newer peer reads as kInternal; its context stays.
Errc errc_of(std::uint32_t code) {
  if (code == 0) return Errc{};
  return code <= static_cast<std::uint32_t>(Errc::kInternal) ? static_cast<Errc>(code)
                                                             : Errc::kInternal;
}

Result<ps::CutOrder> order_of(pb::Order::Reader r) {
  switch (r.which()) {
    case pb::Order::ASK:
      return ps::CutAsk{};
    case pb::Order::BEGIN: {
      const auto m = r.getBegin();
      ps::CutBegin begin;
      begin.plan.id = m.getCheckpoint();
      for (const auto clock : m.getClocks())
        begin.plan.clocks.push_back({clock.getTable(), clock.getClock()});
      begin.plan.marks_within = Duration{m.getMarksWithinNs()};
      begin.folder = to_string(m.getFolder());
      begin.zstd_level = m.getZstdLevel();
      return begin;
    }
    case pb::Order::CANCEL:
      return ps::CutCancel{r.getCancel().getCheckpoint(), to_string(r.getCancel().getWhy())};
  }
  return fail(Errc::kUnsupported, "an order about a checkpoint that this version does not know");
}

Result<ps::CutReport> report_of(pb::Report::Reader r) {
  switch (r.which()) {
    case pb::Report::ANSWER: {
      ps::CutAnswer answer;
      for (const auto p : r.getAnswer())
        answer.progress.push_back({p.getTable(), p.getLowest(), p.getFastest()});
      return answer;
    }
    case pb::Report::BEGUN: {
      const auto m = r.getBegun();
      return ps::CutBegun{m.getCheckpoint(), errc_of(m.getError()), to_string(m.getContext())};
    }
    case pb::Report::PART: {
      const auto m = r.getPart();
      DLRUN_ASSIGN(ps::PartInfo part, part_of(m.getPart()));
      return ps::CutPart{m.getCheckpoint(), errc_of(m.getError()), to_string(m.getContext()),
                         std::move(part)};
    }
  }
  return fail(Errc::kUnsupported, "a report of a checkpoint that this version does not know");
}

void put_number(std::string& out, std::uint32_t value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

std::uint32_t number_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

std::string encode(const ps::CutOrder& order) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<pb::Order>();
  std::visit(Overload{
                 [&](const ps::CutAsk&) { root.setAsk(); },
                 [&](const ps::CutBegin& m) {
                   auto to = root.initBegin();
                   to.setCheckpoint(m.plan.id);
                   auto clocks = to.initClocks(static_cast<unsigned>(m.plan.clocks.size()));
                   for (unsigned i = 0; i < clocks.size(); ++i) {
                     clocks[i].setTable(m.plan.clocks[i].table);
                     clocks[i].setClock(m.plan.clocks[i].clock);
                   }
                   to.setMarksWithinNs(m.plan.marks_within.count());
                   to.setFolder(text(m.folder));
                   to.setZstdLevel(m.zstd_level);
                 },
                 [&](const ps::CutCancel& m) {
                   auto to = root.initCancel();
                   to.setCheckpoint(m.checkpoint);
                   to.setWhy(text(m.why));
                 },
             },
             order);
  return to_bytes(message);
}

Result<ps::CutOrder> decode_cut_order(std::string_view bytes) {
  return from_bytes<pb::Order>(bytes, "order about a checkpoint",
                               [](pb::Order::Reader r) { return order_of(r); });
}

std::string encode(const ps::CutReport& report) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<pb::Report>();
  std::visit(Overload{
                 [&](const ps::CutAnswer& m) {
                   auto to = root.initAnswer(static_cast<unsigned>(m.progress.size()));
                   for (unsigned i = 0; i < to.size(); ++i) {
                     to[i].setTable(m.progress[i].table);
                     to[i].setLowest(m.progress[i].lowest);
                     to[i].setFastest(m.progress[i].fastest);
                   }
                 },
                 [&](const ps::CutBegun& m) {
                   auto to = root.initBegun();
                   to.setCheckpoint(m.checkpoint);
                   to.setError(static_cast<std::uint32_t>(m.error));
                   to.setContext(text(m.context));
                 },
                 [&](const ps::CutPart& m) {
                   auto to = root.initPart();
                   to.setCheckpoint(m.checkpoint);
                   to.setError(static_cast<std::uint32_t>(m.error));
                   to.setContext(text(m.context));
                   put(m.part, to.initPart());
                 },
             },
             report);
  return to_bytes(message);
}

Result<ps::CutReport> decode_cut_report(std::string_view bytes) {
  return from_bytes<pb::Report>(bytes, "report of a checkpoint",
                                [](pb::Report::Reader r) { return report_of(r); });
}

std::string encode(const ps::PartInfo& part) {
  capnp::MallocMessageBuilder message;
  put(part, message.initRoot<pb::Part>());
  return to_bytes(message);
}

Result<ps::PartInfo> decode_part_info(std::string_view bytes) {
  return from_bytes<pb::Part>(bytes, "part of a checkpoint",
                              [](pb::Part::Reader r) { return part_of(r); });
}

std::string encode(const ps::Manifest& manifest) {
  capnp::MallocMessageBuilder message;
  auto b = message.initRoot<pb::Manifest>();
  b.setCheckpoint(manifest.checkpoint);
  b.setJob(text(manifest.job));
  b.initEpoch().setTerm(manifest.epoch.term);
  b.getEpoch().setCounter(manifest.epoch.counter);
  auto parts = b.initParts(static_cast<unsigned>(manifest.parts.size()));
  for (unsigned i = 0; i < parts.size(); ++i) put(manifest.parts[i], parts[i]);
  auto attachments = b.initAttachments(static_cast<unsigned>(manifest.attachments.size()));
  for (unsigned i = 0; i < attachments.size(); ++i) {
    const ps::Attachment& a = manifest.attachments[i];
    attachments[i].setName(text(a.name));
    attachments[i].setFile(text(a.file));
    attachments[i].setBytes(a.bytes);
    attachments[i].setCrc(a.crc);
  }
  const std::string body = to_bytes(message);
  std::string out(kMark);
  put_number(out, crc32c(body));
  put_number(out, static_cast<std::uint32_t>(body.size()));
  return out + body;
}

Result<ps::Manifest> decode_manifest(std::string_view bytes) {
  if (bytes.size() < kHeadBytes || bytes.size() > kManifestBytesMax)
    return fail(Errc::kCorrupt, "a manifest of " + std::to_string(bytes.size()) + " bytes");
  if (!bytes.starts_with(kMark)) {
    if (bytes.starts_with(kMark.substr(0, kMark.size() - 1)))
      return fail(Errc::kUnsupported, "a manifest of another version of the format");
    return fail(Errc::kCorrupt, "not a manifest");
  }
  const std::string_view body = bytes.substr(kHeadBytes);
  if (number_at(bytes, 12) != body.size())
    return fail(Errc::kCorrupt, "a manifest with " + std::to_string(body.size()) + " of " +
                                    std::to_string(number_at(bytes, 12)) + " bytes");
  if (number_at(bytes, 8) != crc32c(body))
    return fail(Errc::kCorrupt, "a manifest whose CRC32C is not what it says");
  return from_bytes<pb::Manifest>(body, "manifest",
                                  [](pb::Manifest::Reader r) { return manifest_of(r); });
}

}  // namespace dlrun::wire
