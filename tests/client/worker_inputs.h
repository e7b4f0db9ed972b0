#pragma once
/// tests/client/worker_inputs.h: the inputs that the workers of the tests know.

#include <fstream>
#include <string>
#include <vector>

#include "io/core/msg.h"

namespace dlrun::test {

/// "dense" (csv: label, 2 columns), "sparse" (libsvm) and "again" (as dense, small batches), each
/// of 1000 rows and 2 passes.
inline std::vector<io::InputSpec> inputs(const std::string& folder) {
  std::ofstream dense(folder + "/dense.csv"), sparse(folder + "/sparse.libsvm");
  for (int row = 0; row < 1000; ++row) {
    dense << row << "," << 2 * row << "," << -row << "\n";
    sparse << row << " 7:" << row << " " << 1000000 + row << ":1\n";
  }
  io::InputSpec csv;
  csv.name = "dense";
  csv.uris = {folder + "/dense.csv"};
  csv.format = io::Format::kCsv;
  csv.batch_rows = 64;
  csv.passes = 2;
  csv.split_bytes = 512;
  io::InputSpec svm = csv;
  svm.name = "sparse";
  svm.uris = {folder + "/sparse.libsvm"};
  svm.format = io::Format::kLibsvm;
  io::InputSpec again = csv;
  again.name = "again";
  again.batch_rows = 8;
  return {csv, svm, again};
}

/// "csv" (id, price that may miss, name) and "json" (id, x of two, tags as a list), of 500 rows.
inline std::vector<io::InputSpec> typed_inputs(const std::string& folder) {
  std::ofstream csv(folder + "/rows.csv"), lines(folder + "/rows.jsonl");
  csv << "id,price,name\n";
  for (int row = 0; row < 500; ++row) {
    csv << row << "," << (row % 3 == 0 ? "" : "0.5") << ",\"n \"\"" << row << "\"\"\"\n";
    lines << "{\"id\": " << row << ", \"x\": [" << row << ", 0.5], \"tags\": ["
          << (row % 2 == 0 ? "\"a\", \"\u00e9\"" : "") << "]}\n";
  }
  csv.close();
  lines.close();
  using io::FieldType;
  io::InputSpec table;
  table.name = "csv";
  table.uris = {folder + "/rows.csv"};
  table.format = io::Format::kTable;
  table.header = true;
  table.batch_rows = 64;
  table.split_bytes = 1000;
  table.columns = {{.name = "id", .type = FieldType::kInt64},
                   {.name = "price", .type = FieldType::kFloat32, .may_miss = true},
                   {.name = "name", .type = FieldType::kText}};
  io::InputSpec json = table;
  json.name = "json";
  json.uris = {folder + "/rows.jsonl"};
  json.format = io::Format::kJsonLines;
  json.columns = {{.name = "id", .type = FieldType::kInt64},
                  {.name = "x", .type = FieldType::kFloat64, .width = 2},
                  {.name = "tags", .type = FieldType::kText, .width = 0}};
  return {table, json};
}

inline std::vector<io::InputSpec> all_inputs(const std::string& folder) {
  auto all = inputs(folder);
  for (auto& input : typed_inputs(folder)) all.push_back(std::move(input));
  return all;
}

}  // namespace dlrun::test
