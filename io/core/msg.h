#pragma once
/// io/core/msg.h: inputs, splits and leases as values. The job actor owns the ledger; feeders lease
/// from it.

#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "io/core/field_spec.h"
#include "runtime/base/ids.h"
#include "runtime/base/result.h"

namespace dlrun::io {

enum class Format : std::uint8_t {
  kLibsvm = 1,
  kLibffm = 2,
  kCsv = 3,    ///< numbers alone, one column the label; TSV too: a delimiter
  kTable = 4,  ///< csv and TSV with typed columns
  kJsonLines = 5,
  kTfRecord = 6,   ///< payloads as bytes
  kTfExample = 7,  ///< TFRecord of tf.train.Example
  kRecordIo = 8,
  kNpy = 9,
  kIdx = 10,
  kTokens = 11
};
/// Batches of named columns (BatchKind::kTable).
constexpr bool is_table(Format format) { return format >= Format::kTable; }
/// Columns are declared, or inferred from the first records; else the format has its own.
constexpr bool has_schema(Format format) {
  return format == Format::kTable || format == Format::kJsonLines || format == Format::kTfExample;
}
enum class OnBadRecord : std::uint8_t { kFail = 0, kSkip = 1, kQuarantine = 2 };

/// Who gets which records: docs/io.md has the promise of each.
enum class Mode : std::uint8_t { kDynamic = 0, kDeterministic = 1, kStatic = 2 };
/// Nothing is leased: a consumer computes what is its own (LanePlan).
constexpr bool has_lanes(Mode mode) { return mode != Mode::kDynamic; }
enum class StaticBy : std::uint8_t { kFiles = 0, kBytes = 1 };
/// What the consumers do whose part of a pass ends before that of others.
enum class Ends : std::uint8_t { kUneven = 0, kDrop = 1, kPad = 2, kWrap = 3 };
inline constexpr std::uint32_t kLanesMax = 4096;

/// Of a record, where nobody says otherwise.
inline constexpr std::uint64_t kRecordBytesMax = 256u << 10;

/// One input of a job, as its job file declares it: `[input.train]`.
struct InputSpec {
  std::string name;
  /// paths or file:// URIs; globs and directories are expanded, in byte order
  std::vector<std::string> uris;
  Format format = Format::kLibsvm;
  std::uint32_t index_base = 0;   ///< libsvm: 0 or 1, subtracted from each feature id
  char delimiter = ',';           ///< csv
  bool header = false;            ///< csv: the first line of each file is skipped
  std::int32_t label_column = 0;  ///< csv: -1 = the last
  std::uint32_t batch_rows = 256;
  std::uint32_t passes = 1;  ///< trips over the data; 0 = until the consumer stops
  bool shuffle = true;  ///< splits in a Philox permutation of (seed, pass), rows within a split too
  std::uint64_t seed = 1;
  std::uint64_t split_bytes = 4u << 20;
  OnBadRecord on_bad_record = OnBadRecord::kFail;
  std::uint64_t bad_records_max = 0;  ///< kSkip; kQuarantine: 0 = as many as fit
  std::string quarantine;             ///< kQuarantine: absolute path of a file, on each node
  // Of formats that are is_table().
  Schema columns;                        ///< has_schema(): empty = inferred
  std::vector<std::string> missing{""};  ///< kTable: fields that are no value
  bool newlines_in_quotes = false;       ///< kTable
  std::uint64_t record_bytes_max = kRecordBytesMax;
  TokenOptions tokens;  ///< kTokens; document_tokens_max follows record_bytes_max
  Mode mode = Mode::kDynamic;
  StaticBy static_by = StaticBy::kFiles;  ///< kStatic
  std::uint32_t lanes = 24;               ///< kDeterministic: a multiple of the consumers
  Ends ends = Ends::kUneven;              ///< has_lanes(mode)
  std::uint64_t skip_batches = 0;         ///< kDeterministic: of each pass
  std::uint64_t take_batches = 0;         ///< kDeterministic: behind those; 0 = all
  std::vector<std::uint32_t> weights;     ///< empty, or one for each of `uris`
  friend bool operator==(const InputSpec&, const InputSpec&) = default;
};

/// Its files are read only from their start: a file is one split.
constexpr bool reads_whole_files(const InputSpec& spec) {
  switch (spec.format) {
    case Format::kTfRecord:
    case Format::kTfExample:
    case Format::kRecordIo:
      return true;
    case Format::kTable:
      return spec.newlines_in_quotes;
    case Format::kTokens:
      return spec.tokens.sequence_length == 0;  // documents
    default:
      return false;
  }
}
/// What its files are cut into.
constexpr std::uint64_t split_bytes_of(const InputSpec& spec) {
  return reads_whole_files(spec) ? std::numeric_limits<std::uint64_t>::max() : spec.split_bytes;
}

struct FileEntry {
  std::string uri;
  std::uint64_t size_bytes = 0;
  std::string etag;          ///< for a local file "<mtime ns>-<size>-<inode>"
  std::uint32_t source = 0;  ///< of an input with weights: the index in its `uris`
  friend bool operator==(const FileEntry&, const FileEntry&) = default;
};

/// Records that *start* in [begin, end) of the file belong to the split.
struct Split {
  std::uint64_t id = 0;  ///< index in the table of splits, the same on every node
  std::uint32_t pass = 0;
  std::string uri;
  std::string etag;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t skip_rows = 0;  ///< committed before: the first rows, in the order they are given
  friend bool operator==(const Split&, const Split&) = default;
};

/// Names one trip over one split.
struct SplitKey {
  std::uint64_t split_id = 0;
  std::uint32_t pass = 0;
  friend auto operator<=>(const SplitKey&, const SplitKey&) = default;
};

/// How far a consumer got with a split: it took this many of its rows, in the order in which they
/// are given. Plain bytes: they cross the pipe's socket.
struct SplitProgress {
  std::uint64_t split_id = 0;
  std::uint64_t rows = 0;
  std::uint32_t pass = 0;
  std::uint32_t whole = 0;  ///< 1: all of them
  friend bool operator==(const SplitProgress&, const SplitProgress&) = default;
};
static_assert(sizeof(SplitProgress) == 24);

/// Where a lane stands behind a batch. Plain bytes, as SplitProgress.
struct LanePosition {
  std::uint32_t lane = 0;
  std::uint32_t pass = 0;
  /// Of its consumer in the pass, this batch included. Of a ledger and an InputStart: the rounds of
  /// the lane that are over, which is the same for any number of consumers.
  std::uint64_t step = 0;
  std::uint64_t split = 0;  ///< index in the lane; >= its splits: it began anew (Ends::kWrap)
  std::uint64_t rows = 0;   ///< taken of that split
  friend bool operator==(const LanePosition&, const LanePosition&) = default;
};
static_assert(sizeof(LanePosition) == 32);

/// How far a consumer got with an input: what next() has returned. A mark of pass p: pass p + 1,
/// step 0.
struct InputCursor {
  std::string input;
  std::vector<SplitProgress> splits;  ///< dynamic
  bool begun = false;                 ///< lanes: a batch or a mark was taken
  std::uint32_t pass = 0;             ///< lanes
  std::uint64_t step = 0;             ///< lanes: steps of the pass that are behind it
  std::vector<LanePosition> lanes;    ///< the last of each
  friend bool operator==(const InputCursor&, const InputCursor&) = default;
};
struct ConsumerCursor {
  TaskId consumer;
  std::vector<InputCursor> inputs;
  friend bool operator==(const ConsumerCursor&, const ConsumerCursor&) = default;
};
/// The user's word for what belongs to a commit.
inline constexpr std::size_t kCommitTagMax = 4096;

enum class LeaseState : std::uint8_t {
  kGranted = 0,     ///< `splits` holds at least one
  kWait = 1,        ///< none free now, but leases of others are open: ask again
  kEndOfInput = 2,  ///< every split of every pass is done or leased to the end
};

/// Where a consumer begins with an input, in this generation.
struct InputStart {
  std::vector<SplitProgress> begun;  ///< of the splits leased to it: rows committed before
  // Lanes.
  std::uint32_t world = 0;          ///< consumers; 0 = no lanes
  std::vector<LanePosition> lanes;  ///< its own; one that is not named begins anew
  friend bool operator==(const InputStart&, const InputStart&) = default;
};

/// What is known of the steps of a pass, over all consumers (StepGate).
struct StepNews {
  std::uint32_t pass = 0;
  std::uint64_t least = 0;  ///< every consumer has so many for certain
  std::uint64_t most = 0;   ///< one has so many
  /// The least of those that have ended: some consumer has no more.
  std::uint64_t bound = std::numeric_limits<std::uint64_t>::max();
  bool final = false;  ///< all have ended: the numbers are exact
  bool heard = false;  ///< every consumer has said something of this pass
  friend bool operator==(const StepNews&, const StepNews&) = default;
};
/// What one consumer knows of its own.
struct StepReport {
  std::uint32_t pass = 0;
  std::uint64_t steps = 0;  ///< it has so many for certain
  bool ended = false;       ///< and no more
  friend bool operator==(const StepReport&, const StepReport&) = default;
};

struct LeaseAnswer {
  LeaseState state = LeaseState::kWait;
  std::vector<Split> splits;
  InputStart start;  ///< in the answer to the files
  StepNews steps;    ///< in the answer to a StepReport
  friend bool operator==(const LeaseAnswer&, const LeaseAnswer&) = default;
};

/// Where a ledger stands with one input, without its files: what a restart needs to go on.
struct LedgerState {
  std::string input;
  std::uint32_t pass = 0;      ///< the open pass
  std::uint64_t position = 0;  ///< handed out of it, in its order
  std::uint64_t done = 0;      ///< over all passes
  std::vector<SplitKey> given_back;
  struct Held {
    TaskId consumer;
    std::vector<SplitKey> splits;
    friend bool operator==(const Held&, const Held&) = default;
  };
  std::vector<Held> held;
  /// Of the splits above: rows that a commit covers.
  std::vector<SplitProgress> begun;
  std::uint64_t files_digest = 0;  ///< of the file table; 0 = not known (version 0.1)
  // Lanes: where the generation begins.
  std::uint32_t world = 0;          ///< kStatic: of the commit; 0 = none
  std::vector<LanePosition> lanes;  ///< by lane; one that is not named begins anew
  friend bool operator==(const LedgerState&, const LedgerState&) = default;
};

/// A digest that tells one file table from another.
std::uint64_t digest_of(const std::vector<FileEntry>& files);

/// The ledger's face to the job machine. Deterministic; no clock. A lease belongs to a consumer (a
/// task).
class Ledger {
 public:
  virtual ~Ledger() = default;
  /// The first call per input fixes the file table; a later one with other content is
  /// kFailedPrecondition, which names the first file that differs.
  virtual Status set_files(const std::string& input, const std::vector<FileEntry>& files) = 0;
  virtual Result<LeaseAnswer> lease(const std::string& input, const TaskId& consumer,
                                    std::uint32_t splits_max) = 0;
  /// How many of the `wanted` splits the consumer should get, at least 1: a large lease for a large
  /// rest, single splits at the end, so that nobody sits on work while others are idle. Kept apart
  /// from lease(), whose outcome is recorded by its arguments.
  virtual std::uint32_t share(const std::string& input, const TaskId& consumer,
                              std::uint32_t wanted) const = 0;
  /// The consumer holds exactly `held`: whatever else is leased to it goes back, to be handed out
  /// first. Called before lease() when the request says `resync` (first request after an attach, or
  /// a reply that may have been lost).
  virtual void resync(const std::string& input, const TaskId& consumer,
                      const std::vector<SplitKey>& held) = 0;
  /// The consumer has taken every record of it. Unknown or not leased to it: kFailedPrecondition.
  virtual Status done(const std::string& input, const TaskId& consumer, std::uint64_t split_id,
                      std::uint32_t pass) = 0;
  /// The consumer died or left: what it holds goes back, to be handed out first.
  virtual void drop_consumer(const TaskId& consumer) = 0;
  /// Of the inputs whose files are known. O(leases).
  virtual std::vector<LedgerState> save() const = 0;
  /// What a ledger begins from after all that `consumers`, the ones of a role of `world` that have
  /// not ended, took; of the inputs that one of them names. Changes nothing. O(leases + cursors).
  /// kFailedPrecondition: lanes, and a consumer is missing. kInvalidArgument: a cursor that cannot
  /// be.
  virtual Result<std::vector<LedgerState>> commit(const std::vector<ConsumerCursor>& consumers,
                                                  std::uint32_t world) const = 0;
  /// Where the consumer begins; `world` consumers share the input. kFailedPrecondition: no files
  /// yet, or lanes that cannot be dealt to so many.
  virtual Result<InputStart> start(const std::string& input, const TaskId& consumer,
                                   std::uint32_t world) const = 0;
  /// After set_files(), in place of every call that came after it. Nothing is changed by
  /// kFailedPrecondition: the state is of other files; kCorrupt: it cannot be of these.
  virtual Status restore(const LedgerState& state) = 0;
  /// Takes in what the consumer, one of `world`, knows of the steps of its passes; the news of the
  /// last one. Forgotten by save(): it is said again and again. kFailedPrecondition: no lanes.
  virtual Result<StepNews> steps(const std::string& input, const TaskId& consumer,
                                 std::uint32_t world, const std::vector<StepReport>& reports) = 0;
  /// kNotFound: no such input, its files are not known, or they have no such split.
  virtual Result<Split> split(const std::string& input, const SplitKey& key) const = 0;
};

}  // namespace dlrun::io
