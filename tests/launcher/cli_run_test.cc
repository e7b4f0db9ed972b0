// `dlrun run`: the program's bytes, its exit code, what is said meanwhile, interrupts, an outage.
#include <algorithm>
#include <future>

#include "tests/launcher/cli_fixture.h"

namespace dlrun::launcher {
namespace {

TEST_F(Cli, RunGivesTheProgramsBytesAndItsExitCode) {
  std::string bytes("\r10%\r20%\n\0\xFF\xC3", 12);
  control.on_submit([&](JobId id) {
    start(id);
    logs.append(ref(id), bytes);
    logs.append(ref(id, 0, web::LogStream::kStderr), "warn\n");
    finish(id, 7);
  });
  EXPECT_EQ(cli({"run", "--", "python3", "train.py"}), 7);
  EXPECT_EQ(out, bytes);
  EXPECT_THAT(err, HasSubstr("warn\n"));
  EXPECT_THAT(err, HasSubstr("dlrun: j1 FAILED"));
  EXPECT_THAT(err, HasSubstr("worker/0 exited with 7"));
  const auto submitted = control.submitted();
  ASSERT_EQ(submitted.size(), 1u);
  EXPECT_EQ(submitted[0].owner, "me");
  EXPECT_EQ(submitted[0].roles[0].argv, (std::vector<std::string>{"python3", "train.py"}));
  EXPECT_EQ(submitted[0].submit_env, (cluster::EnvList{{"PATH", "/bin"}}));
}

TEST_F(Cli, RunPrefixesSeveralRanksAndIsSilentWhenAsked) {
  control.on_submit([&](JobId id) {
    start(id);
    logs.append(ref(id, 0), "zero\n");
    logs.append(ref(id, 1), "one");
    finish(id, 0);
  });
  EXPECT_EQ(cli({"run", "-q", "-n", "2", "--", "x"}), 0);
  EXPECT_THAT(out, HasSubstr("[worker 0] zero\n"));
  EXPECT_THAT(out, HasSubstr("[worker 1] one\n"));
  EXPECT_EQ(err, "");
}

TEST_F(Cli, AQuietRunSaysOnlyWhyTheJobFailed) {
  control.on_submit([&](JobId id) {
    start(id);
    finish(id, 7);
  });
  EXPECT_EQ(cli({"run", "-q", "--", "x"}), 7);
  EXPECT_THAT(err, testing::StartsWith("dlrun: j1 FAILED after 1.0s: "));
  EXPECT_THAT(err, HasSubstr("worker/0 exited with 7"));
  EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1);
}

TEST_F(Cli, RunTellsEachStateOnceAndProgressInPlainLines) {
  std::thread life;
  control.on_submit([&, before = control.calls()](JobId id) {
    life = std::thread([this, id, before] {
      start(id);
      EXPECT_TRUE(eventually([&] { return said().find("RUNNING") != std::string::npos; }));
      // The submit, a look, and what the streams of the job and of its logs look at first.
      EXPECT_TRUE(asked(before, 5));
      for (int i = 1; i <= 3; ++i)
        control.update(id, [&](auto& view) {
          view.progress = i * 0.3;
          view.progress_text = "epoch " + std::to_string(i);
        });
      finish(id, 0);
    });
  });
  EXPECT_EQ(cli({"run", "--", "x"}), 0);
  life.join();
  EXPECT_THAT(err, HasSubstr("dlrun: j1 RUNNING: worker on node-0\n"));
  EXPECT_THAT(err, HasSubstr("dlrun: 90 % epoch 3\n"));
  EXPECT_THAT(err, HasSubstr("dlrun: j1 SUCCEEDED after 1.0s\n"));
  EXPECT_EQ(err.find('\x1b'), std::string::npos);
  EXPECT_EQ(err.find("RUNNING"), err.rfind("RUNNING"));
}

TEST_F(Cli, FirstCtrlCAsksAndTheSecondKills) {
  control.on_submit([&](JobId id) { start(id); });
  a_kill_ends_the_job();
  world.interrupt_fd = interrupt[0];
  std::thread user([&] {
    EXPECT_TRUE(eventually([&] { return !control.submitted().empty(); }));
    ASSERT_EQ(::write(interrupt[1], "I", 1), 1);
    EXPECT_TRUE(eventually([&] { return said().find("Ctrl-C again") != std::string::npos; }));
    EXPECT_THAT(control.kill_reasons(), IsEmpty()) << "the first one only asks";
    ASSERT_EQ(::write(interrupt[1], "I", 1), 1);
  });
  EXPECT_EQ(cli({"run", "--", "x"}), 130);
  user.join();
  EXPECT_THAT(control.kill_reasons(), ElementsAre("Ctrl-C in dlrun run"));
  EXPECT_THAT(err, HasSubstr("Ctrl-C again to kill the job j1"));
}

TEST_F(Cli, ATermKillsWithoutAskingAndIsCalledByItsName) {
  a_kill_ends_the_job();
  world.interrupt_fd = interrupt[0];
  control.on_submit([&](JobId id) {
    start(id);
    EXPECT_EQ(::write(interrupt[1], "T", 1), 1);
  });
  EXPECT_EQ(cli({"run", "--", "x"}), 130);
  EXPECT_THAT(err, HasSubstr("dlrun: SIGTERM: killing j1"));
  EXPECT_THAT(err, Not(HasSubstr("Ctrl-C")));
  control.on_submit([&](JobId id) {
    start(id);
    EXPECT_EQ(::write(interrupt[1], "IH", 2), 2);  // asked, then the terminal is closed
  });
  EXPECT_EQ(cli({"run", "--", "x"}), 130);
  EXPECT_THAT(control.kill_reasons(),
              ElementsAre("SIGTERM in dlrun run", "SIGHUP (its terminal is gone) in dlrun run"));
}

TEST_F(Cli, RunSurvivesAServerThatGoesAndComesBackElsewhere) {
  control.on_submit([&](JobId id) {
    start(id);
    logs.append(ref(id), "before\n");
  });
  std::thread outage([&] {
    EXPECT_TRUE(eventually([&] { return !control.submitted().empty(); }));
    EXPECT_TRUE(eventually([&] { return printed() == "before\n"; }));
    server->stop();  // its streams are cut here
    logs.append(ref(JobId{1}), "after\n");
    serve({});
    write("cluster.json", json{{"rest", server->url()}, {"token_file", "token"}}.dump());
    finish(JobId{1}, 0);
  });
  EXPECT_EQ(cli({"run", "--", "x"}), 0);
  outage.join();
  EXPECT_EQ(out, "before\nafter\n") << "nothing lost, nothing twice";
}

TEST_F(Cli, SaysWhyAJobWaits) {
  std::promise<void> asked;
  control.intercept([&](const cluster::ApiCall& call) -> std::optional<Result<cluster::ApiReply>> {
    if (std::holds_alternative<cluster::WhyJob>(call)) asked.set_value();
    return std::nullopt;
  });
  std::thread scheduler([&, answered = asked.get_future()] {
    ASSERT_EQ(answered.wait_for(20s), std::future_status::ready) << "nobody asked why it waits";
    start(JobId{1});
    finish(JobId{1}, 0);
  });
  EXPECT_EQ(cli({"run", "--", "x"}), 0);
  scheduler.join();
  EXPECT_THAT(err, HasSubstr("j1 waits: waits for memory"));
  EXPECT_THAT(err, HasSubstr("memory: 2 of 3 nodes: worker/0 needs 64 GiB"));
}

TEST_F(Cli, ThePrograms_OwnFlagsAreNeverOurs) {
  control.on_submit([&](JobId id) { start(id), finish(id, 0); });
  EXPECT_EQ(cli({"run", "-q", "--", "prog", "--json", "-n", "9", "--", "", "--help"}), 0);
  EXPECT_EQ(control.submitted()[0].roles[0].argv,
            (std::vector<std::string>{"prog", "--json", "-n", "9", "--", "", "--help"}));
}

TEST_F(Cli, OurOwnLinesNeverCutAProgressBarOfTheProgram) {
  world.out_tty = world.err_tty = true;
  std::thread program;
  control.on_submit([&](JobId id) {
    logs.append(ref(id), "\r10%");
    program = std::thread([&, id] {
      EXPECT_TRUE(eventually([&] { return printed().find("10%") != std::string::npos; }));
      const std::size_t before = control.calls();
      start(id);  // RUNNING is known while the bar stands
      EXPECT_TRUE(asked(before, 2));
      logs.append(ref(id), "\r20%\n");
      EXPECT_TRUE(eventually([&] { return printed().find("20%") != std::string::npos; }));
      finish(id, 0);
    });
    control.touch(id, [](auto& view) { view.state = cluster::JobState::kStarting; });
  });
  const int both = ::memfd_create("both", MFD_CLOEXEC);
  world.out_fd = world.err_fd = both;
  EXPECT_EQ(run_cli({"run", "--", "train"}, world), 0);
  program.join();
  const std::string text = slurp(both);
  EXPECT_THAT(text, HasSubstr("\r10%\r20%\n")) << text;
  EXPECT_THAT(text, HasSubstr("RUNNING")) << "told when the line was over";
}

}  // namespace
}  // namespace dlrun::launcher
