#pragma once
/// ps/core/shard_core.h: one parameter shard as a deterministic log machine: operation + time in,
/// replies out. The log is the calls after which Stats::log_sequence is one higher. Every other
/// call (a pull, a scan, a retry, whatever was refused) leaves all that digest() covers as it was,
/// so the log alone, with its times, gives the same state: on a replica as on a replay.
/// Sources: BSP (Valiant, CACM 1990); SSP (Ho et al., NIPS 2013). Differs from Ho: reads wait at
/// the shard instead of at a client cache, and a worker's own pushes are visible like everybody's.
/// Shapes: keys [n]; values [n, dim] f32 row-major.
/// Units: clock = worker iterations; times ns; sizes bytes.
///
/// Clocks, per (worker, table), low = the lowest clock of the members (a worker that left is none):
///   BSP   push at clock c: accepted only from a worker whose clock is c; kept until low > c
///         (ps/core/table.h).
///         pull at clock c: accepted only from a worker whose clock is c; answered when low >= c.
///         It sees exactly the pushes of clocks < c: those are applied when low >= c, and those of
///         c cannot be while this worker stands at c.
///   SSP   push: applied at once. pull at clock c: answered when low + staleness >= c: sees every
///         push of clocks < c - s, which its worker had acknowledged before it advanced.
///   ASP   push applied, pull answered at once. Clocks are not looked at.
///   kNoWorker  pulls and scans at once, reads what is applied; it cannot push to BSP and SSP
///         tables.
/// Exactly once: a client has one window here, and one more for each slot that came from another
/// shard with a window of its own, until that has been outrun (docs/ps.md says why it is enough). A
/// push skips the keys of slots that have its (client, sequence). A slot leaves with its window
/// (export_slot, import_slot), so a retry that finds its slot elsewhere still applies once. A push
/// is refused whole or taken whole; pulls never make rows.
/// Errors (in the reply): kStaleEpoch (older epoch, or a slot that is not this shard's: refetch the
///   map); kUnavailable (newer epoch than this shard's, or the slot's rows are still on the way:
///   retry); kOverloaded (a bound: back off); kPermissionDenied (token); kDeadlineExceeded (parked
///   past the budget); kNotFound (table); kAlreadyExists (table with another schema);
///   kFailedPrecondition (clock rules above, or a worker that has left); kUnsupported (version);
///   kInvalidArgument. Never throws.
/// Bounds: ShardSettings.
/// Effects: Replies, with one exception: the values of a pull go straight to a ReplySink where
/// there is one, in the middle of the call, so before its other effects. Through a buffer they
/// would be copied once more. No decision and no state depends on what it does.
/// Threads: single owner; borrows spans during the call. Keys are read more than once: nobody may
/// change them meanwhile.

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <variant>
#include <vector>

#include "ps/core/checkpoint.h"
#include "ps/core/clock_set.h"
#include "ps/core/dedup_window.h"
#include "ps/core/msg.h"
#include "ps/core/table.h"
#include "runtime/base/planted_bugs.h"

namespace dlrun::ps {

/// The shell's name of whoever asked: the reply goes there.
using Asker = std::uint64_t;

struct Reply {
  Asker asker = 0;
  ReplyHeader header;
  std::vector<std::uint64_t> keys;  ///< kScan
  std::vector<float> values;        ///< kPull (to be sent in header.codec), kScan
};
using Effect = std::variant<Reply>;
using Effects = std::vector<Effect>;

/// Where a shell has the values of a pull written straight to its link, in place of a Reply.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  /// Room for `floats` values of this reply, which is sent by sent(); nullptr: make a Reply.
  virtual float* place(Asker asker, const ReplyHeader& header, std::size_t floats) = 0;
  virtual void sent(Asker asker) = 0;
};

struct ShardSettings {
  ShardId shard;
  std::array<std::uint8_t, 32> token{};
  std::uint32_t workers = 0;  ///< places in the clock set
  std::uint32_t tables_max = 4096;
  std::uint32_t clients_max = 65536;
  std::uint32_t parked_max = 4096;
  std::uint64_t parked_bytes_max = 256u << 20;
  std::uint64_t kept_bytes_max = 4ull << 30;   ///< BSP pushes of open clocks
  std::uint64_t aside_bytes_max = 1ull << 30;  ///< copies of rows while a checkpoint is made
  PlantedBugs bugs;
};

/// A slot on the move: rows, kept pushes and clocks of every table, windows of every client.
struct SlotImage {
  std::uint32_t slot = 0;
  std::vector<TableImage> tables;  ///< by id
  struct Window {
    ClientId client;
    WorkerId worker;
    DedupWindow window;
    friend bool operator==(const Window&, const Window&) = default;
  };
  std::vector<Window> windows;  ///< by client
  friend bool operator==(const SlotImage&, const SlotImage&) = default;
};

