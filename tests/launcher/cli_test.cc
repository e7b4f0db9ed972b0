// All other commands: usage, help, answers as text and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "launcher/command_table.h"
#include "launcher/local_cluster.h"
#include "tests/launcher/cli_fixture.h"

namespace dlrun::launcher {
namespace {

TEST_F(Cli, AFullStdoutIsToldAndIsNoSuccess) {
  control.on_submit([&](JobId id) { start(id), logs.append(ref(id), "hello\n"), finish(id, 0); });
  for (const auto& command : std::vector<std::vector<std::string>>{{"run", "--", "x"},
                                                                   {"list"},
                                                                   {"logs", "j1"},
                                                                   {"events"},
                                                                   {"list", "--json"},
                                                                   {"--help"}}) {
    SCOPED_TRACE(command[0]);
    world.out_fd = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
    world.err_fd = ::memfd_create("err", MFD_CLOEXEC);
    world.out_error = 0;
    EXPECT_EQ(run_cli(command, world), kNotWritten);
    ::close(world.out_fd);
    EXPECT_THAT(slurp(world.err_fd),
                HasSubstr("stdout cannot be written, what follows is lost: No space left"));
  }
  control.on_submit([&](JobId id) { start(id), logs.append(ref(id), "hello\n"), finish(id, 7); });
  world.out_fd = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  world.err_fd = ::memfd_create("err", MFD_CLOEXEC);
  EXPECT_EQ(run_cli({"run", "--", "x"}, world), 7) << "the job's own failure says more";
  ::close(world.out_fd), ::close(world.err_fd);
}

TEST_F(Cli, MistypedCommandsAndFlagsAreUsageErrorsWithTheNearestName) {
  EXPECT_EQ(cli({"statsu"}), 64);
  EXPECT_EQ(err, "dlrun: unknown command 'statsu'; did you mean 'status'?\n");
  EXPECT_EQ(cli({"xyzzy"}), 64);
  EXPECT_EQ(cli({"list", "--bogus"}), 64);
  EXPECT_THAT(err, HasSubstr("see dlrun list --help"));
  EXPECT_EQ(cli({"run", "--time-limt", "2h", "--", "x"}), 64);
  EXPECT_THAT(err, HasSubstr("did you mean --time-limit?"));
  EXPECT_EQ(cli({"show"}), 64);
  EXPECT_EQ(cli({}), 64);
  EXPECT_EQ(cli({"run", "python3", "train.py"}), 64);
  EXPECT_THAT(err, HasSubstr("put -- before the program: dlrun run -- python3 train.py"));
  EXPECT_EQ(cli({"run", "--"}), 64);
  EXPECT_EQ(cli({"run", "-n", "0", "--", "x"}), 64);
  EXPECT_EQ(cli({"run", "--restarts", "-1", "--", "x"}), 64);
  EXPECT_THAT(err, HasSubstr("--restarts"));
  EXPECT_THAT(err, HasSubstr("1000")) << "the bounds";
  EXPECT_EQ(cli({"run", "--ps", "-1", "--", "x"}), 64);
  EXPECT_THAT(err, HasSubstr("65536"));
  EXPECT_EQ(cli({"run", "--cpus", "1e9", "--", "x"}), 64);
  EXPECT_THAT(err, HasSubstr("at most 1000000"));
  EXPECT_EQ(cli({"run", "--gpus", "1.5", "--", "x"}), 64);
  EXPECT_THAT(err, HasSubstr("gpus must be a whole number, not '1.5'"));
  EXPECT_EQ(control.submitted().size(), 0u);
}

TEST_F(Cli, AnEmptyNameIsNoOtherQuestion) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"show", ""},
                                               {"why", ""},
                                               {"status", ""},
                                               {"logs", ""},
                                               {"wait", ""},
                                               {"kill", "j1", ""},
                                               {"release", ""},
                                               {"events", "--job", ""},
                                               {"revoke", ""}}) {
    EXPECT_EQ(cli(args), 64) << args[0];
    EXPECT_THAT(err, HasSubstr("'' is no name")) << args[0];
  }
}

TEST_F(Cli, HelpHasExamples) {
  EXPECT_EQ(cli({"--help"}), 0);
  EXPECT_THAT(out, HasSubstr("dlrun run -n 4 --ps 2 -- python3 train.py"));
  EXPECT_EQ(cli({"run", "--help"}), 0);
  EXPECT_THAT(out, HasSubstr("Examples:"));
  EXPECT_EQ(cli({"help", "logs"}), 0);
  EXPECT_THAT(out, HasSubstr("--follow"));
}

