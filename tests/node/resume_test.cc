// kill -9 at random moments of jobs that commit their inputs: of a worker or its shim, so that the
// job starts again from its last commit, and of feeders, agents and the coordinator meanwhile. What
// the generations took until the commits that the next ones began from must be, together: in
// dynamic mode every row of every pass once; in deterministic mode, rank by rank, the very batches
// of a job that nobody struck.
// DLRUN_LONG: 300 strikes per mode instead of 12. The seed is printed; DLRUN_SEED replays it.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/rng.h"
#include "tests/node/process.h"
#include "tests/node/processes.h"

namespace dlrun::node {
namespace {

using nlohmann::json;

const std::vector<std::string> kLost = {"--suspect-ms", "1500", "--lost-ms", "20000"};
constexpr int kRows = 3000;
constexpr int kPasses = 6;
constexpr int kRanks = 2;
constexpr int kStrikesPerJob = 12;

/// What one rank of one generation wrote down (resume_worker.cc).
struct Diary {
  std::string from;
  std::vector<std::string> lines;
  bool ended = false;
};
using Batches = std::vector<std::vector<std::string>>;  ///< by rank, in order

class Diaries {
 public:
  explicit Diaries(const std::string& out) {
    for (int generation = 1;; ++generation) {
      std::map<int, Diary>& ranks = generations_[generation];
      for (int rank = 0; rank < kRanks; ++rank) {
        std::ifstream file(out + "." + std::to_string(generation) + "." + std::to_string(rank));
        std::string line;
        if (!std::getline(file, line)) continue;
        Diary& diary = ranks[rank];
        EXPECT_EQ(line.substr(0, 5), "from ") << line;
        diary.from = line.substr(5);
        while (std::getline(file, line)) {
          diary.ended = diary.ended || line == "end";
          diary.lines.push_back(line);
        }
      }
      // One that was struck before any rank began has none; a later one may.
      if (ranks.empty() && ++empty_ > 64) break;
      if (!ranks.empty()) last_ = generation, empty_ = 0;
    }
  }
  int last() const { return last_; }
  /// Generations that went on from a commit.
  int resumed() const {
    int n = 0;
    for (const auto& [generation, ranks] : generations_)
      n += !ranks.empty() && ranks.begin()->second.from != "-";
    return n;
  }
  /// All that the job took, without what a restart took back.
  Batches taken() const {
    Batches out = before(from_of(last_));
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto found = generations_.at(last_).find(rank);
      if (found == generations_.at(last_).end() || !found->second.ended) {
        ADD_FAILURE() << "rank " << rank << " of the last generation did not come to the end";
        continue;
      }
      append(out, rank, found->second, "");
    }
    return out;
  }

 private:
  std::string from_of(int generation) const {
    const std::map<int, Diary>& ranks = generations_.at(generation);
    for (const auto& [rank, diary] : ranks)
      EXPECT_EQ(diary.from, ranks.begin()->second.from) << "generation " << generation;
    return ranks.empty() ? "?" : ranks.begin()->second.from;
  }
  /// What the commit covers.
  Batches before(const std::string& tag) const {
    if (tag == "-") return Batches(kRanks);
    const int generation = std::atoi(tag.c_str());
    if (generations_.count(generation) == 0) {
      ADD_FAILURE() << "no generation made commit " << tag;
      return Batches(kRanks);
    }
    Batches out = before(from_of(generation));
    for (const auto& [rank, diary] : generations_.at(generation)) append(out, rank, diary, tag);
    return out;
  }
  /// Until it entered the commit. One that ended before took nothing after it.
  static void append(Batches& out, int rank, const Diary& diary, const std::string& tag) {
    bool entered = tag.empty();
    for (const std::string& line : diary.lines) {
      if (line.rfind("batch ", 0) == 0) out[static_cast<std::size_t>(rank)].push_back(line);
      if (line == "enter " + tag) {
        entered = true;
        break;
      }
    }
    EXPECT_TRUE(entered || diary.ended) << "rank " << rank << " never entered " << tag;
  }