class ShardCore {
 public:
  /// Every slot that `map` gives this shard is empty and serves at once. `map` must have kSlots
  /// owners.
  ShardCore(ShardSettings settings, SlotMap map);

  /// What on_request() would refuse without a look at keys and values: before they are decoded.
  Status check(const RequestHeader& request) const;
  /// A request whose values could not be decoded, say.
  void refuse(Asker asker, const RequestHeader& request, Error error, Effects& effects) const;
  /// Appends the reply now, or parks a pull or scan that must wait for clocks. A retry of what is
  /// parked replaces it.
  void on_request(Asker asker, const RequestHeader& request, std::span<const std::uint64_t> keys,
                  std::span<const float> values, TimePoint now, Effects& effects);
  /// The worker's clocks leave every table in one step; what it had acknowledged stays. Idempotent.
  void on_worker_left(WorkerId worker, TimePoint now, Effects& effects);
  /// Answers what was parked past its deadline.
  void on_tick(TimePoint now, Effects& effects);
  /// When on_tick is due; nullopt: never, as things stand.
  std::optional<TimePoint> next_deadline() const;

  /// A newer map. Slots lost are dropped (export first); slots gained serve after import_slot. What
  /// is parked is sent back with kStaleEpoch. Not newer: ignored. kInvalidArgument: not kSlots
  /// owners.
  Status install_map(SlotMap map, TimePoint now, Effects& effects);
  SlotImage export_slot(std::uint32_t slot) const;
  /// kFailedPrecondition: not a slot that this shard waits for. kAlreadyExists: a table here has
  /// another schema.
  Status import_slot(const SlotImage& image, TimePoint now, Effects& effects);

  // ---- Checkpoints (docs/ps.md). No operation of the log: digest() knows nothing of them.
  enum class CutPhase : std::uint8_t {
    kNone,
    kMarking,    ///< waits for clocks and marks
    kWriting,    ///< write_cut() has more
    kWritten,    ///< part_info() has the rest
    kCancelled,  ///< `why`; nothing is held any more
  };
  struct CutStatus {
    std::uint64_t checkpoint = 0;
    CutPhase phase = CutPhase::kNone;
    std::string why;
    std::uint64_t aside_bytes = 0;
    /// Beyond aside_bytes_max while writing: write before serving.
    bool pressing = false;
  };
  /// Told again: nothing. kFailedPrecondition: a worker is at a clock of the plan already, a table
  /// is missing here or in the plan, another checkpoint is under way, or a later one was: a new
  /// plan is needed. kUnavailable: slots are on their way to this shard.
  Status begin_cut(const CutPlan& plan, TimePoint now);
  /// Nothing when it is not the one under way.
  void cancel_cut(std::uint64_t checkpoint, std::string why);
  CutStatus cut() const;
  /// Appends the next blocks, about `bytes` of them; all are out once the phase is kWritten.
  void write_cut(std::size_t bytes, std::vector<Block>& blocks);
  /// kWritten: everything but the file.
  PartInfo part_info() const;
  /// Of BSP and SSP tables, by id.
  std::vector<TableProgress> progress() const;

  // A shard that has done nothing yet takes what is its own of a checkpoint: begin, then the blocks
  // of every part, then end; until then it serves no slot. After an error it is of no use.
  /// kFailedPrecondition: it has done something.
  Status begin_restore(const Manifest& manifest, bool with_windows, TimePoint now);
  /// Whether restore_block() would take anything of it.
  bool wants_block(const BlockHeader& header) const noexcept;
  /// `raw`: raw_bytes, checked and decompressed. kCorrupt: not rows of these tables and slots.
  Status restore_block(std::size_t part, const BlockHeader& header, std::string_view raw);
  Status end_restore();

  /// From now on; nullptr: replies alone. Changes no state that a replica shares.
  void send_values_to(ReplySink* sink) noexcept { sink_ = sink; }
  /// The values of a reply that has been sent: the memory of the next ones.
  void recycle(std::vector<float> values);

  /// Over everything a replica must share: map, tables, rows, clocks, members, windows, who has
  /// left. Not what is parked. O(state).
  std::uint64_t digest() const;

  struct Stats {
    std::uint64_t log_sequence = 0;  ///< operations that changed state
    std::uint64_t rows = 0;
    std::uint64_t bytes = 0;
    std::uint64_t parked = 0;
    std::uint64_t kept_bytes = 0;
    std::uint64_t evicted = 0;
    std::uint64_t not_admitted = 0;
    std::uint64_t repeated = 0;  ///< pushes that had been taken before
  };
  Stats stats() const;
  ShardId shard() const noexcept { return settings_.shard; }
  /// nullptr: no such table.
  const TableState* table(std::uint32_t id) const { return table_of(id); }

