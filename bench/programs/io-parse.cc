// Text and records -> columns, one thread, the bytes in memory. The floor is a scan that does as
// little as a reader must: it finds every newline (libsvm, libffm, csv), or copies every payload
// without a look at its sums (TFRecord).
//   {libsvm,libffm,csv}_scan   RecordParser in pieces of 256 KiB into a block that is recycled
//   csv_typed_scan, json_scan  CsvParser and JsonLinesParser into a table that is recycled
//   tfrecord_{1KiB,100KiB}_copy  TfRecordParser, both sums checked, payloads into a column
//   libsvm_sklearn             against load_svmlight_file of the same file, one process
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>

#include "bench/report/report.h"
#include "io/core/csv.h"
#include "io/core/json_lines.h"
#include "io/core/record_parser.h"
#include "io/core/tf_record.h"
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

/// Rows of about 20 features, ids over a million, values of four to six digits.
std::string sparse_text(bool fields) {
  SplitMix64 rng(1);
  std::string text;
  char buffer[96];
  while (text.size() < file_bytes) {
    text += rng.below(2) != 0 ? "1" : "0";
    for (std::uint64_t i = 0, n = 10 + rng.below(20); i < n; ++i) {
      const double value = static_cast<double>(rng.below(1'000'000)) / 1e6;
      const auto id = static_cast<unsigned>(rng.below(1'000'000));
      if (fields)
        std::snprintf(buffer, sizeof buffer, " %u:%u:%.*g", static_cast<unsigned>(i), id, 5, value);
      else
        std::snprintf(buffer, sizeof buffer, " %u:%.*g", id, 5, value);
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

/// GB/s of load_svmlight_file, told by the script itself; nothing when it cannot run.
std::optional<double> sklearn(const std::string& path, std::size_t bytes) {
  const char* python = std::getenv("DLRUN_PYTHON");
  if (python == nullptr) return std::nullopt;
  const std::string command =
      std::string("'") + python +
      "' -c \"import sys,time\nfrom sklearn.datasets import load_svmlight_file as f\n"
      "t=time.perf_counter(); f(sys.argv[1]); print(time.perf_counter()-t)\" '" +
      path + "' 2>/dev/null";
  FILE* out = ::popen(command.c_str(), "r");
  if (out == nullptr) return std::nullopt;
  double seconds = 0;
  const bool told = std::fscanf(out, "%lf", &seconds) == 1;
  const bool ended = ::pclose(out) == 0;
  if (!told || !ended || seconds <= 0) return std::nullopt;
  return static_cast<double>(bytes) / 1e9 / seconds;
}

void against_sklearn(std::string_view text, const std::function<double()>& value) {
  Figure figure;
  figure.bench = "io-parse";
  figure.metric = "libsvm_sklearn";
  figure.unit = "GB/s";
  figure.baseline_name = "sklearn load_svmlight_file";
  figure.must.ratio_at_least = 14;
  const std::string_view part = text.substr(0, text.rfind('\n', file_bytes / 4) + 1);
  const auto path = std::filesystem::temp_directory_path() /
                    ("dlrun-bench-" + std::to_string(::getpid()) + ".libsvm");
  std::ofstream(path, std::ios::binary) << part;
  for (int i = 0; i < std::min(rounds, 3); ++i) {
    const auto baseline = sklearn(path.string(), part.size());
    if (!baseline) {
      figure.reason = "DLRUN_PYTHON is not set or has no scikit-learn";
      figure.baselines.clear();
      figure.values = {value()};
      break;
    }
    figure.baselines.push_back(*baseline);
    figure.values.push_back(value());
  }
  std::filesystem::remove(path);
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
    if (!fields) against_sklearn(text, value);
  }
  {
    const std::string text = csv_text();
    spec.format = Format::kCsv;
    block = RecordBlock();
    measure(
        "csv_scan", "every newline found", [&] { return parse_records(spec, text, block); },
        [&] { return scan_newlines(text); });
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