TEST_F(Cli, HelpOfEachCommandHasExamplesWithFlagsThatItHas) {
  std::map<std::string, std::string> help;
  for (const Command& command : command_table()) {
    EXPECT_EQ(cli({command.name, "--help"}), 0);
    help[command.name] = out;
    ASSERT_THAT(out, HasSubstr("\nExample")) << command.name;
    EXPECT_THAT(out.substr(out.find("\nExample")), HasSubstr(std::string("dlrun ") + command.name));
  }
  int flags = 0;
  for (const auto& [name, text] : help) {
    std::string of;  // the command whose words follow; "" = a program's, or the shell's
    std::istringstream words(text.substr(text.find("\nExample")));
    for (std::string word, before; words >> word; before = word) {
      if (before.ends_with("dlrun"))
        of = word;
      else if (word == "--" || word == "&&" || word == ";" || word == "|")
        of.clear();
      if (of == word)
        EXPECT_TRUE(help.contains(of)) << name << ": dlrun " << of;
      else if (!of.empty() && word.starts_with("-")) {
        ++flags;
        EXPECT_THAT(help[of], HasSubstr(word)) << name;
      }
    }
  }
  EXPECT_GT(flags, 20);
}

TEST_F(Cli, ABadJobFileIsTold_WithItsPlace) {
  write("job.toml", "[role.worker]\nargv = ['x']\ncuont = 2\n");
  const std::string file = home / "job.toml";
  EXPECT_EQ(cli({"check", file}), 65);
  EXPECT_EQ(err, file + ":3:1: unknown key 'cuont' in [role.worker]; did you mean 'count'?\n");
  EXPECT_EQ(cli({"run", file}), 65);
  EXPECT_EQ(cli({"submit", home / "absent.toml"}), 65);
  write("my job 1.toml", "[role.worker]\nargv = ['x']\n");
  EXPECT_EQ(cli({"submit", home / "my job 1.toml"}), 0) << err;
  EXPECT_EQ(control.submitted().back().name, "my-job-1") << "a name that the control plane takes";
  write("good.yaml", "role: {worker: {argv: [x], count: 3}}\n");
  EXPECT_EQ(cli({"check", home / "good.yaml"}), 0);
  EXPECT_THAT(out, HasSubstr("worker x3"));
  EXPECT_EQ(cli({"check", "--json", home / "good.yaml"}), 0);
  EXPECT_EQ(json::parse(out)["role"]["worker"]["count"], 3);
}

TEST_F(Cli, UnreachableAndRefusedHaveTheirOwnCodes) {
  write("token", "wrong-token-wrong-token\n");
  EXPECT_EQ(cli({"list"}), 77);
  write("token", test::kToken);
  server->stop();
  EXPECT_EQ(cli({"submit", "--", "x"}), 69);
  EXPECT_THAT(err, HasSubstr("does not answer"));
  write("cluster.json", "{");
  EXPECT_EQ(cli({"list"}), 70);
  std::filesystem::remove(home / "cluster.json");
  EXPECT_EQ(cli({"list"}), 1);
  EXPECT_THAT(err, HasSubstr("dlrun up"));
  EXPECT_EQ(cli({"submit", "--", "x"}), 69);
}

TEST_F(Cli, SubmitPrintsTheIdAloneAndWaitGivesTheCode) {
  EXPECT_EQ(cli({"submit", "-n", "2", "--", "x"}), 0);
  EXPECT_EQ(out, "j1\n");
  EXPECT_EQ(err, "");
  EXPECT_EQ(cli({"wait", "j1", "--timeout", "50ms"}), 124);
  start(JobId{1});
  std::thread later([&, before = control.calls()] {
    EXPECT_TRUE(asked(before, 1));
    finish(JobId{1}, 139);
  });
  EXPECT_EQ(cli({"wait", "j1"}), 139);
  later.join();
  EXPECT_EQ(cli({"wait", "j9"}), 1);
  EXPECT_THAT(err, HasSubstr("no job j9"));
}

TEST_F(Cli, KillOfAFinishedOrUnknownJobIsRefusedClearly) {
  const JobId id = control.add(test::running_job());
  EXPECT_EQ(cli({"kill", "j1", "--reason", "enough"}), 0);
  finish(id, 0);
  EXPECT_EQ(cli({"kill", "j1"}), 1);
  EXPECT_THAT(err, HasSubstr("j1 is over"));
  EXPECT_EQ(cli({"kill", "j77"}), 1);
  EXPECT_EQ(cli({"kill", "banana"}), 64);
}

