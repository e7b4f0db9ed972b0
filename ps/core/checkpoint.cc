#include "ps/core/checkpoint.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace dlrun::ps {
namespace {

constexpr std::size_t kNameBytesMax = 128;

tl::unexpected<Error> disagree(const PartInfo& a, const PartInfo& b, const std::string& what) {
  return fail(Errc::kFailedPrecondition, "shards " + std::to_string(a.shard.value) + " and " +
                                             std::to_string(b.shard.value) + " differ in " + what +
                                             ": this is no checkpoint, call it again");
}

Status same_tables(const PartInfo& a, const PartInfo& b) {
  for (std::size_t i = 0; i < std::max(a.tables.size(), b.tables.size()); ++i) {
    if (i >= a.tables.size() || i >= b.tables.size() ||
        a.tables[i].schema.id != b.tables[i].schema.id) {
      const PartInfo& more = i < a.tables.size() ? a : b;
      return disagree(a, b, "table '" + more.tables[i].schema.name + "', which was being opened");
    }
    const TablePart &x = a.tables[i], &y = b.tables[i];
    const std::string name = "table '" + x.schema.name + "'";
    if (x.schema != y.schema) return disagree(a, b, "the schema of " + name);
    if (x.clock != y.clock) return disagree(a, b, "the clock of " + name);
    if (x.rate != y.rate)
      return disagree(a, b, "the learning rate of " + name + ", which was being changed");
  }
  return {};
}

/// A client without a worker has no mark; one that left has what it had acknowledged.
Status same_marks(const std::vector<PartInfo>& parts) {
  struct Seen {
    const PartInfo* part;
    ClientMark mark;
    std::size_t times = 0;
  };
  std::map<ClientId, Seen> seen;
  for (const PartInfo& part : parts) {
    for (const ClientMark& mark : part.marks) {
      Seen& s = seen.try_emplace(mark.client, Seen{&part, mark}).first->second;
      ++s.times;
      if (s.mark.sequence != mark.sequence || s.mark.worker != mark.worker)
        return disagree(*s.part, part,
                        "the mark of client " + std::to_string(mark.client.value) + " (" +
                            std::to_string(s.mark.sequence) + ", " + std::to_string(mark.sequence) +
                            ")");
    }
  }
  for (const auto& [client, s] : seen) {
    if (s.times == parts.size()) continue;
    for (const PartInfo& part : parts) {
      const bool has = std::any_of(part.marks.begin(), part.marks.end(),
                                   [id = client](const ClientMark& m) { return m.client == id; });
      if (!has && !std::binary_search(part.left.begin(), part.left.end(), client))
        return disagree(
            *s.part, part,
            "client " + std::to_string(client.value) + ", which marked one and not the other");
    }
  }
  return {};
}

Status check_slots(const std::vector<PartInfo>& parts) {
  std::vector<const PartInfo*> owner(kSlots, nullptr);
  std::uint32_t owned = 0;
  for (const PartInfo& part : parts) {
    for (const SlotRun& run : part.slots) {
      if (run.first > run.last || run.last >= kSlots)
        return fail(Errc::kInvalidArgument, "slots " + std::to_string(run.first) + " to " +
                                                std::to_string(run.last) + " in a part");
      for (std::uint32_t slot = run.first; slot <= run.last; ++slot) {
        if (owner[slot] != nullptr)
          return disagree(*owner[slot], part, "who has slot " + std::to_string(slot));
        owner[slot] = &part;
        ++owned;
      }
    }
  }
  if (owned == kSlots) return {};
  return fail(Errc::kFailedPrecondition,
              std::to_string(kSlots - owned) + " slots are in no part: this is no checkpoint");
}

Status check_names(const std::vector<PartInfo>& parts, const std::vector<Attachment>& attachments) {
  std::set<std::string> files, names;
  const auto file = [&](const std::string& name) -> Status {
    if (!is_file_name(name))
      return fail(Errc::kInvalidArgument, "'" + name + "' is no name of a file of a checkpoint");
    if (!files.insert(name).second)
      return fail(Errc::kInvalidArgument, "two things in one file '" + name + "'");
    return {};
  };
  for (const PartInfo& part : parts) DLRUN_TRY(file(part.file));
  for (const Attachment& a : attachments) {
    DLRUN_TRY(file(a.file));
    if (a.name.empty() || a.name.size() > kNameBytesMax)
      return fail(Errc::kInvalidArgument, "an attachment's name has 1 to 128 bytes");
    if (!names.insert(a.name).second)
      return fail(Errc::kInvalidArgument, "two attachments named '" + a.name + "'");
  }
  return {};
}

}  // namespace

bool is_file_name(std::string_view name) noexcept {
  if (name.empty() || name.size() > kNameBytesMax) return false;
  if (name.find_first_not_of('.') == std::string_view::npos) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

Result<Manifest> merge_parts(std::string job, Epoch epoch, std::vector<PartInfo> parts,
                             std::vector<Attachment> attachments) {
  if (parts.empty()) return fail(Errc::kInvalidArgument, "a checkpoint without parts");
  std::sort(parts.begin(), parts.end(),
            [](const PartInfo& a, const PartInfo& b) { return a.shard < b.shard; });
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].shard.value != i)
      return fail(Errc::kInvalidArgument, "part " + std::to_string(i) + " is of shard " +
                                              std::to_string(parts[i].shard.value));
    if (parts[i].checkpoint != parts[0].checkpoint || parts[i].checkpoint == 0)
      return fail(Errc::kInvalidArgument, "parts of checkpoints " +
                                              std::to_string(parts[0].checkpoint) + " and " +
                                              std::to_string(parts[i].checkpoint));
  }
  DLRUN_TRY(check_names(parts, attachments));
  DLRUN_TRY(check_slots(parts));
  for (const PartInfo& part : parts) DLRUN_TRY(same_tables(parts[0], part));
  DLRUN_TRY(same_marks(parts));
  return Manifest{.checkpoint = parts[0].checkpoint,
                  .job = std::move(job),
                  .epoch = epoch,
                  .parts = std::move(parts),
                  .attachments = std::move(attachments)};
}

std::vector<TableClock> plan_clocks(std::span<const std::vector<TableProgress>> shards,
                                    std::uint64_t ahead) {
  std::map<std::uint32_t, std::uint64_t> fastest;
  for (const auto& shard : shards) {
    for (const TableProgress& p : shard) {
      std::uint64_t& most = fastest[p.table];
      most = std::max({most, p.lowest, p.fastest});
    }
  }
  std::vector<TableClock> clocks;
  for (const auto& [table, clock] : fastest) clocks.push_back({table, clock + ahead});
  return clocks;
}

}  // namespace dlrun::ps
