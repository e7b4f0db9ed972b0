// Text and records -> columns, one thread, the bytes in memory. The floor is a scan that does as
// little as a reader must: it finds every newline (libsvm, libffm, csv), or copies every payload
// without a look at its sums (TFRecord).
//   {libsvm,libffm,csv}_scan   RecordParser in pieces of 256 KiB into a block that is recycled
//   csv_typed_scan, json_scan  CsvParser and JsonLinesParser into a table that is recycled
//   tfrecord_{1KiB,100KiB}_copy  TfRecordParser, both sums checked, payloads into a column
// And what a consumer's thread of the feeder does, a file in the page cache -> batches in a slot:
//   {libsvm,libffm}_xgboost, libsvm_sklearn, csv_{pyarrow,pandas}  against a reader of Python, one
//                              thread, its best setting (peers/io_parse.py)
//   {libsvm,csv}_2t            two threads, half of the file each, against one
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "bench/report/report.h"
#include "io/core/csv.h"
#include "io/core/json_lines.h"
#include "io/core/record_parser.h"
#include "io/core/tf_record.h"
#include "io/feeder/batcher.h"
#include "io/feeder/row_reader.h"
#include "io/source/local_source.h"
#include "runtime/base/rng.h"

namespace dlrun::bench {
namespace {

using namespace io;

constexpr std::size_t kPiece = 256 * 1024;
std::size_t file_bytes = 64u << 20;
int rounds = 7;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Rows of about 20 features, ids over a million, rising in each row, values of four to six digits.
std::string sparse_text(bool fields) {
  SplitMix64 rng(1);
  std::string text;
  char buffer[96];
  while (text.size() < file_bytes) {
    text += rng.below(2) != 0 ? "1" : "0";
    std::vector<unsigned> ids(10 + static_cast<std::size_t>(rng.below(20)));
    for (unsigned& id : ids) id = static_cast<unsigned>(rng.below(1'000'000));
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const double value = static_cast<double>(rng.below(1'000'000)) / 1e6;
      if (fields)
        std::snprintf(buffer, sizeof buffer, " %u:%u:%.*g", static_cast<unsigned>(i), ids[i], 5,
                      value);
      else
        std::snprintf(buffer, sizeof buffer, " %u:%.*g", ids[i], 5, value);
      text += buffer;
    }
    text += '\n';
  }
  return text;
}
std::string csv_text() {
  SplitMix64 rng(2);
  std::string text;
  char buffer[64];
  while (text.size() < file_bytes)
    for (int i = 0; i < 20; ++i) {
      std::snprintf(buffer, sizeof buffer, "%.6f%c",
                    static_cast<double>(rng.below(2'000'000)) / 1e6 - 1, i == 19 ? '\n' : ',');
      text += buffer;
    }
  return text;
}
std::string json_text() {
  SplitMix64 rng(3);
  std::string text;
  char buffer[256];
  while (text.size() < file_bytes) {
    std::snprintf(
        buffer, sizeof buffer,
        "{\"id\": %llu, \"label\": %d, \"x\": %.5f, \"user\": {\"name\": \"user-%llu\"}}\n",
        static_cast<unsigned long long>(rng.below(1u << 30)), static_cast<int>(rng.below(2)),
        rng.uniform(), static_cast<unsigned long long>(rng.below(100'000)));
    text += buffer;
  }
  return text;
}

double scan_newlines(std::string_view text) {
  const auto start = std::chrono::steady_clock::now();
  std::size_t lines = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const auto* newline = static_cast<const char*>(std::memchr(rest.data(), '\n', rest.size()));
    if (newline == nullptr) break;
    ++lines;
    rest.remove_prefix(static_cast<std::size_t>(newline + 1 - rest.data()));
  }
  if (lines == 0) std::exit(1);
  return static_cast<double>(text.size()) / 1e9 / seconds_since(start);
}

double parse_records(const InputSpec& spec, std::string_view text, RecordBlock& block) {
  const RecordParser parser(spec);
  parser.prepare(block, block.cols);
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t at = 0; at < text.size();) {
    std::string_view piece = text.substr(at, kPiece);
    if (at + piece.size() < text.size()) piece = piece.substr(0, piece.rfind('\n') + 1);
    const ParseProgress progress = parser.parse(piece, at, block);
    if (progress.bad) {
      std::fprintf(stderr, "%s\n", describe("bench", 0, *progress.bad).c_str());
      std::exit(1);
    }
    at += piece.size();
    if (block.bytes() > (1u << 20)) block.clear();
  }
  return static_cast<double>(text.size()) / 1e9 / seconds_since(start);
}

double parse_table(TableParser& parser, std::string_view text, Table& table) {
  const auto start = std::chrono::steady_clock::now();
  std::size_t at = 0;
  for (std::size_t have = 0; at < text.size();) {
    have = std::min(text.size(), have + kPiece);
    const auto progress = parser.parse(text.substr(at, have - at), at, have == text.size(), table);
    if (progress.bad) {
      std::fprintf(stderr, "%s\n", describe("bench", 0, *progress.bad).c_str());
      std::exit(1);
    }
    at += progress.consumed;
    if (table.bytes() > (1u << 20)) table.clear();
  }
  return static_cast<double>(text.size()) / 1e9 / seconds_since(start);
}

double copy_payloads(std::string_view file, std::size_t payload) {
  static std::string out;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t at = 0; at + kTfHeaderBytes + payload + kTfFooterBytes <= file.size();
       at += kTfHeaderBytes + payload + kTfFooterBytes) {
    if (out.size() > (1u << 20)) out.clear();
    out += file.substr(at + kTfHeaderBytes, payload);
  }
  return static_cast<double>(file.size()) / 1e9 / seconds_since(start);
}

void measure(const std::string& metric, const std::string& baseline_name,
             const std::function<double()>& value, const std::function<double()>& baseline) {
  Figure figure;
  figure.bench = "io-parse";
  figure.metric = metric;
  figure.unit = "GB/s";
  figure.baseline_name = baseline_name;
  (void)value();
  (void)baseline();
  for (int i = 0; i < rounds; ++i) {
    figure.values.push_back(value());
    figure.baselines.push_back(baseline());
  }
  print(figure);
}

/// A text in a file of its own, in the page cache.
class TextFile {
 public:
  TextFile(std::string_view text, const std::string& ending)
      : path_((std::filesystem::temp_directory_path() /
               ("dlrun-bench-" + std::to_string(::getpid()) + "." + ending))
                  .string()),
        bytes_(text.size()) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~TextFile() { std::filesystem::remove(path_); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  const std::string& path() const { return path_; }
  double gigabytes() const { return static_cast<double>(bytes_) / 1e9; }

 private:
  const std::string path_;
  const std::size_t bytes_;
};

template <class T>
T get(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().to_string().c_str());
    std::exit(1);
  }
  return std::move(*result);
}