TEST_F(Cli, AKillThatWillNotBeAsUsualSaysSo) {
  control.add(test::running_job());
  control.intercept([](const cluster::ApiCall& call) -> std::optional<Result<cluster::ApiReply>> {
    if (!std::holds_alternative<cluster::KillJob>(call)) return std::nullopt;
    return cluster::ApiReply(cluster::KillAck{"its outputs take their places"});
  });
  EXPECT_EQ(cli({"kill", "j1"}), 0);
  EXPECT_EQ(err, "dlrun: j1 will be killed: its outputs take their places\n");
}

TEST_F(Cli, HoldsReleasesAndRequeues) {
  control.add(test::running_job());
  EXPECT_EQ(cli({"hold", "j1"}), 0);
  EXPECT_EQ(err, "dlrun: j1 is held\n");
  EXPECT_EQ(cli({"release", "--json", "j1"}), 0);
  EXPECT_EQ(json::parse(out)["id"], "j1");
  EXPECT_EQ(cli({"requeue", "--hold", "--reason", "maintenance", "j1"}), 0);
  EXPECT_EQ(cli({"release", "j9"}), 1);
  EXPECT_EQ(cli({"submit", "--hold", "--output", "model=out", "--", "true"}), 0);
  const auto spec = control.submitted().at(0);
  EXPECT_TRUE(spec.hold);
  ASSERT_EQ(spec.outputs.size(), 1u);
  EXPECT_EQ(spec.outputs[0].path, home.string() + "/out");
}

TEST_F(Cli, ShowsJobsNodesEventsAndWhyAsTextAndAsJson) {
  auto view = test::running_job(2);
  view.spec.name = "evil\x1b]0;x\x07";
  control.add(view);
  control.event(JobId{1}, "job_started", "started");
  control.set_nodes({{.id = NodeId{"node-1"},
                      .capacity = {.cpu_milli = 2500, .memory_bytes = 1 << 30},
                      .used = {.cpu_milli_used = 500}}});
  EXPECT_EQ(cli({"list"}), 0);
  EXPECT_THAT(out, HasSubstr("j1   RUNNING"));
  EXPECT_EQ(out.find('\x1b'), std::string::npos);
  EXPECT_EQ(cli({"show", "j1"}), 0);
  EXPECT_THAT(out, HasSubstr("worker/1#1  running  node-1"));
  EXPECT_EQ(cli({"status", "j1"}), 0);
  EXPECT_EQ(out, "j1 RUNNING: worker x2 on node-0, node-1\n");
  EXPECT_EQ(cli({"status"}), 0);
  EXPECT_THAT(out, HasSubstr("cluster ok: 1 nodes up"));
  EXPECT_EQ(cli({"nodes"}), 0);
  EXPECT_THAT(out, HasSubstr("0.5/2.5"));
  EXPECT_EQ(cli({"events"}), 0);
  EXPECT_THAT(out, HasSubstr("j1 job_started started"));
  EXPECT_EQ(cli({"why", "j1"}), 0);
  EXPECT_THAT(out, HasSubstr("memory: 2 of 3 nodes fail it"));
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"list"},
                                             {"show", "j1"},
                                             {"status"},
                                             {"status", "j1"},
                                             {"nodes"},
                                             {"events"},
                                             {"why", "j1"},
                                             {"version"}}) {
    auto args = command;
    args.push_back("--json");
    EXPECT_EQ(cli(args), 0);
    EXPECT_FALSE(json::parse(out, nullptr, false).is_discarded()) << command[0] << out;
  }
  EXPECT_EQ(cli({"show", "j9", "--json"}), 1);
  EXPECT_EQ(json::parse(err)["error"], "kNotFound");
}

TEST_F(Cli, WhatChangesSomethingAnswersInJsonToo) {
  EXPECT_EQ(cli({"submit", "--json", "--", "x"}), 0);
  EXPECT_EQ(json::parse(out)["id"], "j1");
  EXPECT_EQ(cli({"kill", "--json", "j1"}), 0);
  EXPECT_EQ(json::parse(out)["id"], "j1");
  EXPECT_EQ(cli({"hold", "--json", "j1"}), 0);
  EXPECT_EQ(json::parse(out)["id"], "j1");
  start(JobId{1}), finish(JobId{1}, 3);
  EXPECT_EQ(cli({"wait", "--json", "j1"}), 3);
  EXPECT_EQ(json::parse(out)["exit_code"], 3);
  control.on_submit([&](JobId id) { start(id), finish(id, 4); });
  EXPECT_EQ(cli({"run", "--json", "--", "x"}), 4);
  json last;
  std::istringstream lines(err);
  for (std::string line; std::getline(lines, line);) {
    last = json::parse(line, nullptr, false);
    ASSERT_TRUE(last.is_object()) << line;
  }
  EXPECT_EQ(last["exit_code"], 4) << "dlrun's own lines are JSON on stderr, the last is the end";
}

