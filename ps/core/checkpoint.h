#pragma once
/// ps/core/checkpoint.h: a checkpoint as values: what is asked of a shard, what a shard hands in,
/// what the manifest says; and whether the parts of all shards make one (docs/ps.md, "The cut of a
/// checkpoint"; the bytes: docs/ps-checkpoint.md).
/// Threads: values and pure functions.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ps/core/msg.h"
#include "runtime/base/result.h"

namespace dlrun::ps {

/// Where a BSP or SSP table is cut: what is of clocks < `clock` is in.
struct TableClock {
  std::uint32_t table = 0;
  std::uint64_t clock = 0;
  friend bool operator==(const TableClock&, const TableClock&) = default;
};

/// To every shard, the same.
struct CutPlan {
  std::uint64_t id = 0;            ///< never 0; above those before
  std::vector<TableClock> clocks;  ///< of every BSP and SSP table
  Duration marks_within{0};  ///< from its coming: the marks are in by then, or it is cancelled
  friend bool operator==(const CutPlan&, const CutPlan&) = default;
};

/// How far the workers of a BSP or SSP table are on a shard: what a plan must be ahead of.
struct TableProgress {
  std::uint32_t table = 0;
  std::uint64_t lowest = 0;
  std::uint64_t fastest = 0;
  friend bool operator==(const TableProgress&, const TableProgress&) = default;
};

/// Of a client, on a shard: its pushes up to `sequence` are in.
struct ClientMark {
  ClientId client;
  WorkerId worker = kNoWorker;
  std::uint64_t sequence = 0;
  friend bool operator==(const ClientMark&, const ClientMark&) = default;
};

/// Slots [first, last].
struct SlotRun {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  friend bool operator==(const SlotRun&, const SlotRun&) = default;
};

struct TablePart {
  TableSchema schema;
  std::uint64_t clock = 0;  ///< BSP, SSP
  float rate = 0.0f;
  std::uint64_t hand = 0;  ///< of eviction on this shard
  std::uint64_t rows = 0;
  friend bool operator==(const TablePart&, const TablePart&) = default;
};

/// What a shard hands in once its file is synced.
struct PartInfo {
  std::uint64_t checkpoint = 0;
  ShardId shard;
  std::uint64_t log_sequence = 0;  ///< of the shard when it was settled: no version is above it
  std::uint32_t now_s = 0;         ///< its clock then, of which last uses are
  std::vector<SlotRun> slots;      ///< that it served, ascending
  std::vector<TablePart> tables;   ///< by id
  std::vector<ClientMark> marks;   ///< by client
  std::vector<ClientId> left;      ///< clients that left before they were asked; by client
  // Of the file.
  std::string file;  ///< a name within the checkpoint's folder
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;  ///< the end's included
  std::uint64_t rows = 0;
  std::uint32_t headers_crc = 0;  ///< PartCheck::headers_crc()
  friend bool operator==(const PartInfo&, const PartInfo&) = default;
};

/// Opaque bytes that belong to the cut: input positions, a user's state.
struct Attachment {
  std::string name;  ///< 1 to 128 bytes, distinct
  std::string file;  ///< within the checkpoint's folder
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
  friend bool operator==(const Attachment&, const Attachment&) = default;
};

struct Manifest {
  std::uint64_t checkpoint = 0;
  std::string job;
  Epoch epoch;
  std::vector<PartInfo> parts;  ///< by shard, from 0 on
  std::vector<Attachment> attachments;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// ---- what who calls a checkpoint and a shard say to each other, by way of the shard's agent
struct CutAsk {  ///< how far are your workers? -> CutAnswer
  friend bool operator==(const CutAsk&, const CutAsk&) = default;
};
struct CutBegin {  ///< -> CutBegun; then, once, CutPart
  CutPlan plan;
  std::string folder;  ///< absolute, there, the same on every node
  std::uint8_t zstd_level = 0;
  friend bool operator==(const CutBegin&, const CutBegin&) = default;
};
struct CutCancel {
  std::uint64_t checkpoint = 0;
  std::string why;
  friend bool operator==(const CutCancel&, const CutCancel&) = default;
};
using CutOrder = std::variant<CutAsk, CutBegin, CutCancel>;

struct CutAnswer {
  std::vector<TableProgress> progress;
  friend bool operator==(const CutAnswer&, const CutAnswer&) = default;
};
struct CutBegun {
  std::uint64_t checkpoint = 0;
  Errc error{};  ///< {}: begun
  std::string context;
  friend bool operator==(const CutBegun&, const CutBegun&) = default;
};
struct CutPart {
  std::uint64_t checkpoint = 0;
  Errc error{};  ///< {}: written
  std::string context;
  PartInfo part;
  friend bool operator==(const CutPart&, const CutPart&) = default;
};
using CutReport = std::variant<CutAnswer, CutBegun, CutPart>;

/// Whether these are one cut. kFailedPrecondition, with the two shards and what they disagree on:
/// it is none, call it again. kInvalidArgument: parts or attachments that can never make one.
Result<Manifest> merge_parts(std::string job, Epoch epoch, std::vector<PartInfo> parts,
                             std::vector<Attachment> attachments);

/// The clocks for a plan: `ahead` above the fastest worker that any shard tells of. All shards.
std::vector<TableClock> plan_clocks(std::span<const std::vector<TableProgress>> shards,
                                    std::uint64_t ahead);

/// Name of a file within a checkpoint's folder: no path, 1 to 128 of [A-Za-z0-9._-], not of dots
/// alone.
bool is_file_name(std::string_view name) noexcept;

}  // namespace dlrun::ps