/// What one consumer's thread does but for the ring's descriptors: the bytes [from, to) of a file
/// read, parsed and written as batches into a slot that was touched before.
class Feed {
 public:
  Feed(InputSpec spec, const std::string& path, double from, double to) : spec_(std::move(spec)) {
    spec_.shuffle = false;
    spec_.batch_rows = 1024;
    const auto files = get(source_.list({path}, 1));
    const auto size = static_cast<double>(files[0].size_bytes);
    split_ = {0,
              0,
              files[0].uri,
              files[0].etag,
              static_cast<std::uint64_t>(from * size),
              static_cast<std::uint64_t>(to * size)};
    shape_ = get(look_at(source_, files, spec_));
    slot_.resize(geometry_for(spec_, shape_, 16u << 20).slot_bytes + kColumnAlign);
    const auto at = reinterpret_cast<std::uintptr_t>(slot_.data()) % kColumnAlign;
    aligned_ = std::span(slot_).subspan(at == 0 ? 0 : kColumnAlign - at);
    batcher_.emplace(spec_, make_store(spec_, shape_), aligned_.size());
  }
  void run() {
    batcher_->begin_split({split_.id, ++passes_});
    BadRecordPolicy policy(OnBadRecord::kFail, 0);
    const auto reader = get(open_rows(source_, split_, spec_, shape_, batcher_->store(), policy));
    while (get(reader->read())) {
      batcher_->close_window();
      while (batcher_->full_batch()) put();
    }
    batcher_->close_window();
    batcher_->end_split();
    while (!batcher_->empty()) put();
    (void)batcher_->take_done();
  }

 private:
  void put() {
    batcher_->write(aligned_);
    batcher_->sent(sequence_);
    batcher_->released(sequence_++);
  }
  InputSpec spec_;
  LocalSource source_;
  Split split_;
  InputShape shape_;
  std::vector<std::byte> slot_;
  std::span<std::byte> aligned_;
  std::optional<Batcher> batcher_;
  std::uint64_t sequence_ = 0;
  std::uint32_t passes_ = 0;
};

/// GB/s of one thread.
double feed(Feed& feed, const TextFile& file) {
  const auto start = std::chrono::steady_clock::now();
  feed.run();
  return file.gigabytes() / seconds_since(start);
}

/// Two threads, half of the file each, against one thread with all of it.
void two_threads(const std::string& metric, const InputSpec& spec, const TextFile& file) {
  Feed whole(spec, file.path(), 0, 1), first(spec, file.path(), 0, 0.5),
      second(spec, file.path(), 0.5, 1);
  Figure figure;
  figure.bench = "io-parse";
  figure.metric = metric;
  figure.unit = "GB/s";
  figure.baseline_name = "one thread";
  figure.must.ratio_at_least = 1.7;
  for (int i = -1; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    std::thread other([&] { second.run(); });
    first.run();
    other.join();
    const double both = file.gigabytes() / seconds_since(start);
    const double one = feed(whole, file);
    if (i < 0) continue;  // to warm up
    figure.values.push_back(both);
    figure.baselines.push_back(one);
  }
  print(figure);
}

