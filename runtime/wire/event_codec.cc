#include "runtime/wire/event_codec.h"

#include "runtime/wire/event.capnp.h"
#include "runtime/wire/job_codec.h"

namespace dlrun::wire {

using namespace cluster;

namespace {

/// One overload per event: fills the union member. The caller has set job and time.
struct PutEvent {
  schema::Event::Builder to;

  void operator()(const TermStarted& e) { to.setTermStarted(e.term); }
  void operator()(const Baseline& e) {
    auto b = to.initBaseline();
    b.setTerm(e.term);
    b.setLastJob(e.last_job.value);
    b.setJobsFinished(e.jobs_finished);
    auto keys = b.initKeys(e.keys.size());
    for (unsigned i = 0; i < e.keys.size(); ++i) {
      keys[i].setKey(data_of(e.keys[i].key));
      keys[i].setJob(e.keys[i].job.value);
      keys[i].setFingerprint(e.keys[i].fingerprint);
    }
  }
  void operator()(const NodeJoined& e) {
    auto b = to.initNodeJoined();
    b.setNode(e.node.value);
    b.setIncarnation(e.incarnation.value);
    b.setAddress(e.address);
    b.setVersion(e.version);
    wire::put(b.initCapacity(), e.capacity);
  }
  void operator()(const NodeStateChanged& e) {
    auto b = to.initNodeStateChanged();
    b.setNode(e.node.value);
    b.setIncarnation(e.incarnation.value);
    b.setState(static_cast<std::uint8_t>(e.state));
    b.setReason(data_of(e.reason));
  }
  void operator()(const JobSubmitted& e) {
    auto b = to.initJobSubmitted();
    wire::put(b.initSpec(), e.spec);
    b.setKey(data_of(e.key));
    b.setFingerprint(e.fingerprint);
  }
  void operator()(const JobPlaced& e) {
    auto b = to.initJobPlaced();
    b.setGeneration(e.generation.value);
    wire::put(b.initEpoch(), e.epoch);
    auto tasks = b.initTasks(e.tasks.size());
    for (unsigned i = 0; i < e.tasks.size(); ++i) {
      wire::put(tasks[i].initTask(), e.tasks[i].task);
      tasks[i].setAddress(e.tasks[i].address);
      wire::put(tasks[i].initSlot(), e.tasks[i].slot);
    }
  }
  void operator()(const JobStateChanged& e) {
    auto b = to.initJobStateChanged();
    b.setGeneration(e.generation.value);
    b.setState(static_cast<std::uint8_t>(e.state));
    b.setCause(static_cast<std::uint8_t>(e.cause));
    b.setReason(data_of(e.reason));
  }
  void operator()(const TaskEnded& e) {
    auto b = to.initTaskEnded();
    wire::put(b.initTask(), e.task);
    wire::put(b.initEpoch(), e.epoch);
    wire::put(b.initEnd(), e.end);
  }
  void operator()(const JobKillRequested& e) { to.setJobKillRequested(data_of(e.reason)); }
  void operator()(const GenerationEnded& e) {
    auto b = to.initGenerationEnded();
    b.setGeneration(e.generation.value);
    b.setCause(static_cast<std::uint8_t>(e.cause));
    b.setReason(data_of(e.reason));
  }
  void operator()(const JobEnded& e) { wire::put(to.initJobEnded(), e.view); }
  void operator()(const InputFilesSet& e) {
    auto b = to.initInputFilesSet();
    b.setGeneration(e.generation.value);
    b.setInput(e.input);
    wire::put(b.initFiles(e.files.size()), e.files);
  }
  void operator()(const SplitsLeased& e) {
    auto b = to.initSplitsLeased();
    wire::put(b.initConsumer(), e.consumer);
    b.setInput(e.input);
    b.setSplitsMax(e.splits_max);
    b.setRequest(e.request);
    b.setResync(e.resync);
    wire::put(b.initHeld(e.held.size()), e.held);
    wire::put(b.initDone(e.done.size()), e.done);
  }
  void operator()(const BarrierMet& e) {
    auto b = to.initBarrierMet();
    b.setGeneration(e.generation.value);
    b.setRole(e.role);
    b.setName(data_of(e.name));
    b.setRound(e.round);
  }
  void operator()(const JobHeld& e) {
    auto b = to.initJobHeld();
    b.setHeld(e.held);
    b.setReason(data_of(e.reason));
  }
  void operator()(const CommitGranted& e) { to.setCommitGranted(e.generation.value); }
  void operator()(const TaskWarned& e) {
    auto b = to.initTaskWarned();
    wire::put(b.initTask(), e.task);
    wire::put(b.initEpoch(), e.epoch);
    b.setText(data_of(e.text));
  }
  void operator()(const JobSnapshot& e) {
    auto b = to.initJobSnapshot();
    b.setGeneration(e.generation.value);
    auto inputs = b.initInputs(e.inputs.size());
    for (unsigned i = 0; i < e.inputs.size(); ++i) put(inputs[i], e.inputs[i]);
    auto answers = b.initAnswers(e.answers.size());
    for (unsigned i = 0; i < e.answers.size(); ++i) {
      const JobSnapshot::Answer& answer = e.answers[i];
      wire::put(answers[i].initConsumer(), answer.consumer);
      answers[i].setInput(answer.input);
      answers[i].setRequest(answer.request);
      answers[i].setState(static_cast<std::uint8_t>(answer.state));
      wire::put(answers[i].initSplits(answer.splits.size()), answer.splits);
    }
    auto barriers = b.initBarriers(e.barriers.size());
    for (unsigned i = 0; i < e.barriers.size(); ++i) {
      barriers[i].setRole(e.barriers[i].role);
      barriers[i].setName(data_of(e.barriers[i].name));
      barriers[i].setRound(e.barriers[i].round);
    }
  }