TEST_F(Cli, EventsAreShownToTheLastAlsoWhenOneAnswerDoesNotHoldThemAll) {
  control.add(test::running_job());
  for (int i = 1; i <= 2500; ++i) control.event(JobId{1}, "note", fmt::format("number {}", i));
  EXPECT_EQ(cli({"events"}), 0);
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 2500);
  EXPECT_THAT(out, HasSubstr("note number 2500\n"));
  EXPECT_EQ(cli({"events", "--json", "--job", "j1", "--after", "600"}), 0);
  const json all = json::parse(out, nullptr, false);
  ASSERT_TRUE(all.is_object());
  EXPECT_EQ(all["events"].size(), 1900u);
  EXPECT_EQ(all["last"], 2500);
  EXPECT_EQ(cli({"events", "--json", "--after", "2500"}), 0);
  EXPECT_TRUE(json::parse(out)["events"].empty());
}

TEST_F(Cli, LogsOfARoleOrRankThatIsNotThereAreRefused) {
  control.add(test::running_job(2));
  EXPECT_EQ(cli({"logs", "-f", "--role", "wroker", "j1"}), 1);
  EXPECT_THAT(err, HasSubstr("j1 has no role 'wroker'; did you mean 'worker'?"));
  EXPECT_EQ(cli({"logs", "--rank", "2", "j1"}), 1);
  EXPECT_THAT(err, HasSubstr("j1 has no rank 2"));
  EXPECT_EQ(cli({"logs", "--role", "worker", "--rank", "1", "j1"}), 0);
}

TEST_F(Cli, LogsAreExactIntoAPipeAndHarmlessOnATerminal) {
  const JobId id = control.add(test::running_job());
  const std::string bytes("a\x1b[2Jb\xFF\0\r\n", 10);
  logs.append(ref(id), bytes);
  EXPECT_EQ(cli({"logs", "j1"}), 0);
  EXPECT_EQ(out, bytes);
  world.out_tty = world.err_tty = true;
  EXPECT_EQ(cli({"logs", "j1"}), 0);
  EXPECT_EQ(out, "a\\x1b[2Jb\\xff\\x00\r\n");
  EXPECT_EQ(cli({"logs", "--raw", "j1"}), 0);
  EXPECT_EQ(out, bytes);
  EXPECT_EQ(cli({"logs", "--tail", "2", "j1"}), 0);
  EXPECT_EQ(out, "\r\n");
  EXPECT_EQ(cli({"logs", "--stderr", "j1"}), 0);
  EXPECT_EQ(out, "");
  EXPECT_EQ(cli({"logs", "--json", "j1"}), 0);
  const json piece = json::parse(out);
  EXPECT_EQ(piece["role"], "worker");
  EXPECT_EQ(piece["bytes"], "YRtbMkpi/wANCg==");
  EXPECT_EQ(cli({"logs", "j5"}), 1);
}

TEST_F(Cli, LogsFollowsUntilTheJobIsOver) {
  const JobId id = control.add(test::running_job(2));
  std::thread writer([&] {
    for (int i = 0; i < 20; ++i) logs.append(ref(id, i % 2), fmt::format("line {}\n", i));
    finish(id, 3);
  });
  EXPECT_EQ(cli({"logs", "-f", "j1"}), 0) << "logs shows, it does not judge";
  writer.join();
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 20);
  EXPECT_THAT(out, HasSubstr("[worker 1] line 19\n"));
  EXPECT_EQ(cli({"logs", "--rank", "1", "j1"}), 0);
  EXPECT_THAT(out, testing::StartsWith("line 1\n"));
}

TEST(IsLauncherCommand, LeavesTheDaemonsToOthers) {
  EXPECT_TRUE(is_launcher_command("run"));
  EXPECT_TRUE(is_launcher_command("local-guardian"));
  EXPECT_FALSE(is_launcher_command("coordinator"));
  EXPECT_FALSE(is_launcher_command("agent"));
}

TEST(PortRange, NodesOfAClusterNeverShareAPortAndStayOutOfTheEphemeralRange) {
  for (const std::uint32_t nodes : {1u, 2u, 8u, 64u, 256u}) {
    std::vector<bool> used(65536, false);
    for (std::uint32_t i = 0; i < nodes; ++i) {
      const auto [first, last] = port_range("/home/me/.dlrun/local", i, nodes);
      EXPECT_GE(first, 10240);
      EXPECT_LT(last, 32000);
      EXPECT_GE(last - first, 15);
      for (std::uint32_t port = first; port <= last; ++port) {
        EXPECT_FALSE(used[port]);
        used[port] = true;
      }
    }
  }
}

}  // namespace
}  // namespace dlrun::launcher