/// GB/s of a peer's best setting, told by bench/peers/io_parse.py; nothing when it cannot run.
std::optional<double> peer_speed(const std::string& peer, const TextFile& file) {
  const char* python = std::getenv("DLRUN_PYTHON");
  const char* source = std::getenv("DLRUN_SOURCE_DIR");
  if (python == nullptr || source == nullptr) return std::nullopt;
  const std::string command = std::string("OMP_NUM_THREADS=1 '") + python + "' '" + source +
                              "/bench/peers/io_parse.py' " + peer + " '" + file.path() +
                              "' 2>/dev/null";
  FILE* out = ::popen(command.c_str(), "r");
  if (out == nullptr) return std::nullopt;
  double seconds = 0;
  const bool told = std::fscanf(out, "%lf", &seconds) == 1;
  const bool ended = ::pclose(out) == 0;
  if (!told || !ended || seconds <= 0) return std::nullopt;
  return file.gigabytes() / seconds;
}

void against(const std::string& metric, const std::string& peer, double must, const InputSpec& spec,
             const TextFile& file) {
  Figure figure;
  figure.bench = "io-parse";
  figure.metric = metric;
  figure.unit = "GB/s";
  figure.baseline_name = peer;
  figure.must.ratio_at_least = must;
  Feed one(spec, file.path(), 0, 1);
  one.run();
  for (int i = 0; i < std::min(rounds, 3); ++i) {
    const auto baseline = peer_speed(peer, file);
    figure.values.push_back(feed(one, file));
    if (baseline) {
      figure.baselines.push_back(*baseline);
      continue;
    }
    figure.reason = peer + " is not in the Python of DLRUN_PYTHON, or does not read the file";
    figure.baselines.clear();
    break;
  }
  print(figure);
}

FieldSpec named(std::string name, FieldType type) {
  FieldSpec field;
  field.name = std::move(name);
  field.type = type;
  return field;
}

void run() {
  RecordBlock block;
  Table table;
  InputSpec spec;
  for (const bool fields : {false, true}) {
    const std::string text = sparse_text(fields);
    spec.format = fields ? Format::kLibffm : Format::kLibsvm;
    const auto value = [&] { return parse_records(spec, text, block); };
    measure(fields ? "libffm_scan" : "libsvm_scan", "every newline found", value,
            [&] { return scan_newlines(text); });
    const TextFile file(text.substr(0, text.rfind('\n', file_bytes / 4) + 1),
                        fields ? "libffm" : "libsvm");
    against(fields ? "libffm_xgboost" : "libsvm_xgboost",
            fields ? "xgboost_libffm" : "xgboost_libsvm", 3.3, spec, file);
    if (fields) continue;
    against("libsvm_sklearn", "sklearn", 14, spec, file);
    two_threads("libsvm_2t", spec, file);
  }
  {
    const std::string text = csv_text();
    spec.format = Format::kCsv;
    block = RecordBlock();
    measure(
        "csv_scan", "every newline found", [&] { return parse_records(spec, text, block); },
        [&] { return scan_newlines(text); });
    const TextFile file(text.substr(0, text.rfind('\n', file_bytes / 4) + 1), "csv");
    against("csv_pyarrow", "pyarrow", 4.5, spec, file);
    against("csv_pandas", "pandas", 3, spec, file);
    two_threads("csv_2t", spec, file);
    Schema schema;
    for (int i = 0; i < 20; ++i) schema.push_back(named(std::to_string(i), FieldType::kFloat32));
    prepare_table(schema, table);
    measure(
        "csv_typed_scan", "every newline found",
        [&] { return parse_table(**CsvParser::make(schema, {}), text, table); },
        [&] { return scan_newlines(text); });
  }
  {
    const std::string text = json_text();
    const Schema schema = {named("id", FieldType::kInt64), named("label", FieldType::kInt64),
                           named("x", FieldType::kFloat32), named("user.name", FieldType::kHashed)};
    prepare_table(schema, table);
    measure(
        "json_scan", "every newline found",
        [&] { return parse_table(**JsonLinesParser::make(schema), text, table); },
        [&] { return scan_newlines(text); });
  }
  for (const std::size_t payload : {std::size_t{1024}, std::size_t{102400}}) {
    const std::string record = tf_frame(std::string(payload, 'r'));
    std::string file;
    while (file.size() < file_bytes) file += record;
    RawDecoder().prepare(table);
    measure(
        payload == 1024 ? "tfrecord_1KiB_copy" : "tfrecord_100KiB_copy", "payloads copied, no sums",
        [&] {
          TfRecordParser parser(std::make_unique<RawDecoder>(), 1 << 20);
          return parse_table(parser, file, table);
        },
        [&] { return copy_payloads(file, payload); });
  }
}

}  // namespace
}  // namespace dlrun::bench

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--quick") {
    dlrun::bench::file_bytes = 16u << 20;
    dlrun::bench::rounds = 3;
  }
  dlrun::bench::run();
}
