#include "runtime/jobspec/words.h"

#include <algorithm>
#include <iterator>

namespace dlrun::jobspec {

std::string_view format_of_name(std::string_view path) {
  static constexpr std::pair<std::string_view, std::string_view> kEndings[] = {
      {"libsvm", "libsvm"}, {"svm", "libsvm"}, {"svmlight", "libsvm"},   {"libffm", "libffm"},
      {"ffm", "libffm"},    {"csv", "csv"},    {"tsv", "tsv"},           {"jsonl", "jsonl"},
      {"ndjson", "jsonl"},  {"npy", "npy"},    {"tfrecord", "tfrecord"}, {"tfrecords", "tfrecord"}};
  static constexpr std::string_view kPacked[] = {"gz", "zst", "xz", "bz2"};
  for (bool packed = false;; packed = true) {
    const auto dot = path.find_last_of("./");
    if (dot == std::string_view::npos || path[dot] == '/') return {};
    std::string ending(path.substr(dot + 1));
    for (char& c : ending)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    for (const auto& [name, format] : kEndings)
      if (ending == name) return format;
    if (packed || std::find(std::begin(kPacked), std::end(kPacked), ending) == std::end(kPacked))
      return {};
    path = path.substr(0, dot);
  }
}

std::string cause_name(cluster::Cause cause) {
  std::string out(cluster::to_string(cause));
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

std::vector<std::pair<std::string, cluster::Cause>> cause_names() {
  using cluster::Cause;
  std::vector<std::pair<std::string, Cause>> out;
  for (const Cause cause :
       {Cause::kExit, Cause::kSignal, Cause::kOom, Cause::kTimeLimit, Cause::kNodeLost,
        Cause::kShimLost, Cause::kStartFailed, Cause::kPreempted})
    out.emplace_back(cause_name(cause), cause);
  return out;
}

}  // namespace dlrun::jobspec