  std::map<int, std::map<int, Diary>> generations_;
  int last_ = 0, empty_ = 0;
};

class Resume : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const char* text = std::getenv("DLRUN_SEED");
    const auto clock = std::chrono::system_clock::now().time_since_epoch().count();
    const std::uint64_t seed =
        text != nullptr ? std::strtoull(text, nullptr, 10) : static_cast<std::uint64_t>(clock);
    std::printf("DLRUN_SEED=%llu\n", static_cast<unsigned long long>(seed));
    rng_ = SplitMix64(seed);
    std::ofstream file(cluster_ / "train.libsvm");
    for (int row = 0; row < kRows; ++row)
      file << row % 2 << ' ' << row << ":1 " << 1000000 + row << ':' << row << ".5\n";
    file.close();  // the daemons would inherit it
    cluster_.start_coordinator(kLost);
    for (const char* name : {"n0", "n1"}) cluster_.start_agent(name);
    cluster_.wait("/api/v1/nodes", [](const json& body) {
      int up = 0;
      for (const json& node : body.at("nodes")) up += node.value("state", "") == "up";
      return up == 2;
    });
  }
  void TearDown() override {
    if (HasFailure()) std::fprintf(stderr, "%s", cluster_.logs().c_str());
  }

  std::string out(int job) { return cluster_ / ("out" + std::to_string(job)); }
  std::string gate(int job) { return cluster_ / ("gate" + std::to_string(job)); }
  void open_gate(int job) { std::ofstream(gate(job)) << "x"; }

  std::string submit(int job) {
    json input{{"uri", cluster_ / "train.libsvm"},
               {"format", "libsvm"},
               {"batch_rows", 32},
               {"split_bytes", 2048},
               {"passes", kPasses},
               {"mode", GetParam()}};
    if (GetParam() == "deterministic") {
      input["lanes"] = 4;
      input["ends"] = "drop";
    }
    const json spec{
        {"name", "train"},
        {"owner", "tester"},
        {"cwd", cluster_ / ""},
        {"failure_grace", 1},
        {"grace", 1},
        {"role",
         {{"worker", {{"argv", {DLRUN_RESUME_WORKER, out(job), gate(job)}}, {"count", kRanks}}}}},
        {"input", {{"train", input}}},
        {"restart",
         {{"max", 1000}, {"on", {"exit", "signal", "shim-lost", "node-lost", "start-failed"}}}}};
    HttpAnswer answer;
    within(std::chrono::seconds(20), [&] {
      answer = cluster_.post("/api/v1/jobs", spec);
      return answer.status != 0 && answer.status != 503;
    });
    EXPECT_LT(answer.status, 300) << answer.body.dump();
    return answer.body.value("id", "?");
  }
  json wait_final(const std::string& job) {
    return cluster_.wait(
        "/api/v1/jobs/" + job, [](const json& view) { return view.value("final", false); },
        std::chrono::seconds(180));
  }

  std::vector<pid_t> processes(bool (*kind)(const Running&)) {
    std::vector<pid_t> pids;
    for (const Running& p :
         processes_of(cluster_ / "", {cluster_.coordinator().pid(), cluster_.agent("n0").pid(),
                                      cluster_.agent("n1").pid()}))
      if (kind(p)) pids.push_back(p.pid);
    return pids;
  }
  static bool is_worker(const Running& p) {
    return p.cmdline.find(DLRUN_RESUME_WORKER) == 0 && !is_shim(p);
  }
  static bool is_workers_shim(const Running& p) {
    return is_shim(p) && p.cmdline.find(".worker.") != std::string::npos;
  }
  static bool is_the_feeder(const Running& p) { return is_feeder(p) && !is_shim(p); }
  void kill_one(bool (*kind)(const Running&)) {
    std::vector<pid_t> pids;
    if (!within(std::chrono::seconds(60), [&] { return !(pids = processes(kind)).empty(); }))
      return;  // between two generations for long, or the job is over: the end tells
    const pid_t pid = pids[rng_.below(pids.size())];
    if (pid > 0) ::kill(pid, SIGKILL);
  }
  void strike() {
    std::this_thread::sleep_for(std::chrono::milliseconds(rng_.below(900)));
    const std::uint64_t draw = rng_.below(100);
    if (draw < 50) {
      kill_one(is_worker);
    } else if (draw < 60) {
      kill_one(is_workers_shim);
    } else if (draw < 76) {
      kill_one(is_the_feeder);
    } else if (draw < 88) {
      const std::string name = rng_.below(2) == 0 ? "n0" : "n1";
      cluster_.kill_agent(name, SIGKILL);
      cluster_.start_agent(name);
    } else {
      cluster_.kill_coordinator(SIGKILL);
      cluster_.start_coordinator(kLost);
    }
  }
  /// The batches of a job that was struck so often, and how many generations began from a commit.
  Batches run(int strikes, int* resumed = nullptr) {
    const int number = ++jobs_;
    const std::string job = submit(number);
    for (int i = 0; i < strikes; ++i) strike();
    open_gate(number);
    const json view = wait_final(job);
    EXPECT_EQ(view.value("state", ""), "SUCCEEDED") << view.dump();
    const Diaries diaries(out(number));
    if (resumed != nullptr) *resumed += diaries.resumed();
    return diaries.taken();
  }

  static void expect_every_row_once(const Batches& batches) {
    std::map<std::pair<int, int>, int> seen;
    for (const auto& rank : batches)
      for (const std::string& batch : rank) {
        std::istringstream words(batch);
        std::string word, hash;
        int pass = -1;
        words >> word >> pass >> hash;
        for (int id; words >> id;) ++seen[{pass, id}];
      }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(kRows * kPasses)) << "rows are missing";
    for (const auto& [row, times] : seen) {
      if (times == 1) continue;
      ADD_FAILURE() << "row " << row.second << " of pass " << row.first << " was seen " << times
                    << " times";
      break;
    }
  }
  static void expect_same(const Batches& got, const Batches& want) {
    for (std::size_t rank = 0; rank < want.size(); ++rank) {
      EXPECT_EQ(got[rank].size(), want[rank].size()) << "steps of rank " << rank;
      for (std::size_t i = 0; i < std::min(got[rank].size(), want[rank].size()); ++i) {
        if (got[rank][i] == want[rank][i]) continue;
        ADD_FAILURE() << "step " << i << " of rank " << rank << " is\n  " << got[rank][i]
                      << "\ninstead of\n  " << want[rank][i];
        break;
      }
    }
  }

  TestCluster cluster_;
  SplitMix64 rng_{0};
  int jobs_ = 0;
};

TEST_P(Resume, FromTheLastCommitNothingIsLostAndNothingComesTwice) {
  const bool ordered = GetParam() == "deterministic";
  const Batches expected = run(0);
  if (!ordered) expect_every_row_once(expected);
  const int jobs = std::getenv("DLRUN_LONG") != nullptr ? 25 : 1;
  int resumed = 0;
  for (int i = 0; i < jobs && !HasFailure(); ++i) {
    const Batches got = run(kStrikesPerJob, &resumed);
    ordered ? expect_same(got, expected) : expect_every_row_once(got);
  }
  std::printf("%d generations began from a commit\n", resumed);
  EXPECT_GT(resumed, 0) << "none was struck between two commits";
}

INSTANTIATE_TEST_SUITE_P(Each, Resume, ::testing::Values("dynamic", "deterministic"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace dlrun::node
