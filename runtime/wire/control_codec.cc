#include "runtime/wire/control_codec.h"

#include "runtime/wire/control.capnp.h"
#include "runtime/wire/job_codec.h"

namespace dlrun::wire {

using namespace cluster;

namespace {

void put(schema::TaskUpdate::Builder to, const TaskUpdate& from) {
  wire::put(to.initTask(), from.task);
  wire::put(to.initEpoch(), from.epoch);
  to.setState(static_cast<std::uint8_t>(from.state));
  wire::put(to.initEnd(), from.end);
  to.initReady().setTcp(from.ready.tcp);
  to.getReady().setIpc(data_of(from.ready.ipc));
  to.setPid(from.pid);
  to.setWarning(data_of(from.warning));
}

Result<TaskUpdate> get(schema::TaskUpdate::Reader from) {
  TaskUpdate update;
  DLRUN_ASSIGN(update.task, wire::get(from.getTask()));
  update.epoch = wire::get(from.getEpoch());
  DLRUN_ASSIGN(update.state, get_enum(from.getState(), TaskState::kEnded, "task state"));
  DLRUN_ASSIGN(update.end, wire::get(from.getEnd()));
  update.ready.tcp = to_string(from.getReady().getTcp());
  update.ready.ipc = to_string(from.getReady().getIpc());
  update.pid = from.getPid();
  update.warning = to_string(from.getWarning());
  return update;
}

void put(capnp::List<schema::TaskFile>::Builder to, const std::vector<TaskFile>& from) {
  for (unsigned i = 0; i < from.size(); ++i) {
    to[i].setName(data_of(from[i].name));
    to[i].setBytes(data_of(from[i].bytes));
    wire::put(to[i].initVariables(from[i].variables.size()), from[i].variables);
  }
}

std::vector<TaskFile> get(capnp::List<schema::TaskFile>::Reader from) {
  std::vector<TaskFile> files;
  for (const auto file : from)
    files.push_back(
        {to_string(file.getName()), to_string(file.getBytes()), wire::get(file.getVariables())});
  return files;
}

/// One overload per message: fills the union member. The caller has set task and epoch.
struct PutToAgent {
  schema::ToAgent::Builder to;

  void operator()(const RegisterAck& m) {
    auto b = to.initRegisterAck();
    b.setTerm(m.term);
    b.setLeaseNs(m.lease.count());
    b.setHeartbeatNs(m.heartbeat.count());
    b.setLogEndpoint(m.log_endpoint);
    b.setLogKey(m.log_key);
    b.setFloorTerm(m.epoch_floor.term);
    b.setFloorCounter(m.epoch_floor.counter);
    b.setSequence(m.sequence);
    auto tasks = b.initUnknownTasks(m.unknown_tasks.size());
    for (unsigned i = 0; i < m.unknown_tasks.size(); ++i) wire::put(tasks[i], m.unknown_tasks[i]);
  }
  void operator()(const PrepareTask& m) {
    auto b = to.initPrepareTask();
    b.setJobName(m.job_name);
    b.setOwner(m.owner);
    b.setProgram(static_cast<std::uint8_t>(m.program));
    wire::put(b.initArgv(m.argv.size()), m.argv);
    wire::put(b.initEnv(m.env.size()), m.env);
    b.setCwd(data_of(m.cwd));
    wire::put(b.initResources(), m.resources);
    wire::put(b.initSlot(), m.slot);
    b.setToken(token_data(m.token));
    b.setWorld(m.world);
    wire::put(b.initInputs(m.inputs.size()), m.inputs);
    b.setTimeLimitNs(m.time_limit.count());
    b.setStartAtOnce(m.start_at_once);
    b.setReady(static_cast<std::uint8_t>(m.ready));
    wire::put(b.initOutputs(m.outputs.size()), m.outputs);
    b.setCwdRequired(m.cwd_required);
    wire::put(b.initRlimits(m.rlimits.size()), m.rlimits);
    b.setGraceNs(m.grace.count());
    b.setCommitNumber(m.commit_number);
    b.setCommitTag(data_of(m.commit_tag));
    if (!m.files.empty()) put(b.initFiles(m.files.size()), m.files);
  }
  void operator()(const StartTask& m) {
    auto b = to.initStartTask();
    wire::put(b.initEnv(m.env.size()), m.env);
    if (!m.files.empty()) put(b.initFiles(m.files.size()), m.files);
    if (!m.ps.map.owner.empty()) wire::put(b.initPs(), m.ps);
  }
  void operator()(const StopTask& m) {
    auto b = to.initStopTask();
    b.setGraceNs(m.grace.count());
    b.setCause(static_cast<std::uint8_t>(m.cause));
  }
  void operator()(const WorkerGone& m) { wire::put(to.initWorkerGone(), m.worker); }
  void operator()(const BarrierDone& m) {
    auto b = to.initBarrierDone();
    b.setName(data_of(m.name));
    b.setRound(m.round);
  }
  void operator()(const LeaseReply& m) {
    auto b = to.initLeaseReply();
    b.setRequest(m.request);
    b.setError(static_cast<std::int32_t>(m.error));
    b.setErrorContext(data_of(m.error_context));
    wire::put(b.initAnswer(), m.answer);
  }
  void operator()(const TaskEndAck&) { to.setTaskEndAck(); }
  void operator()(const HeartbeatAck& m) {
    auto b = to.initHeartbeatAck();
    b.setTerm(m.term);
    b.setSequence(m.sequence);
    b.setKnown(m.known);
  }
  void operator()(const CommitDone& m) {
    auto b = to.initCommitDone();
    b.setId(m.id);
    b.setNumber(m.number);
    b.setError(static_cast<std::int32_t>(m.error));
    b.setErrorContext(data_of(m.error_context));
  }
  void operator()(const CommitOutputs& m) {
    wire::put(to.initCommitOutputs(m.outputs.size()), m.outputs);
  }
};

struct PutFromAgent {
  schema::FromAgent::Builder to;