  void operator()(const InputsCommitted& e) {
    auto b = to.initInputsCommitted();
    b.setGeneration(e.generation.value);
    b.setRole(e.role);
    b.setNumber(e.number);
    b.setTag(data_of(e.tag));
    auto ranks = b.initRanks(e.ranks.size());
    for (unsigned i = 0; i < e.ranks.size(); ++i) {
      ranks[i].setRank(e.ranks[i].rank);
      ranks[i].setId(e.ranks[i].id);
    }
    auto inputs = b.initInputs(e.inputs.size());
    for (unsigned i = 0; i < e.inputs.size(); ++i) put(inputs[i], e.inputs[i]);
  }

  static void put(schema::LedgerState::Builder b, const io::LedgerState& state) {
    b.setInput(state.input);
    b.setPass(state.pass);
    b.setPosition(state.position);
    b.setDone(state.done);
    wire::put(b.initGivenBack(state.given_back.size()), state.given_back);
    auto held = b.initHeld(state.held.size());
    for (unsigned i = 0; i < state.held.size(); ++i) {
      wire::put(held[i].initConsumer(), state.held[i].consumer);
      wire::put(held[i].initSplits(state.held[i].splits.size()), state.held[i].splits);
    }
    wire::put(b.initBegun(state.begun.size()), state.begun);
    b.setFilesDigest(state.files_digest);
    b.setWorld(state.world);
    wire::put(b.initLanes(state.lanes.size()), state.lanes);
  }
};

Result<io::LedgerState> get_state(schema::LedgerState::Reader from) {
  io::LedgerState state;
  state.input = to_string(from.getInput());
  state.pass = from.getPass();
  state.position = from.getPosition();
  state.done = from.getDone();
  state.given_back = wire::get(from.getGivenBack());
  for (const auto held : from.getHeld()) {
    DLRUN_ASSIGN(TaskId consumer, wire::get(held.getConsumer()));
    state.held.push_back({std::move(consumer), wire::get(held.getSplits())});
  }
  state.begun = wire::get(from.getBegun());
  state.files_digest = from.getFilesDigest();
  state.world = from.getWorld();
  state.lanes = wire::get(from.getLanes());
  return state;
}

Result<Event> get_commit(JobId job, schema::InputsCommitted::Reader from, WallTime at) {
  InputsCommitted e{job,
                    Generation(from.getGeneration()),
                    to_string(from.getRole()),
                    from.getNumber(),
                    to_string(from.getTag()),
                    {},
                    {},
                    at};
  for (const auto r : from.getRanks()) e.ranks.push_back({r.getRank(), r.getId()});
  for (const auto r : from.getInputs()) {
    DLRUN_ASSIGN(io::LedgerState state, get_state(r));
    e.inputs.push_back(std::move(state));
  }
  return e;
}

Result<Event> get_snapshot(JobId job, schema::JobSnapshot::Reader from) {
  JobSnapshot e{job, Generation(from.getGeneration()), {}, {}, {}};
  for (const auto r : from.getInputs()) {
    DLRUN_ASSIGN(io::LedgerState state, get_state(r));
    e.inputs.push_back(std::move(state));
  }
  for (const auto r : from.getAnswers()) {
    JobSnapshot::Answer& answer = e.answers.emplace_back();
    DLRUN_ASSIGN(answer.consumer, wire::get(r.getConsumer()));
    answer.input = to_string(r.getInput());
    answer.request = r.getRequest();
    DLRUN_ASSIGN(answer.state, get_enum(r.getState(), io::LeaseState::kEndOfInput, "lease state"));
    answer.splits = wire::get(r.getSplits());
  }
  for (const auto r : from.getBarriers())
    e.barriers.push_back({to_string(r.getRole()), to_string(r.getName()), r.getRound()});
  return e;
}

Result<Event> get(schema::Event::Reader from) {
  const JobId job(from.getJob());
  const WallTime at{from.getAtNs()};
  switch (from.which()) {
    case schema::Event::TERM_STARTED:
      return TermStarted{from.getTermStarted()};
    case schema::Event::BASELINE: {
      const auto r = from.getBaseline();
      Baseline e{r.getTerm(), JobId(r.getLastJob()), r.getJobsFinished(), {}};
      for (const auto key : r.getKeys())
        e.keys.push_back({to_string(key.getKey()), JobId(key.getJob()), key.getFingerprint()});
      return e;
    }
    case schema::Event::NODE_JOINED: {
      const auto r = from.getNodeJoined();
      return NodeJoined{NodeId(to_string(r.getNode())), Incarnation(r.getIncarnation()),
                        to_string(r.getAddress()), to_string(r.getVersion()),
                        wire::get(r.getCapacity())};
    }
    case schema::Event::NODE_STATE_CHANGED: {
      const auto r = from.getNodeStateChanged();
      DLRUN_ASSIGN(const NodeState state,
                   get_enum(r.getState(), NodeState::kDraining, "node state"));
      return NodeStateChanged{NodeId(to_string(r.getNode())), Incarnation(r.getIncarnation()),
                              state, to_string(r.getReason())};
    }
    case schema::Event::JOB_SUBMITTED: {
      const auto r = from.getJobSubmitted();
      DLRUN_ASSIGN(JobSpec spec, wire::get(r.getSpec()));
      return JobSubmitted{job, std::move(spec), to_string(r.getKey()), r.getFingerprint(), at};
    }
    case schema::Event::JOB_PLACED: {
      const auto r = from.getJobPlaced();
      JobPlaced e{job, Generation(r.getGeneration()), wire::get(r.getEpoch()), {}, at};
      for (const auto task : r.getTasks()) {
        auto& placed = e.tasks.emplace_back();
        DLRUN_ASSIGN(placed.task, wire::get(task.getTask()));
        placed.address = to_string(task.getAddress());
        placed.slot = wire::get(task.getSlot());
      }
      return e;
    }
    case schema::Event::JOB_STATE_CHANGED: {
      const auto r = from.getJobStateChanged();
      DLRUN_ASSIGN(const JobState state, get_job_state(r.getState()));
      DLRUN_ASSIGN(const Cause cause, get_cause(r.getCause()));
      return JobStateChanged{job,   Generation(r.getGeneration()), state,
                             cause, to_string(r.getReason()),      at};
    }
    case schema::Event::TASK_ENDED: {
      const auto r = from.getTaskEnded();
      DLRUN_ASSIGN(TaskId task, wire::get(r.getTask()));
      DLRUN_ASSIGN(TaskEnd end, wire::get(r.getEnd()));
      return TaskEnded{std::move(task), wire::get(r.getEpoch()), std::move(end), at};
    }
    case schema::Event::JOB_KILL_REQUESTED:
      return JobKillRequested{job, to_string(from.getJobKillRequested()), at};
    case schema::Event::GENERATION_ENDED: {
      const auto r = from.getGenerationEnded();
      DLRUN_ASSIGN(const Cause cause, get_cause(r.getCause()));
      return GenerationEnded{job, Generation(r.getGeneration()), cause, to_string(r.getReason()),
                             at};
    }
    case schema::Event::JOB_ENDED: {
      DLRUN_ASSIGN(JobView view, wire::get(from.getJobEnded()));
      return JobEnded{std::move(view)};
    }
    case schema::Event::INPUT_FILES_SET: {
      const auto r = from.getInputFilesSet();
      return InputFilesSet{job, Generation(r.getGeneration()), to_string(r.getInput()),
                           wire::get(r.getFiles())};
    }
    case schema::Event::SPLITS_LEASED: {
      const auto r = from.getSplitsLeased();
      DLRUN_ASSIGN(TaskId consumer, wire::get(r.getConsumer()));
      return SplitsLeased{std::move(consumer),   to_string(r.getInput()), r.getSplitsMax(),
                          r.getRequest(),        r.getResync(),           wire::get(r.getHeld()),
                          wire::get(r.getDone())};
    }
    case schema::Event::OBSOLETE15:
      return fail(Errc::kUnsupported,
                  "the end of a split as it was written before leases carried it: end the jobs "
                  "that read inputs with the build that began them, then start this one");
    case schema::Event::TASK_WARNED: {
      const auto r = from.getTaskWarned();
      DLRUN_ASSIGN(TaskId task, wire::get(r.getTask()));
      return TaskWarned{std::move(task), wire::get(r.getEpoch()), to_string(r.getText()), at};
    }
    case schema::Event::BARRIER_MET: {
      const auto r = from.getBarrierMet();
      return BarrierMet{job, Generation(r.getGeneration()), to_string(r.getRole()),
                        to_string(r.getName()), r.getRound()};
    }
    case schema::Event::JOB_HELD:
      return JobHeld{job, from.getJobHeld().getHeld(), to_string(from.getJobHeld().getReason()),
                     at};
    case schema::Event::COMMIT_GRANTED:
      return CommitGranted{job, Generation(from.getCommitGranted()), at};
    case schema::Event::JOB_SNAPSHOT:
      return get_snapshot(job, from.getJobSnapshot());
    case schema::Event::INPUTS_COMMITTED:
      return get_commit(job, from.getInputsCommitted(), at);
  }
  return fail(Errc::kUnsupported,
              "event log: unknown event " + std::to_string(static_cast<int>(from.which())));
}

}  // namespace

std::string encode(const Event& event) {
  capnp::MallocMessageBuilder builder;
  auto root = builder.initRoot<schema::Event>();
  root.setJob(job_of(event).value);
  std::visit(
      [&](const auto& e) {
        if constexpr (requires { e.at; }) root.setAtNs(e.at.ns);
        PutEvent{root}(e);
      },
      event);
  return to_bytes(builder);
}

Result<Event> decode_event(std::string_view bytes) {
  return from_bytes<schema::Event>(bytes, "event", [](schema::Event::Reader r) { return get(r); });
}

Result<SeenKey> decode_submit_key(std::string_view bytes) {
  return from_bytes<schema::Event>(bytes, "event", [](schema::Event::Reader r) -> Result<SeenKey> {
    if (r.which() != schema::Event::JOB_SUBMITTED) return SeenKey{};
    const auto submitted = r.getJobSubmitted();
    return SeenKey{to_string(submitted.getKey()), JobId(r.getJob()), submitted.getFingerprint()};
  });
}

std::string encode(const JobView& view) {
  capnp::MallocMessageBuilder builder;
  put(builder.initRoot<schema::JobView>(), view);
  return to_bytes(builder);
}

Result<JobView> decode_job_view(std::string_view bytes) {
  return from_bytes<schema::JobView>(bytes, "job view",
                                     [](schema::JobView::Reader r) { return get(r); });
}

}  // namespace dlrun::wire