 private:
  enum class SlotState : std::uint8_t { kForeign, kServing, kAwaited };
  struct Parked {
    Asker asker = 0;
    RequestHeader request;
    std::vector<std::uint64_t> keys;
    TimePoint deadline;
  };
  struct ClientState {
    WorkerId worker;
    DedupWindow window;
    /// A slot that came from elsewhere keeps a window of its own until no push that was cut under
    /// an older map can be open: a client has at most 256 numbers open, so those are at most 255
    /// above the first it sends here afterwards, and closed once it has sent 256 more.
    struct Moved {
      DedupWindow window;
      std::uint64_t until = 0;  ///< gone once the client sends this number; 0: not known yet
    };
    std::map<std::uint32_t, Moved> moved;  ///< by slot
    bool until_unknown = false;            ///< of some
    std::uint64_t next_until = 0;          ///< the lowest
  };

  struct Cut;
  struct Restore;
  struct DeleteCut {
    void operator()(Cut* cut) const noexcept;
  };
  struct DeleteRestore {
    void operator()(Restore* restore) const noexcept;
  };

  Side side_of(const RequestHeader& request, const TableState& table) const;
  void cut_window(const RequestHeader& request, Side side, std::span<const std::uint64_t> keys);
  void bound_cut();
  Status take_mark(const RequestHeader& request, TimePoint now);
  bool all_marked() const;
  void step_cut(TimePoint now);
  void settle_cut(TimePoint now);
  std::optional<TimePoint> cut_deadline() const;
  void tell_of_cut(const RequestHeader& request, ReplyHeader& reply) const;
  std::vector<SlotRun> serving() const;
  void restore_window(std::size_t part, const WindowRecord& record);

  Status check(const RequestHeader& request, std::span<const std::uint64_t> keys,
               std::span<const float> values) const;
  Status check_slots(const RequestHeader& request, std::span<const std::uint64_t> keys) const;
  Status create_table(const RequestHeader& request);
  Status push(const RequestHeader& request, std::span<const std::uint64_t> keys,
              std::span<const float> values, TimePoint now);
  ClientState fresh_client(WorkerId worker) const;
  ClientState& new_client(ClientId client, WorkerId worker);
  Status room_for(ClientId client) const;
  ClientState& client_of(const RequestHeader& request);
  /// Of the keys, those whose slots have not taken this push; all of them without a copy.
  Result<Combiner::Batch> not_taken(const RequestHeader& request, const ClientState* client,
                                    Combiner::Batch batch, std::uint32_t dim);
  void mark(const RequestHeader& request, ClientState& client, std::span<const std::uint64_t> keys);
  Status tune(const RequestHeader& request);
  Status advance(const RequestHeader& request, TimePoint now);
  void leave(const RequestHeader& request, TimePoint now, Effects& effects);
  void drop_worker(WorkerId worker, TimePoint now);
  /// true: may be answered now; false: must wait.
  Result<bool> readable(const RequestHeader& request, const TableState& table) const;
  Status park(Asker asker, const RequestHeader& request, std::span<const std::uint64_t> keys,
              TimePoint now);
  void unpark(TimePoint now, Effects& effects);
  void forget_client(ClientId client);
  void find_all_serving();
  Reply answer(Asker asker, const RequestHeader& request, Status status) const;
  void read(Asker asker, const RequestHeader& request, std::span<const std::uint64_t> keys,
            TimePoint now, Effects& effects);
  void read_page(const RequestHeader& request, const TableState& table, TimePoint now,
                 Reply& reply) const;
  TableState* table_of(std::uint32_t id);
  const TableState* table_of(std::uint32_t id) const;
  std::uint64_t lowest(const TableState& table) const {
    return table.clocks().lowest(members_.active());
  }

  ShardSettings settings_;
  SlotMap map_;
  std::vector<SlotState> slots_;
  std::map<std::uint32_t, TableState> tables_;
  Members members_;
  std::map<ClientId, ClientState> clients_;  ///< that have pushed
  Combiner combiner_;
  std::vector<std::uint64_t> keys_left_;  ///< not_taken()
  std::vector<float> values_left_;
  ReplySink* sink_ = nullptr;
  std::vector<std::vector<float>> spare_;  ///< of replies that were sent
  bool all_serving_ = false;
  std::set<std::uint32_t> imported_;  ///< slots here that came from elsewhere
  std::set<ClientId> gone_;
  std::deque<ClientId> gone_order_;
  std::deque<Parked> parked_;
  std::uint64_t parked_bytes_ = 0;
  std::uint64_t log_sequence_ = 0;
  std::uint64_t repeated_ = 0;
  std::unique_ptr<Cut, DeleteCut> cut_;
  std::uint64_t last_cut_ = 0;
  std::unique_ptr<Restore, DeleteRestore> restore_;
};

}  // namespace dlrun::ps
