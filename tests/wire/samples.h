#pragma once
/// tests/wire/samples.h: one fully filled value of each message and event, every field different
/// from its default.

#include <vector>

#include "runtime/cluster/core/event.h"

namespace dlrun::wire_test {

using namespace cluster;

inline const std::string kBytes("a=b|c\n\0\xff\xc3", 9);
inline const TaskId kTask{JobId(12), "worker", 3, Generation(2)};
inline const TaskId kShard{JobId(12), "ps", 1, Generation(2)};
inline const Epoch kEpoch{7, 41};

inline sched::Resources resources() { return {2500, std::int64_t{3} << 30, 2, 4}; }
inline sched::Slot slot() { return {NodeId("node-1"), {9000, 65535}, {"GPU-1", "GPU-2"}}; }
inline sched::NodeCapacity capacity() {
  return {NodeId("node-1"), 16000,       std::int64_t{64} << 30,
          {"GPU-1"},        {9000, 500}, {{"zone", "a"}, {"disk", ""}}};
}
inline io::InputSpec input() {
  io::InputSpec spec;
  spec.name = "train";
  spec.uris = {"/data/*.svm", kBytes};
  spec.format = io::Format::kCsv;
  spec.index_base = 1;
  spec.delimiter = '\t';
  spec.header = true;
  spec.label_column = -1;
  spec.batch_rows = 17;
  spec.passes = 5;
  spec.shuffle = false;
  spec.seed = ~0ull;
  spec.split_bytes = 12345;
  spec.on_bad_record = io::OnBadRecord::kSkip;
  spec.bad_records_max = 9;
  return spec;
}
inline TaskEnd task_end() {
  return {.cause = Cause::kOom,
          .code = -3,
          .signal = 9,
          .peak_bytes = 1ull << 40,
          .limit_bytes = 1ull << 39,
          .detail = kBytes};
}
inline JobSpec job_spec() {
  JobSpec spec;
  spec.name = "digits";
  spec.owner = "ada";
  spec.project = "vision";
  spec.priority = -5;
  RoleSpec role;
  role.name = "worker";
  role.kind = RoleKind::kService;
  role.program = RoleProgram::kShardHost;
  role.count_min = 2;
  role.count_max = 8;
  role.argv = {"python3", "", kBytes};
  role.env = {{"A", kBytes}, {"B", ""}};
  role.cwd = "/home/\xff";
  role.resources = resources();
  role.require = {{"zone", "a"}};
  role.after = {"ps"};
  spec.roles = {role, RoleSpec{}};
  spec.inputs = {input()};
  spec.restart = {3, {Cause::kOom, Cause::kNodeLost}};
  spec.time_limit = std::chrono::hours(2);
  spec.grace = std::chrono::seconds(11);
  spec.failure_grace = std::chrono::milliseconds(1500);
  spec.env_policy = EnvPolicy::kClean;
  spec.submit_env = {{"PATH", "/bin"}};
  spec.cwd = "/work dir";
  return spec;
}
/// What later versions added.
inline std::vector<OutputSpec> outputs() {
  return {{"model", "/out/\xff", "worker"}, {"b", "/c", "ps"}};
}
inline JobSpec job_spec_2() {
  JobSpec spec = job_spec();
  spec.roles[0].ready = ReadyWhen::kPort;
  spec.hold = true;
  spec.outputs = outputs();
  return spec;
}
inline JobSpec job_spec_3() {
  JobSpec spec = job_spec_2();
  spec.roles[0].time_limit = std::chrono::minutes(7);
  spec.roles[0].restart_on = {Cause::kExit, Cause::kTimeLimit};
  spec.roles[0].rlimits = {{"core", 0}, {"nofile", ~0ull}};
  spec.roles[1].restart_on.emplace();  // none at all, which is not the same as absent
  return spec;
}
inline TaskUpdate update() {
  return {.task = kTask,
          .epoch = kEpoch,
          .state = TaskState::kEnded,
          .end = task_end(),
          .ready = {"tcp://[::1]:5", kBytes},
          .pid = 4711};
}
inline ps::PsView ps_view() {
  ps::PsView view;
  view.map = ps::SlotMap::even(3, kEpoch);
  view.shards = {{ShardId(0), "tcp://10.0.0.1:5", "/run/x", NodeId("n0")},
                 {ShardId(1), "tcp://10.0.0.2:6", "", NodeId("n1")},
                 {}};
  view.token.fill(0xab);
  view.workers = 2;
  return view;
}
inline io::LeaseAnswer lease_answer() {
  return {io::LeaseState::kEndOfInput,
          {io::Split{.id = 5,
                     .pass = 1,
                     .uri = kBytes,
                     .etag = "e",
                     .begin = 1ull << 33,
                     .end = (1ull << 33) + 7}}};
}
inline io::LeaseAnswer begins() {
  io::LeaseAnswer answer{io::LeaseState::kGranted, {io::Split{.id = 5, .skip_rows = 1ull << 40}}};
  answer.start = {{{5, 2, 1, 0}}, 4, {{7, 2, 40, 6, 3}}};
  answer.steps = {3, 7, 9, 8, true, true};
  return answer;
}
inline JobView job_view() {
  JobView view;
  view.id = JobId(12);
  view.spec = job_spec();
  view.state = JobState::kLost;
  view.generation = Generation(2);
  view.epoch = kEpoch;
  view.submitted = {1};
  view.started = {2};
  view.ended = {3};
  view.progress = 0.35;
  view.progress_text = kBytes;
  view.end = task_end();
  view.first_failed = kTask;
  view.reason = "because";
  view.exit_code = 137;
  view.tasks = {TaskView{.task = kTask,
                         .node = NodeId("node-1"),
                         .state = TaskState::kEnded,
                         .end = task_end(),
                         .pid = 7,
                         .ports = {1, 2},
                         .progress = 1,
                         .started = {4},
                         .ended = {5}}};
  return view;
}

inline std::vector<TaskFile> task_files() {
  return {{"hosts.txt", kBytes, {"HOSTS", "ALSO_HOSTS"}}, {"b", "", {}}};
}
inline std::vector<ToAgent> to_agent() {
  PrepareTask prepare{.task = kTask,
                      .epoch = kEpoch,
                      .job_name = "digits",
                      .owner = "ada",
                      .program = RoleProgram::kShardHost};
  prepare.argv = {"python3", "", kBytes};
  prepare.env = {{"A", kBytes}};
  prepare.cwd = "/x";
  prepare.resources = resources();
  prepare.slot = slot();
  prepare.token.fill(0x5a);
  prepare.world = 8;
  prepare.inputs = {input()};
  prepare.time_limit = std::chrono::minutes(3);
  prepare.start_at_once = true;
  StartTask start{.task = kTask, .epoch = kEpoch, .env = {{"B", kBytes}}, .ps = ps_view()};
  PrepareTask elsewhere{.task = kTask, .epoch = kEpoch, .cwd = "/y", .cwd_required = true};
  StartTask start_plain{.task = kTask, .epoch = kEpoch};
  PrepareTask resumed{.task = kTask, .epoch = kEpoch, .commit_number = 4, .commit_tag = kBytes};
  PrepareTask patient{.task = kTask, .epoch = kEpoch, .grace = std::chrono::seconds(7)};
  PrepareTask with_files{.task = kTask, .epoch = kEpoch, .files = task_files()};
  StartTask start_with_files{.task = kTask, .epoch = kEpoch, .files = task_files()};
  PrepareTask prepare_2 = prepare;
  prepare_2.ready = ReadyWhen::kTold;
  prepare_2.outputs = outputs();
  PrepareTask limited = elsewhere;
  limited.rlimits = {{"nofile", 4096}, {"stack", ~0ull}};
  return {RegisterAck{3,
                      std::chrono::seconds(10),
                      std::chrono::seconds(1),
                      "tcp://c:1",
                      "key",
                      {kTask, kShard}},
          prepare,
          start,
          start_plain,
          StopTask{kTask, kEpoch, std::chrono::seconds(30), Cause::kSibling},
          WorkerGone{kShard, kTask, kEpoch},
          BarrierDone{kTask, kEpoch, kBytes, 4},
          LeaseReply{kTask, kEpoch, 99, Errc::kStaleEpoch, kBytes, lease_answer()},
          TaskEndAck{kTask, kEpoch},
          HeartbeatAck{3, 4, false},
          CommitOutputs{kTask, kEpoch, outputs()},
          prepare_2,
          elsewhere,
          limited,
          patient,
          resumed,
          CommitDone{kTask, kEpoch, 77, 5, Errc::kStaleEpoch, kBytes},
          LeaseReply{kTask, kEpoch, 9, {}, "", begins()},
          with_files,
          start_with_files};
}

inline io::InputCursor cursor() {
  return {"train", {{5, 9, 1, 1}}, true, 2, 40, {{7, 2, 40, 1ull << 33, 3}}};
}
inline io::LedgerState ledger_state() {
  return {"train", 3, 1ull << 40, 9, {{5, 1}}, {}, {{5, 2, 1, 0}}, ~0ull, 4, {{7, 2, 40, 6, 3}}};
}
inline JobSpec job_spec_4() {
  JobSpec spec = job_spec_3();
  io::InputSpec& input = spec.inputs[0];
  input.mode = io::Mode::kDeterministic;
  input.static_by = io::StaticBy::kBytes;
  input.lanes = 12;
  input.ends = io::Ends::kPad;
  input.skip_batches = 1ull << 33;
  input.take_batches = 17;
  input.weights = {3, ~0u};
  return spec;
}

inline JobSpec job_spec_5() {
  JobSpec spec = job_spec_4();
  spec.framework = "mxnet";
  spec.roles[0].end = EndRule::kQuorum;
  spec.roles[0].quorum = 3;
  spec.roles[0].linger = std::chrono::milliseconds(2500);
  spec.roles[1].end = EndRule::kTolerant;
  spec.roles[1].failures_permille = 300;
  spec.roles[1].linger = Duration(0);  // none at all, which is not the same as absent
  return spec;
}

inline std::vector<FromAgent> from_agent() {
  TaskUpdate warned = update();
  warned.warning = kBytes;
  return {Register{NodeId("node-1"),
                   Incarnation(77),
                   "10.0.0.9",
                   capacity(),
                   {update(), TaskUpdate{}},
                   "0.1.0"},
          Heartbeat{NodeId("node-1"), Incarnation(77), 5},
          update(),
          Progress{kTask, kEpoch, 0.35, kBytes},
          BarrierArrive{kTask, kEpoch, kBytes, 2},
          InputFiles{kTask, kEpoch, "train", {{kBytes, 1ull << 40, "etag"}, {}}, 3},
          LeaseSplits{kTask, kEpoch, "train", 4, 8, true, {{5, 1}}},
          WorkerGoneAck{kShard, kTask, kEpoch},
          OutputsCommitted{kTask, kEpoch, Errc::kAlreadyExists, kBytes},
          warned,
          LeaseSplits{kTask, kEpoch, "train", 0, 9, false, {}, {{5, 1}, {6, 1}}},
          OutputsCommitted{kTask, kEpoch, {}, "", true, 70'000},
          LeaseSplits{kTask, kEpoch, "train", 0, 9, false, {}, {}, {{3, 8, true}, {4, 9, false}}},
          CommitInputs{kTask, kEpoch, 77, kBytes, {cursor(), io::InputCursor{}}}};
}

inline std::vector<Event> events() {
  return {TermStarted{9},
          Baseline{8, JobId(100), 90, {{kBytes, JobId(3), 55}}},
          NodeJoined{NodeId("node-1"), Incarnation(77), "10.0.0.9", "0.1.0", capacity()},
          NodeStateChanged{NodeId("node-1"), Incarnation(77), NodeState::kFenced, kBytes},
          JobSubmitted{JobId(12), job_spec(), kBytes, ~0ull, {123}},
          JobPlaced{JobId(12), Generation(2), kEpoch, {{kTask, "10.0.0.9", slot()}}, {5}},
          JobStateChanged{
              JobId(12), Generation(2), JobState::kStopping, Cause::kTimeLimit, kBytes, {6}},
          TaskEnded{kTask, kEpoch, task_end(), {7}},
          JobKillRequested{JobId(12), kBytes, {8}},
          GenerationEnded{JobId(12), Generation(2), Cause::kNodeLost, kBytes, {9}},
          JobEnded{job_view()},
          InputFilesSet{JobId(12), Generation(2), "train", {{kBytes, 1ull << 40, "etag"}}},
          SplitsLeased{kTask, "train", 4, 8, true, {{5, 1}}},
          BarrierMet{JobId(12), Generation(2), "worker", kBytes, 3},
          JobHeld{JobId(12), true, kBytes, {10}},
          CommitGranted{JobId(12), Generation(2), {11}},
          JobSubmitted{JobId(12), job_spec_2(), kBytes, 1, {12}},
          SplitsLeased{kTask, "train", 0, 9, false, {}, {{5, 1}, {6, 1}}},
          TaskWarned{kTask, kEpoch, kBytes, {10}},
          JobSubmitted{JobId(12), job_spec_3(), kBytes, 1, {12}},
          JobSnapshot{JobId(12),
                      Generation(2),
                      {{"train", 3, 1ull << 40, 9, {{5, 1}}, {{kTask, {{6, 1}, {7, 3}}}}}},
                      {{kTask, "train", 8, io::LeaseState::kGranted, {{6, 1}}}},
                      {{"worker", kBytes, 3}}},
          InputsCommitted{
              JobId(12), Generation(2), "worker", 4, kBytes, {{3, 77}}, {ledger_state()}, {13}},
          JobSubmitted{JobId(12), job_spec_4(), kBytes, 1, {12}},
          JobSubmitted{JobId(12), job_spec_5(), kBytes, 1, {12}},
          TaskEnded{kTask, kEpoch, {.cause = Cause::kStopped}, {14}}};
}

}  // namespace dlrun::wire_test