  void operator()(const Register& m) {
    auto b = to.initRegister();
    b.setNode(m.node.value);
    b.setIncarnation(m.incarnation.value);
    b.setAddress(m.address);
    wire::put(b.initCapacity(), m.capacity);
    auto tasks = b.initTasks(m.tasks.size());
    for (unsigned i = 0; i < m.tasks.size(); ++i) put(tasks[i], m.tasks[i]);
    b.setVersion(m.version);
    b.setSequence(m.sequence);
  }
  void operator()(const Heartbeat& m) {
    auto b = to.initHeartbeat();
    b.setNode(m.node.value);
    b.setIncarnation(m.incarnation.value);
    b.setSequence(m.sequence);
  }
  void operator()(const TaskUpdate& m) { put(to.initTaskUpdate(), m); }
  void operator()(const Progress& m) {
    auto b = to.initProgress();
    b.setFraction(m.fraction);
    b.setText(data_of(m.text));
  }
  void operator()(const BarrierArrive& m) {
    auto b = to.initBarrierArrive();
    b.setName(data_of(m.name));
    b.setRound(m.round);
  }
  void operator()(const InputFiles& m) {
    auto b = to.initInputFiles();
    b.setInput(m.input);
    wire::put(b.initFiles(m.files.size()), m.files);
    b.setRequest(m.request);
  }
  void operator()(const LeaseSplits& m) {
    auto b = to.initLeaseSplits();
    b.setInput(m.input);
    b.setSplitsMax(m.splits_max);
    b.setRequest(m.request);
    b.setResync(m.resync);
    wire::put(b.initHeld(m.held.size()), m.held);
    wire::put(b.initDone(m.done.size()), m.done);
    wire::put(b.initSteps(m.steps.size()), m.steps);
  }
  void operator()(const CommitInputs& m) {
    auto b = to.initCommitInputs();
    b.setId(m.id);
    b.setTag(data_of(m.tag));
    wire::put(b.initInputs(m.inputs.size()), m.inputs);
  }
  void operator()(const WorkerGoneAck& m) { wire::put(to.initWorkerGoneAck(), m.worker); }
  void operator()(const OutputsCommitted& m) {
    auto b = to.initOutputsCommitted();
    b.setError(static_cast<std::int32_t>(m.error));
    b.setErrorContext(data_of(m.error_context));
    b.setUnderWay(m.under_way);
    b.setProgress(m.progress);
  }
};

/// The task that a message is about; null for those about a node.
template <class M>
const TaskId* subject(const M& m) {
  if constexpr (requires { m.shard_task; })
    return &m.shard_task;
  else if constexpr (requires { m.task; })
    return &m.task;
  else
    return nullptr;
}

template <class Root, class Put, class Message>
std::string encode_as(const Message& message) {
  capnp::MallocMessageBuilder builder;
  auto root = builder.initRoot<Root>();
  std::visit(
      [&](const auto& m) {
        if (const TaskId* task = subject(m)) wire::put(root.initTask(), *task);
        if constexpr (requires { m.epoch; }) wire::put(root.initEpoch(), m.epoch);
        Put{root}(m);
      },
      message);
  return to_bytes(builder);
}

using schema_to = schema::ToAgent;
using schema_from = schema::FromAgent;

Result<ToAgent> get(schema_to::Reader from) {
  DLRUN_ASSIGN(const TaskId task, wire::get(from.getTask()));
  const Epoch epoch = wire::get(from.getEpoch());
  switch (from.which()) {
    case schema_to::REGISTER_ACK: {
      const auto r = from.getRegisterAck();
      RegisterAck m{r.getTerm(),
                    Duration(r.getLeaseNs()),
                    Duration(r.getHeartbeatNs()),
                    to_string(r.getLogEndpoint()),
                    to_string(r.getLogKey()),
                    {}};
      m.epoch_floor = Epoch{r.getFloorTerm(), r.getFloorCounter()};
      m.sequence = r.getSequence();
      for (const auto id : r.getUnknownTasks()) {
        DLRUN_ASSIGN(m.unknown_tasks.emplace_back(), wire::get(id));
      }
      return m;
    }
    case schema_to::PREPARE_TASK: {
      const auto r = from.getPrepareTask();
      PrepareTask m{.task = task, .epoch = epoch};
      m.job_name = to_string(r.getJobName());
      m.owner = to_string(r.getOwner());
      DLRUN_ASSIGN(m.program, get_enum(r.getProgram(), RoleProgram::kShardHost, "role program"));
      m.argv = wire::get(r.getArgv());
      m.env = wire::get(r.getEnv());
      m.cwd = to_string(r.getCwd());
      m.resources = wire::get(r.getResources());
      m.slot = wire::get(r.getSlot());
      DLRUN_ASSIGN(m.token, get_token(r.getToken()));
      m.world = r.getWorld();
      DLRUN_ASSIGN(m.inputs, wire::get(r.getInputs()));
      m.time_limit = Duration(r.getTimeLimitNs());
      m.start_at_once = r.getStartAtOnce();
      DLRUN_ASSIGN(m.ready, get_enum(r.getReady(), ReadyWhen::kPort, "readiness"));
      m.outputs = wire::get(r.getOutputs());
      m.cwd_required = r.getCwdRequired();
      m.rlimits = wire::get(r.getRlimits());
      m.grace = Duration(r.getGraceNs());
      m.commit_number = r.getCommitNumber();
      m.commit_tag = to_string(r.getCommitTag());
      m.files = get(r.getFiles());
      return m;
    }
    case schema_to::START_TASK: {
      const auto r = from.getStartTask();
      StartTask m{.task = task, .epoch = epoch};
      m.env = wire::get(r.getEnv());
      if (r.hasPs()) {
        DLRUN_ASSIGN(m.ps, wire::get(r.getPs()));
      }
      m.files = get(r.getFiles());
      return m;
    }
    case schema_to::STOP_TASK: {
      const auto r = from.getStopTask();
      DLRUN_ASSIGN(const Cause cause, get_cause(r.getCause()));
      return StopTask{task, epoch, Duration(r.getGraceNs()), cause};
    }
    case schema_to::WORKER_GONE: {
      DLRUN_ASSIGN(const TaskId worker, wire::get(from.getWorkerGone()));
      return WorkerGone{task, worker, epoch};
    }
    case schema_to::BARRIER_DONE:
      return BarrierDone{task, epoch, to_string(from.getBarrierDone().getName()),
                         from.getBarrierDone().getRound()};
    case schema_to::LEASE_REPLY: {
      const auto r = from.getLeaseReply();
      LeaseReply m{task,
                   epoch,
                   r.getRequest(),
                   static_cast<Errc>(r.getError()),
                   to_string(r.getErrorContext()),
                   {}};
      DLRUN_ASSIGN(m.answer, wire::get(r.getAnswer()));
      return m;
    }
    case schema_to::TASK_END_ACK:
      return TaskEndAck{task, epoch};
    case schema_to::HEARTBEAT_ACK: {
      const auto r = from.getHeartbeatAck();
      return HeartbeatAck{r.getTerm(), r.getSequence(), r.getKnown()};
    }
    case schema_to::OBSOLETE11:
      return fail(Errc::kUnsupported, "said before leases carried the ends of splits");
    case schema_to::COMMIT_DONE: {
      const auto r = from.getCommitDone();
      return CommitDone{task,
                        epoch,
                        r.getId(),
                        r.getNumber(),
                        static_cast<Errc>(r.getError()),
                        to_string(r.getErrorContext())};
    }
    case schema_to::COMMIT_OUTPUTS:
      return CommitOutputs{task, epoch, wire::get(from.getCommitOutputs())};
  }
  return fail(Errc::kUnsupported, "message to an agent: unknown kind " +
                                      std::to_string(static_cast<int>(from.which())));
}

Result<FromAgent> get(schema_from::Reader from) {
  DLRUN_ASSIGN(const TaskId task, wire::get(from.getTask()));
  const Epoch epoch = wire::get(from.getEpoch());
  switch (from.which()) {
    case schema_from::REGISTER: {
      const auto r = from.getRegister();
      Register m{NodeId(to_string(r.getNode())),
                 Incarnation(r.getIncarnation()),
                 to_string(r.getAddress()),
                 wire::get(r.getCapacity()),
                 {},
                 to_string(r.getVersion()),
                 r.getSequence()};
      for (const auto update : r.getTasks()) {
        DLRUN_ASSIGN(m.tasks.emplace_back(), get(update));
      }
      return m;
    }
    case schema_from::HEARTBEAT: {
      const auto r = from.getHeartbeat();
      return Heartbeat{NodeId(to_string(r.getNode())), Incarnation(r.getIncarnation()),
                       r.getSequence()};
    }
    case schema_from::TASK_UPDATE: {
      DLRUN_ASSIGN(TaskUpdate m, get(from.getTaskUpdate()));
      return m;
    }
    case schema_from::PROGRESS:
      return Progress{task, epoch, from.getProgress().getFraction(),
                      to_string(from.getProgress().getText())};
    case schema_from::BARRIER_ARRIVE:
      return BarrierArrive{task, epoch, to_string(from.getBarrierArrive().getName()),
                           from.getBarrierArrive().getRound()};
    case schema_from::INPUT_FILES: {
      const auto r = from.getInputFiles();
      return InputFiles{task, epoch, to_string(r.getInput()), wire::get(r.getFiles()),
                        r.getRequest()};
    }
    case schema_from::LEASE_SPLITS: {
      const auto r = from.getLeaseSplits();
      return LeaseSplits{task,
                         epoch,
                         to_string(r.getInput()),
                         r.getSplitsMax(),
                         r.getRequest(),
                         r.getResync(),
                         wire::get(r.getHeld()),
                         wire::get(r.getDone()),
                         wire::get(r.getSteps())};
    }
    case schema_from::COMMIT_INPUTS: {
      const auto r = from.getCommitInputs();
      return CommitInputs{task, epoch, r.getId(), to_string(r.getTag()), wire::get(r.getInputs())};
    }
    case schema_from::OBSOLETE9:
      return fail(Errc::kUnsupported, "said before leases carried the ends of splits");
    case schema_from::WORKER_GONE_ACK: {
      DLRUN_ASSIGN(const TaskId worker, wire::get(from.getWorkerGoneAck()));
      return WorkerGoneAck{task, worker, epoch};
    }
    case schema_from::OUTPUTS_COMMITTED: {
      const auto r = from.getOutputsCommitted();
      return OutputsCommitted{task,
                              epoch,
                              static_cast<Errc>(r.getError()),
                              to_string(r.getErrorContext()),
                              r.getUnderWay(),
                              r.getProgress()};
    }
  }
  return fail(Errc::kUnsupported, "message from an agent: unknown kind " +
                                      std::to_string(static_cast<int>(from.which())));
}

}  // namespace

std::string encode(const ToAgent& message) { return encode_as<schema_to, PutToAgent>(message); }
std::string encode(const FromAgent& message) {
  return encode_as<schema_from, PutFromAgent>(message);
}

Result<ToAgent> decode_to_agent(std::string_view bytes) {
  return from_bytes<schema_to>(bytes, "message to an agent",
                               [](schema_to::Reader r) { return get(r); });
}

Result<FromAgent> decode_from_agent(std::string_view bytes) {
  return from_bytes<schema_from>(bytes, "message from an agent",
                                 [](schema_from::Reader r) { return get(r); });
}

}  // namespace dlrun::wire
