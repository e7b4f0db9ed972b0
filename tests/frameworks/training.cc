#include "tests/frameworks/training.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

#include "tests/node/process.h"

namespace dlrun::frameworks {

using nlohmann::json;

namespace {

constexpr Duration kRunLimit = std::chrono::seconds(150);

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string example(const std::string& folder) {
  return std::string(std::getenv("DLRUN_SOURCE_DIR")) + "/examples/" + folder;
}

double seconds_since(std::chrono::steady_clock::time_point before) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
}

}  // namespace

std::set<std::string> Ran::nodes(const std::string& role) const {
  std::set<std::string> out;
  for (const json& task : job.value("tasks", json::array()))
    if (task.value("role", "") == role) out.insert(task.value("node", ""));
  return out;
}

double Ran::number_after(const std::string& words) const {
  const auto at = text.find(words);
  return at == std::string::npos ? -1 : std::strtod(text.c_str() + at + words.size(), nullptr);
}

void Training::SetUp() {
  if (std::getenv("DLRUN_DATA_DIR") == nullptr) GTEST_SKIP() << "DLRUN_DATA_DIR names no data";
  std::string pattern = "/tmp/dlrun-fw-XXXXXX";
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  folder_ = pattern;
  use("");
  // A core each, so that two workers of one core are on two agents.
  const auto [code, text] =
      call({DLRUN_BINARY, "up", "--nodes", "3", "--cpus", "1"}, std::chrono::seconds(60));
  ASSERT_EQ(code, 0) << text;
  up_ = true;
}

void Training::TearDown() {
  if (folder_.empty()) return;
  if (up_) {
    const auto [code, text] = call({DLRUN_BINARY, "down"}, std::chrono::seconds(60));
    EXPECT_EQ(code, 0) << text;
  }
  std::error_code ec;
  std::filesystem::remove_all(folder_, ec);
}

void Training::use(const std::string& framework) {
  path_ = "/usr/bin:/bin:/usr/sbin:/sbin";
  if (framework.empty()) return;
  const char* root = std::getenv("DLRUN_FRAMEWORKS");
  ASSERT_NE(root, nullptr) << "DLRUN_FRAMEWORKS names no frameworks: ./test.sh frameworks installs "
                              "them";
  const std::string home = std::string(root) + "/" + framework;
  ASSERT_FALSE(std::filesystem::exists(home + ".failed")) << framework << " could not be had:\n"
                                                          << text_of(home + ".failed");
  ASSERT_TRUE(std::filesystem::exists(home + "/bin/python3")) << home << " is not there";
  path_ = home + "/bin:" + path_;
}

std::pair<int, std::string> Training::call(std::vector<std::string> argv, Duration limit,
                                           const std::map<std::string, std::string>& env,
                                           const std::string& cwd) {
  node::Process process(words_of(std::move(argv), env, cwd), next_log());
  int code = process.wait(limit);
  if (code < 0) code = 124;  // ended with `process`
  return {code, process.log()};
}

std::vector<std::string> Training::words_of(std::vector<std::string> argv,
                                            const std::map<std::string, std::string>& env,
                                            const std::string& cwd) const {
  std::vector<std::string> words = {"/usr/bin/env", "-C", cwd, "DLRUN_HOME=" + folder_ + "/home",
                                    "PATH=" + path_};
  for (const auto& [name, value] : env) words.push_back(name + "=" + value);
  words.insert(words.end(), argv.begin(), argv.end());
  return words;
}

/// The newest one, whole.
json Training::last_job() {
  const auto [listed, list] =
      call({DLRUN_BINARY, "list", "--json", "-l", "1"}, std::chrono::seconds(20));
  EXPECT_EQ(listed, 0) << list;
  const json jobs = json::parse(list, nullptr, false);
  if (!jobs.is_object() || jobs.value("jobs", json::array()).empty()) return json::object();
  const auto [shown, view] =
      call({DLRUN_BINARY, "show", jobs.at("jobs")[0].value("id", ""), "--json"},
           std::chrono::seconds(20));
  EXPECT_EQ(shown, 0) << view;
  const json job = json::parse(view, nullptr, false);
  return job.is_object() ? job : json::object();
}

Ran Training::run(const std::string& folder, std::vector<std::string> words,
                  const std::string& data, std::map<std::string, std::string> env) {
  env["DATA"] = std::string(std::getenv("DLRUN_DATA_DIR")) + "/" + data;
  words.insert(words.begin(), {DLRUN_BINARY, "run"});
  Ran ran;
  const auto before = std::chrono::steady_clock::now();
  std::tie(ran.code, ran.text) = call(words, kRunLimit, env, example(folder));
  ran.seconds = seconds_since(before);
  ran.job = last_job();
  return ran;
}

Ran Training::run_and_kill(const std::string& folder, std::vector<std::string> words,
                           const std::string& data, const std::string& task,
                           const std::function<bool(const std::string& output)>& sign,
                           std::map<std::string, std::string> env) {
  env["DATA"] = std::string(std::getenv("DLRUN_DATA_DIR")) + "/" + data;
  env["EPOCHS"] = env["STEPS"] = "100000";
  words.insert(words.begin(), {DLRUN_BINARY, "run"});
  Ran ran;
  node::Process process(words_of(words, env, example(folder)), next_log());
  const auto until = std::chrono::steady_clock::now() + kRunLimit;
  while (!sign(process.log()) && process.running() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  pid_t pid = 0;
  for (const json& t : last_job().value("tasks", json::array()))
    if (t.value("role", "") + "/" + std::to_string(t.value("rank", 0)) == task)
      pid = t.value("pid", 0);
  EXPECT_GT(pid, 1) << task << " has no process: " << process.log();
  const auto before = std::chrono::steady_clock::now();
  if (pid > 1) ::kill(pid, SIGKILL);
  ran.code = process.wait(std::chrono::seconds(60));
  ran.seconds = seconds_since(before);
  ran.text = process.log();
  ran.job = last_job();
  return ran;
}

void Training::expect_across(const Ran& ran, std::size_t workers) {
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_EQ(ran.job.value("state", ""), "SUCCEEDED") << ran.job.dump();
  EXPECT_EQ(ran.nodes("worker").size(), workers) << ran.job.dump();
  // For the reader of the log: what was reached.
  for (const char* words : {"test accuracy ", "test auc "})
    if (const double number = ran.number_after(words); number >= 0)
      std::cout << "[          ] " << words << number << ", " << ran.seconds << " s\n";
}

}  // namespace dlrun::frameworks
