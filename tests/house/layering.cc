#include "tests/house/layering.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <sstream>
#include <string_view>

namespace dlrun::house {
namespace {

struct Layer {
  std::string_view folder;
  int height;
};

/// From the ground up. Folders of the same height do not include each other.
constexpr std::array kLayers = {
    Layer{"runtime/base", 0},
    Layer{"scheduler/core", 1},
    Layer{"ps/core", 1},
    Layer{"ps/pslite/core", 1},
    Layer{"io/core", 1},
    Layer{"runtime/cluster/core", 1},
    Layer{"runtime/os", 1},
    Layer{"runtime/wire", 2},
    Layer{"runtime/transport", 3},
    Layer{"runtime/device", 3},
    Layer{"runtime/store", 3},
    Layer{"io/source", 3},
    Layer{"runtime/security", 4},
    Layer{"runtime/shim", 4},
    Layer{"runtime/jobspec", 4},
    Layer{"runtime/logs", 5},
    Layer{"runtime/task", 5},
    Layer{"io/pipe", 5},
    Layer{"ps/checkpoint", 5},
    Layer{"ps/client", 6},
    Layer{"ps/pslite", 6},
    Layer{"runtime/actor", 7},
    Layer{"runtime/client", 7},
    Layer{"runtime/client/actor", 8},
    Layer{"ps/shard", 8},
    Layer{"io/feeder", 8},
    Layer{"runtime/cluster/actor", 9},
    Layer{"web", 9},
    Layer{"runtime/sim", 9},
    Layer{"launcher", 10},
    Layer{"runtime/node", 11},
};

constexpr std::array<std::string_view, 9> kTopFolders = {
    "runtime", "scheduler", "ps", "io", "web", "launcher", "python", "examples", "bench"};

constexpr std::array<std::string_view, 5> kWithCaf = {"runtime/actor", "ps/shard", "io/feeder",
                                                      "runtime/client/actor", "runtime/node"};

/// What a core must not reach: other machines, the disk, threads, clocks.
constexpr std::array<std::string_view, 24> kNotInCore = {
    "caf/",      "zmq",      "kj/",       "capnp/",  "boost/",       "curl/",
    "sqlite3.h", "openssl/", "cuda",      "nccl",    "sys/",         "unistd.h",
    "fcntl.h",   "poll.h",   "thread",    "mutex",   "shared_mutex", "condition_variable",
    "future",    "atomic",   "semaphore", "fstream", "filesystem",   "ctime"};

/// Where a core takes its memory from: anonymous pages, that is nothing of the world outside.
constexpr std::string_view kPagesOfCore = "ps/core/pages.cc";

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

/// The layer that a path lies in: the longest folder that is a prefix.
const Layer* layer_of(const std::string& path) {
  const Layer* best = nullptr;
  for (const Layer& layer : kLayers)
    if (path.starts_with(std::string(layer.folder) + "/") &&
        (best == nullptr || layer.folder.size() > best->folder.size()))
      best = &layer;
  return best;
}

bool is_core(std::string_view folder) { return folder.ends_with("/core"); }

/// Values and their rules: what storeys exchange. Anybody may include them.
bool is_message_header(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name == "msg.h" || path == "runtime/cluster/core/api.h" ||
         path == "runtime/cluster/core/event.h" || path == "io/core/input_rules.h";
}

std::string_view domain_of(const std::string& path) {
  for (const std::string_view domain : {"scheduler", "ps", "io"})
    if (path.starts_with(std::string(domain) + "/")) return domain;
  return "";
}

bool may_use_caf(const std::string& folder) {
  return folder.ends_with("/actor") ||
         std::any_of(kWithCaf.begin(), kWithCaf.end(), [&](std::string_view f) {
           return folder == f || folder.starts_with(std::string(f) + "/");
         });
}

/// Where the environment may be read: composition roots, among them the three ways into a user's
/// process.
bool is_composition_root(const std::string& path) {
  return path.ends_with("_main.cc") || path.ends_with("/main.cc") ||
         path.starts_with("launcher/") || path.starts_with("bench/") ||
         path.starts_with("examples/") || path == "runtime/client/c_abi.cc" ||
         path == "runtime/client/actor/training_loop.cc" || path == "ps/pslite/environment.cc";
}

std::optional<std::string> project_include_breach(const std::string& path,
                                                  const std::string& target) {
  const Layer* from = layer_of(path);
  const Layer* to = layer_of(target);
  if (to == nullptr || from == nullptr || from->folder == to->folder || is_message_header(target))
    return std::nullopt;
  if (is_core(from->folder) && to->folder != "runtime/base")
    return "a core includes runtime/base, message headers and its own folder";
  const auto mine = domain_of(path), theirs = domain_of(target);
  if (!mine.empty() && !theirs.empty() && mine != theirs)
    return std::string(mine) + " and " + std::string(theirs) + " meet only through message headers";
  if (to->height >= from->height)
    return std::string(from->folder) + " does not lie above " + std::string(to->folder);
  return std::nullopt;
}

std::optional<std::string> system_include_breach(const std::string& path,
                                                 const std::string& target) {
  const std::string folder = folder_of(path);
  if (target.starts_with("caf/") && !may_use_caf(folder)) return "CAF belongs to actors";
  if (path == kPagesOfCore && target == "sys/mman.h") return std::nullopt;
  const Layer* layer = layer_of(path);
  if (layer != nullptr && is_core(layer->folder))
    for (const std::string_view banned : kNotInCore)
      if (target == banned ||
          (target.starts_with(banned) &&
           (banned.ends_with("/") || banned == "zmq" || banned == "cuda" || banned == "nccl")))
        return "a core reaches no other machine, disk, thread or clock";
  return std::nullopt;
}

}  // namespace

std::vector<std::string> layering_breaches(const Sources& sources) {
  static const std::regex include_line(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  static const std::regex environment(R"(\b(secure_)?getenv\s*\()");
  static const std::regex clock_read(
      R"(\b(steady|system|high_resolution)_clock\s*::\s*now\b|\bclock_gettime\s*\()");
  std::vector<std::string> breaches;
  for (const auto& [path, text] : sources) {
    const Layer* layer = layer_of(path);
    std::istringstream lines(text);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
      const std::string at = path + ":" + std::to_string(number);
      std::smatch match;
      // The plain searches keep the slow regular expressions from almost every line.
      if (line.find('#') != std::string::npos && line.find("include") != std::string::npos &&
          std::regex_search(line, match, include_line)) {
        const std::string target = match[2];
        auto breach = project_include_breach(path, target);
        if (!breach) breach = system_include_breach(path, target);
        if (breach) breaches.push_back(at + " includes " + target + ": " + *breach);
        continue;
      }
      const std::string code = line.substr(0, line.find("//"));
      if (code.find("getenv") != std::string::npos && std::regex_search(code, environment) &&
          !is_composition_root(path))
        breaches.push_back(at + " reads the environment: only composition roots do");
      if (layer != nullptr && is_core(layer->folder) && code.find("clock") != std::string::npos &&
          std::regex_search(code, clock_read))
        breaches.push_back(at + " reads a clock: a core is told the time");
    }
    if (path.starts_with("runtime/") && layer == nullptr)
      breaches.push_back(path + " lies in a folder that has no layer: add it to the table");
  }
  return breaches;
}

Sources read_sources(const std::string& root) {
  Sources sources;
  for (const std::string_view top : kTopFolders) {
    const std::filesystem::path folder = std::filesystem::path(root) / top;
    if (!std::filesystem::exists(folder)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      const std::string extension = entry.path().extension();
      if (!entry.is_regular_file() ||
          (extension != ".h" && extension != ".cc" && extension != ".cu"))
        continue;
      std::ifstream in(entry.path());
      sources[std::filesystem::relative(entry.path(), root)] =
          std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
  }
  return sources;
}

}  // namespace dlrun::house
