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
/// Errors: kNotFound (no such input), kFailedPrecondition (no files yet; other files; not leased),
/// kInvalidArgument, kCorrupt (restore).
/// Bounds: limits below.
/// Threads: single owner.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "io/core/msg.h"
#include "io/core/split_table.h"

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

    void take_back(const TaskId& consumer, const std::set<SplitKey>& keep);
  };
  Result<Table*> find(const std::string& input);

  LedgerLimits limits_;
  std::map<std::string, Table> tables_;
};

}  // namespace dlrun::io
