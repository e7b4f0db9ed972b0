// Random damage to valid job files, under ASan and UBSan in the dev preset. The time slice comes
// from DLRUN_FUZZ_SECONDS; the seed of a failing round is printed by SCOPED_TRACE, and
// DLRUN_FUZZ_SEED replays from there.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "runtime/base/rng.h"
#include "runtime/jobspec/job_file.h"
#include "runtime/jobspec/json.h"

namespace dlrun::jobspec {
namespace {

constexpr const char* kSeeds[] = {
    "name = \"x\"\ntime_limit = \"2h\"\n[role.worker]\ncount = \"1..4\"\nargv = [\"a\", "
    "\"b\"]\nenv = {A = \"1\"}\nafter = [\"ps\"]\n[role.ps]\nprogram = \"shard-host\"\n",
    "name: x\nrole:\n  worker: {count: 2, argv: [a, b], memory: 2GiB}\n  ps: &p {program: "
    "shard-host}\ninput:\n  t: {uri: 'x', format: csv}\n",
    R"({"name":"x\u00e9","role":{"w":{"argv":["a",{"base64":"/w=="}],"cpus":0.5,"env":{"A":"b"}}},"input":{"t":{"uri":"x.svm"}},"restart":{"max":1,"on":["exit"]}})"};

std::string damaged(std::string text, SplitMix64& rng) {
  static constexpr std::string_view kBits[] = {
      "[",  "]",   "{",       "}",  "\"", "'",  ":",     "\n",    ",",
      "=",  "\\u", "\\ud800", "&a", "*a", "!!", "\xFF",  "1e999", "-",
      "\t", "<<",  "|",       "0x", "#",  "[[", "role.", "..",    "9999999999999999999999"};
  for (std::uint64_t n = 1 + rng.below(6); n > 0; --n) {
    const std::size_t at = rng.below(text.size() + 1);
    switch (rng.below(5)) {
      case 0:
        text.insert(at, kBits[rng.below(std::size(kBits))]);
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(rng.next());
        break;
      case 2:
        text.erase(at, rng.below(8));
        break;
      case 3:
        text.insert(at, text.substr(rng.below(text.size() + 1), rng.below(32)));
        break;
      default:
        text.resize(at);
        break;
    }
  }
  return text;
}

TEST(JobFileMutator, NeverBreaksOnDamagedFilesAndAcceptedOnesComeBackEqual) {
  const char* seconds = std::getenv("DLRUN_FUZZ_SECONDS");
  const char* first = std::getenv("DLRUN_FUZZ_SEED");
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::seconds(seconds ? std::atoi(seconds) : 2);
  std::uint64_t accepted = 0, rounds = 0;
  for (std::uint64_t seed = first ? std::strtoull(first, nullptr, 10) : 1;
       std::chrono::steady_clock::now() < until; ++seed, ++rounds) {
    SCOPED_TRACE("DLRUN_FUZZ_SEED=" + std::to_string(seed));
    SplitMix64 rng(seed);
    const auto syntax = static_cast<Syntax>(rng.below(3));
    const std::string text = rng.below(8) == 0 ? kSeeds[static_cast<int>(syntax)]
                                               : damaged(kSeeds[static_cast<int>(syntax)], rng);
    const auto spec = parse_job(text, syntax, "f");
    if (!spec) {
      ASSERT_EQ(spec.error().code, Errc::kInvalidArgument);
      ASSERT_FALSE(spec.error().context.empty());
      continue;
    }
    ++accepted;
    const auto back = parse_job(dump(to_json(*spec)), Syntax::kJson, "b");
    ASSERT_TRUE(back) << back.error().context << "\n" << text;
    ASSERT_EQ(dump(to_json(*back)), dump(to_json(*spec)));
  }
  EXPECT_GT(accepted, 0u);
  EXPECT_GT(rounds, accepted);
}

}  // namespace
}  // namespace dlrun::jobspec
