#include "runtime/wire/job_codec.h"

namespace dlrun::wire {

using namespace cluster;

Result<Cause> get_cause(std::uint8_t value) { return get_enum(value, Cause::kStopped, "cause"); }
Result<JobState> get_job_state(std::uint8_t value) {
  return get_enum(value, JobState::kPreempted, "job state");
}

void put(capnp::List<schema::Label>::Builder to, const sched::Labels& from) {
  unsigned i = 0;
  for (const auto& [key, value] : from) {
    to[i].setKey(key);
    to[i++].setValue(value);
  }
}

sched::Labels get(capnp::List<schema::Label>::Reader from) {
  sched::Labels labels;
  for (const auto label : from) labels[to_string(label.getKey())] = to_string(label.getValue());
  return labels;
}

void put(capnp::List<schema::Rlimit>::Builder to, const Rlimits& from) {
  unsigned i = 0;
  for (const auto& [name, value] : from) {
    to[i].setName(name);
    to[i++].setValue(value);
  }
}

Rlimits get(capnp::List<schema::Rlimit>::Reader from) {
  Rlimits limits;
  for (const auto limit : from) limits[to_string(limit.getName())] = limit.getValue();
  return limits;
}

void put(capnp::List<std::uint16_t>::Builder to, const std::vector<std::uint16_t>& from) {
  for (unsigned i = 0; i < from.size(); ++i) to.set(i, from[i]);
}

std::vector<std::uint16_t> get(capnp::List<std::uint16_t>::Reader from) {
  std::vector<std::uint16_t> out;
  for (const std::uint16_t value : from) out.push_back(value);
  return out;
}

void put(schema::Resources::Builder to, const sched::Resources& from) {
  to.setCpuMilli(from.cpu_milli);
  to.setMemoryBytes(from.memory_bytes);
  to.setGpus(from.gpus);
  to.setPorts(from.ports);
}

sched::Resources get(schema::Resources::Reader from) {
  return {from.getCpuMilli(), from.getMemoryBytes(), from.getGpus(), from.getPorts()};
}

void put(schema::PlacedSlot::Builder to, const sched::Slot& from) {
  to.setNode(from.node.value);
  put(to.initPorts(from.ports.size()), from.ports);
  put(to.initGpuUuids(from.gpu_uuids.size()), from.gpu_uuids);
}

sched::Slot get(schema::PlacedSlot::Reader from) {
  return {NodeId(to_string(from.getNode())), get(from.getPorts()), get(from.getGpuUuids())};
}

void put(schema::NodeCapacity::Builder to, const sched::NodeCapacity& from) {
  to.setNode(from.node.value);
  to.setCpuMilli(from.cpu_milli);
  to.setMemoryBytes(from.memory_bytes);
  put(to.initGpuUuids(from.gpu_uuids.size()), from.gpu_uuids);
  to.setPortFirst(from.ports.first);
  to.setPortCount(from.ports.count);
  put(to.initLabels(from.labels.size()), from.labels);
}

sched::NodeCapacity get(schema::NodeCapacity::Reader from) {
  return {NodeId(to_string(from.getNode())),
          from.getCpuMilli(),
          from.getMemoryBytes(),
          get(from.getGpuUuids()),
          {from.getPortFirst(), from.getPortCount()},
          get(from.getLabels())};
}

namespace {

void put(capnp::List<std::uint8_t>::Builder to, const std::vector<Cause>& from) {
  for (unsigned i = 0; i < from.size(); ++i) to.set(i, static_cast<std::uint8_t>(from[i]));
}

Result<std::vector<Cause>> get_causes(capnp::List<std::uint8_t>::Reader from) {
  std::vector<Cause> causes;
  for (const auto cause : from) {
    DLRUN_ASSIGN(causes.emplace_back(), get_cause(cause));
  }
  return causes;
}

void put(schema::RoleSpec::Builder to, const RoleSpec& from) {
  to.setName(from.name);
  to.setKind(static_cast<std::uint8_t>(from.kind));
  to.setProgram(static_cast<std::uint8_t>(from.program));
  to.setCountMin(from.count_min);
  to.setCountMax(from.count_max);
  wire::put(to.initArgv(from.argv.size()), from.argv);
  wire::put(to.initEnv(from.env.size()), from.env);
  to.setCwd(data_of(from.cwd));
  wire::put(to.initResources(), from.resources);
  wire::put(to.initRequire(from.require.size()), from.require);
  wire::put(to.initAfter(from.after.size()), from.after);
  to.setReady(static_cast<std::uint8_t>(from.ready));
  to.setTimeLimitNs(from.time_limit.count());
  wire::put(to.initRlimits(from.rlimits.size()), from.rlimits);
  if (from.restart_on) put(to.initRestartOn(from.restart_on->size()), *from.restart_on);
  to.setEnd(static_cast<std::uint8_t>(from.end));
  to.setQuorum(from.quorum);
  to.setFailuresPermille(from.failures_permille);
  if (from.linger) to.setLingerNs(from.linger->count());
}

Result<RoleSpec> get(schema::RoleSpec::Reader from) {
  RoleSpec role;
  role.name = to_string(from.getName());
  DLRUN_ASSIGN(role.kind, get_enum(from.getKind(), RoleKind::kService, "role kind"));
  DLRUN_ASSIGN(role.program, get_enum(from.getProgram(), RoleProgram::kShardHost, "role program"));
  role.count_min = from.getCountMin();
  role.count_max = from.getCountMax();
  role.argv = wire::get(from.getArgv());
  role.env = wire::get(from.getEnv());
  role.cwd = to_string(from.getCwd());
  role.resources = wire::get(from.getResources());
  role.require = wire::get(from.getRequire());
  role.after = wire::get(from.getAfter());
  DLRUN_ASSIGN(role.ready, get_enum(from.getReady(), ReadyWhen::kPort, "readiness"));
  role.time_limit = Duration(from.getTimeLimitNs());
  role.rlimits = wire::get(from.getRlimits());
  if (from.hasRestartOn()) {
    DLRUN_ASSIGN(role.restart_on, get_causes(from.getRestartOn()));
  }
  DLRUN_ASSIGN(role.end, get_enum(from.getEnd(), EndRule::kOutlives, "end rule"));
  role.quorum = from.getQuorum();
  role.failures_permille = from.getFailuresPermille();
  if (from.getLingerNs() >= 0) role.linger = Duration(from.getLingerNs());
  return role;
}

void put(schema::TaskView::Builder to, const TaskView& from) {
  wire::put(to.initTask(), from.task);
  to.setNode(from.node.value);
  to.setState(static_cast<std::uint8_t>(from.state));
  wire::put(to.initEnd(), from.end);
  to.setPid(from.pid);
  wire::put(to.initPorts(from.ports.size()), from.ports);
  to.setProgress(from.progress);
  to.setStartedNs(from.started.ns);
  to.setEndedNs(from.ended.ns);
}

Result<TaskView> get(schema::TaskView::Reader from) {
  TaskView view;
  DLRUN_ASSIGN(view.task, wire::get(from.getTask()));
  view.node = NodeId(to_string(from.getNode()));
  DLRUN_ASSIGN(view.state, get_enum(from.getState(), TaskState::kEnded, "task state"));
  DLRUN_ASSIGN(view.end, wire::get(from.getEnd()));
  view.pid = from.getPid();
  view.ports = wire::get(from.getPorts());
  view.progress = from.getProgress();
  view.started.ns = from.getStartedNs();
  view.ended.ns = from.getEndedNs();
  return view;
}

}  // namespace

void put(capnp::List<schema::OutputSpec>::Builder to, const std::vector<OutputSpec>& from) {
  for (unsigned i = 0; i < from.size(); ++i) {
    to[i].setName(from[i].name);
    to[i].setPath(data_of(from[i].path));
    to[i].setRole(from[i].role);
  }
}

std::vector<OutputSpec> get(capnp::List<schema::OutputSpec>::Reader from) {
  std::vector<OutputSpec> outputs;
  for (const auto output : from)
    outputs.push_back(
        {to_string(output.getName()), to_string(output.getPath()), to_string(output.getRole())});
  return outputs;
}

void put(schema::JobSpec::Builder to, const JobSpec& from) {
  to.setName(from.name);
  to.setOwner(from.owner);
  to.setProject(from.project);
  to.setPriority(from.priority);
  auto roles = to.initRoles(from.roles.size());
  for (unsigned i = 0; i < from.roles.size(); ++i) put(roles[i], from.roles[i]);
  put(to.initInputs(from.inputs.size()), from.inputs);
  to.setRestartsMax(from.restart.restarts_max);
  put(to.initRestartOn(from.restart.on.size()), from.restart.on);
  to.setTimeLimitNs(from.time_limit.count());
  to.setGraceNs(from.grace.count());
  to.setFailureGraceNs(from.failure_grace.count());
  to.setEnvPolicy(static_cast<std::uint8_t>(from.env_policy));
  put(to.initSubmitEnv(from.submit_env.size()), from.submit_env);
  to.setCwd(data_of(from.cwd));
  to.setHold(from.hold);
  put(to.initOutputs(from.outputs.size()), from.outputs);
  if (!from.framework.empty()) to.setFramework(from.framework);
}

Result<JobSpec> get(schema::JobSpec::Reader from) {
  JobSpec spec;
  spec.name = to_string(from.getName());
  spec.owner = to_string(from.getOwner());
  spec.project = to_string(from.getProject());
  spec.priority = from.getPriority();
  for (const auto role : from.getRoles()) {
    DLRUN_ASSIGN(spec.roles.emplace_back(), get(role));
  }
  DLRUN_ASSIGN(spec.inputs, get(from.getInputs()));
  spec.restart.restarts_max = from.getRestartsMax();
  DLRUN_ASSIGN(spec.restart.on, get_causes(from.getRestartOn()));
  spec.time_limit = Duration(from.getTimeLimitNs());
  spec.grace = Duration(from.getGraceNs());
  spec.failure_grace = Duration(from.getFailureGraceNs());
  DLRUN_ASSIGN(spec.env_policy,
               get_enum(from.getEnvPolicy(), EnvPolicy::kInherit, "environment policy"));
  spec.submit_env = get(from.getSubmitEnv());
  spec.hold = from.getHold();
  spec.outputs = get(from.getOutputs());
  spec.cwd = to_string(from.getCwd());
  spec.framework = to_string(from.getFramework());
  return spec;
}

void put(schema::TaskEnd::Builder to, const TaskEnd& from) {
  to.setCause(static_cast<std::uint8_t>(from.cause));
  to.setCode(from.code);
  to.setSignal(from.signal);
  to.setPeakBytes(from.peak_bytes);
  to.setLimitBytes(from.limit_bytes);
  to.setDetail(data_of(from.detail));
}

Result<TaskEnd> get(schema::TaskEnd::Reader from) {
  TaskEnd end;
  DLRUN_ASSIGN(end.cause, get_cause(from.getCause()));
  end.code = from.getCode();
  end.signal = from.getSignal();
  end.peak_bytes = from.getPeakBytes();
  end.limit_bytes = from.getLimitBytes();
  end.detail = to_string(from.getDetail());
  return end;
}

void put(schema::JobView::Builder to, const JobView& from) {
  to.setId(from.id.value);
  put(to.initSpec(), from.spec);
  to.setState(static_cast<std::uint8_t>(from.state));
  to.setGeneration(from.generation.value);
  put(to.initEpoch(), from.epoch);
  to.setSubmittedNs(from.submitted.ns);
  to.setStartedNs(from.started.ns);
  to.setEndedNs(from.ended.ns);
  to.setProgress(from.progress);
  to.setProgressText(data_of(from.progress_text));
  put(to.initEnd(), from.end);
  if (from.first_failed) put(to.initFirstFailed(), *from.first_failed);
  to.setReason(data_of(from.reason));
  to.setExitCode(from.exit_code);
  auto tasks = to.initTasks(from.tasks.size());
  for (unsigned i = 0; i < from.tasks.size(); ++i) put(tasks[i], from.tasks[i]);
}

Result<JobView> get(schema::JobView::Reader from) {
  JobView view;
  view.id = JobId(from.getId());
  DLRUN_ASSIGN(view.spec, get(from.getSpec()));
  DLRUN_ASSIGN(view.state, get_job_state(from.getState()));
  view.generation = Generation(from.getGeneration());
  view.epoch = get(from.getEpoch());
  view.submitted.ns = from.getSubmittedNs();
  view.started.ns = from.getStartedNs();
  view.ended.ns = from.getEndedNs();
  view.progress = from.getProgress();
  view.progress_text = to_string(from.getProgressText());
  DLRUN_ASSIGN(view.end, get(from.getEnd()));
  if (from.hasFirstFailed()) {
    DLRUN_ASSIGN(view.first_failed, get(from.getFirstFailed()));
  }
  view.reason = to_string(from.getReason());
  view.exit_code = from.getExitCode();
  for (const auto task : from.getTasks()) {
    DLRUN_ASSIGN(view.tasks.emplace_back(), get(task));
  }
  return view;
}

}  // namespace dlrun::wire
