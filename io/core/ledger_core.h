#pragma once
/// io/core/ledger_core.h: who reads which split: the job's ledger of splits, one table per input,
/// dynamic leasing. Which splits there are: SplitTable.
/// Order of a pass: a permutation of (seed, pass) by a Feistel network whose round function is
/// Philox (Black, Rogaway, CT-RSA 2002: cycle walking), so that no order is stored; without
/// shuffle: by id.
///
/// A split of a pass:  unread -1-> leased -2-> done
///                       ^           |
///                       +-----3-----+
///   1: lease(): splits given back first, then the order of the open pass. 2: done() by its holder.
///   3: drop_consumer(), or resync() without it.
/// A pass opens when every split of the one before was handed out: nobody waits for the slowest
/// reader. kEndOfInput as soon as nothing is left to hand out, leased splits of others or not (who
/// waited for them could wait for one who waits for him); kWait only at the consumer's own bound.
///
/// State: files, cursor, open leases, splits given back; nothing per split done. lease:
/// O(splits_max log n).
/// save(), restore(): all of it but the files; O(leases).
/// commit(): the state with what was taken whole done, and what was leased and not whole given
/// back, with the rows taken of it; a later ledger hands it out first, to whomever, behind those.
/// Inputs with lanes (deterministic, static) have no leases: the ledger holds where the generation
/// begins, and makes of the consumers' places where the next one does.
/// Errors: kNotFound (no such input), kFailedPrecondition (no files yet; other files; not leased;
/// commit of an input with lanes without all of its consumers), kInvalidArgument, kCorrupt
/// (restore).
/// Bounds: limits below.
/// Threads: single owner.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/core/msg.h"
#include "io/core/split_table.h"
#include "io/core/step_gate.h"

namespace dlrun::io {

struct LedgerLimits {
  std::uint32_t leases_per_consumer_max = 256;  ///< per input
  std::uint64_t files_max = 1'000'000;          ///< per input
};

class LedgerCore final : public Ledger {
 public:
  explicit LedgerCore(const std::vector<InputSpec>& inputs, LedgerLimits limits = {});

  Status set_files(const std::string& input, const std::vector<FileEntry>& files) override;
  Result<LeaseAnswer> lease(const std::string& input, const TaskId& consumer,
                            std::uint32_t splits_max) override;
  void resync(const std::string& input, const TaskId& consumer,
              const std::vector<SplitKey>& held) override;
  Status done(const std::string& input, const TaskId& consumer, std::uint64_t split_id,
              std::uint32_t pass) override;
  void drop_consumer(const TaskId& consumer) override;
  std::uint32_t share(const std::string& input, const TaskId& consumer,
                      std::uint32_t wanted) const override;
  std::vector<LedgerState> save() const override;
  Status restore(const LedgerState& state) override;
  Result<std::vector<LedgerState>> commit(const std::vector<ConsumerCursor>& consumers,
                                          std::uint32_t world) const override;
  Result<InputStart> start(const std::string& input, const TaskId& consumer,
                           std::uint32_t world) const override;
  Result<StepNews> steps(const std::string& input, const TaskId& consumer, std::uint32_t world,
                         const std::vector<StepReport>& reports) override;
  Result<Split> split(const std::string& input, const SplitKey& key) const override;

  /// For tests and progress.
  struct Counts {
    std::uint64_t splits = 0;  ///< per pass
    std::uint64_t leased = 0;
    std::uint64_t given_back = 0;
    std::uint64_t done = 0;  ///< over all passes
  };
  Result<Counts> counts(const std::string& input) const;

 private:
  struct Table {
    InputSpec spec;
    bool fixed = false;  ///< the file table is known
    SplitTable splits;
    std::uint32_t pass = 0;      ///< the open pass
    std::uint64_t position = 0;  ///< handed out of the open pass, in its order
    std::set<SplitKey> given_back;
    std::map<SplitKey, TaskId> leased;
    std::map<TaskId, std::set<SplitKey>> held;
    std::uint64_t done = 0;
    std::uint64_t files_digest = 0;
    std::map<SplitKey, std::uint64_t> begun;  ///< rows committed; until it is done
    // Lanes.
    std::uint32_t world = 0;  ///< kStatic: of the commit that it begins from
    std::map<std::uint32_t, LanePosition> lanes;
    std::optional<StepGate> gate;
    std::string gate_role;  ///< of its consumers
    std::set<TaskId> gone;  ///< ended well, of any role

    LedgerState state(const std::string& name) const;  ///< without `held`
    Split split_of(const SplitKey& key) const;
    void take_back(const TaskId& consumer, const std::set<SplitKey>& keep);
  };
  Result<Table*> find(const std::string& input);
  using Cursors = std::map<TaskId, const InputCursor*>;
  static Result<LedgerState> commit_leased(const Table& table, const Cursors& cursors);
  static Result<LedgerState> commit_lanes(const Table& table, const Cursors& cursors,
                                          std::uint32_t world);

  LedgerLimits limits_;
  std::map<std::string, Table> tables_;
};

}  // namespace dlrun::io
