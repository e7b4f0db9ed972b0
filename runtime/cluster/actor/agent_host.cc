#include "runtime/cluster/actor/agent_host.h"

#include <sys/stat.h>

#include <algorithm>
#include <future>
#include <map>
#include <unordered_map>

#include "runtime/cluster/actor/feeders.h"
#include "runtime/cluster/actor/hmac_tokens.h"
#include "runtime/cluster/actor/last_resorts.h"
#include "runtime/cluster/actor/latest_progress.h"
#include "runtime/cluster/actor/outputs.h"
#include "runtime/cluster/actor/port_probe.h"
#include "runtime/cluster/actor/task_dir.h"
#include "runtime/cluster/core/port_taken.h"
#include "runtime/logs/log_shipper.h"
#include "runtime/os/serial_worker.h"
#include "runtime/security/secret.h"
#include "runtime/shim/shim_client.h"
#include "runtime/task/task_server.h"

namespace dlrun::cluster {
namespace {

constexpr const char* kDefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
constexpr auto kStopFeedersWithin = std::chrono::seconds(2);
constexpr auto kProbeEvery = std::chrono::milliseconds(100);
constexpr auto kSayProgressEvery = std::chrono::seconds(1);  // of outputs
constexpr auto kLastNewsWithin = std::chrono::seconds(5);

TaskEnd start_failed(std::string detail) {
  TaskEnd end;
  end.cause = Cause::kStartFailed;
  end.detail = std::move(detail);
  return end;
}

bool is_folder(const std::string& path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

std::uint64_t to_ms(Duration d) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
}

}  // namespace

class AgentHost::Impl {
 public:
  explicit Impl(AgentHostOptions options)
      : options_(std::move(options)),
        tasks_dir_(options_.data_dir + "/tasks"),
        last_resorts_(options_.data_dir + "/last-resorts") {}
  ~Impl() { stop(); }

  Status open() {
    DLRUN_TRY(security::make_private_folder(tasks_dir_));
    DLRUN_TRY(make_last_resorts(last_resorts_));
    DLRUN_TRY(security::make_private_folder(options_.run_dir));
    std::vector<std::string> broken;
    for (FoundDir& found : scan_task_dirs(tasks_dir_, &broken)) found_.push_back(std::move(found));
    for (const std::string& line : broken) log(line);

    task::ServerOptions server_options;
    server_options.socket_dir = options_.run_dir;
    task::ServerCallbacks callbacks;
    callbacks.on_message = [this](const TaskId& task, task::PeerKind kind, task::ToServer message) {
      if (const auto* progress = std::get_if<task::ReportProgress>(&message)) {
        if (progress_.put(task, *progress))
          worker_.post_when_room(guarded([this, task] { on_progress(task); }));
        return;
      }
      worker_.post_when_room(guarded([this, task, kind, message = std::move(message)]() mutable {
        on_process(task, kind, std::move(message));
      }));
    };
    callbacks.on_gone = [](const TaskId&, task::PeerKind, std::size_t) {};
    callbacks.on_log = [this](const std::string& line) { log(line); };
    DLRUN_ASSIGN(server_, task::TaskServer::start(server_options, std::move(callbacks)));

    shim::ShimClient::Options shim_options;
    shim_options.shim_program = options_.shim_program;
    shim_options.on_event = [this](const shim::ShimEvent& event) {
      run([this, event] { on_shim(event); });
    };
    DLRUN_ASSIGN(shims_, shim::ShimClient::start(std::move(shim_options)));

    logs::ShipperOptions shipper_options;
    shipper_options.keys.public_key = options_.log_public_key;
    shipper_options.keys.secret_key = options_.log_secret_key;
    shipper_options.log = [this](const std::string& line) { log(line); };
    DLRUN_ASSIGN(shipper_, logs::LogShipper::start(std::move(shipper_options)));

    FeedersOptions feeder_options;
    feeder_options.run_dir = options_.run_dir;
    feeder_options.self_program = options_.self_program;
    feeder_options.linger = options_.feeder_linger;
    feeder_options.server = server_.get();
    feeder_options.shims = shims_.get();
    feeder_options.clock = &clock_;
    feeder_options.after = [this](Duration wait, std::function<void()> f) {
      worker_.post_after(wait, guarded(std::move(f)));
    };
    feeder_options.log = [this](const std::string& line) { log(line); };
    feeders_ = std::make_unique<Feeders>(std::move(feeder_options));
    return {};
  }

  std::vector<FoundTask> found() const {
    std::vector<FoundTask> out;
    for (const FoundDir& dir : found_)
      if (!dir.cleaned) out.push_back(dir.found);
    return out;
  }

  void begin(std::function<void(HostEvent)> emit) {
    run([this, emit = std::move(emit)]() mutable {
      emit_ = std::move(emit);
      feeders_->sweep();
      for (const FoundDir& dir : std::exchange(found_, {})) take_up(dir);
      server_->sweep();
    });
  }

  void post(AgentEffect effect) {
    run([this, effect = std::move(effect)]() mutable {
      std::visit([this](auto& e) { perform(e); }, effect);
    });
  }

 private:
  struct Task {
    PrepareTask prepare;
    std::optional<StartTask> start;
    std::string dir;
  };

  /// On the worker, unless the host is closing by then: what it would use is gone.
  std::function<void()> guarded(std::function<void()> f) {
    return [this, f = std::move(f)] {
      if (!closing_) f();
    };
  }
  void run(std::function<void()> f) { worker_.post(guarded(std::move(f))); }

  void log(const std::string& line) const {
    if (options_.log) options_.log(line);
  }
  void emit(HostEvent event) {
    if (emit_) emit_(std::move(event));
  }
  Task* find(const TaskId& id) {
    const auto it = tasks_.find(id);
    return it == tasks_.end() ? nullptr : &it->second;
  }
  std::string dir_of(const TaskId& task) const { return tasks_dir_ + "/" + task_dir_name(task); }

  void stop() {
    const auto until = std::chrono::steady_clock::now() + kStopFeedersWithin;
    for (bool first = true;; first = false) {
      std::promise<bool> done;
      run([&] {
        emit_ = nullptr;
        if (feeders_ && first) feeders_->stop_idle();
        closing_ =
            !feeders_ || feeders_->idle_running() == 0 || std::chrono::steady_clock::now() > until;
        done.set_value(closing_);
      });
      if (done.get_future().get()) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    publisher_.stop();
    shims_.reset();
    server_.reset();
    shipper_.reset();
    worker_.stop();
  }

  // ---- effects

  void perform(SendToCoordinator&) {}  // the actor's own

  void perform(PrepareDir& effect) {
    const TaskId id = effect.task.task;
    if (const auto port = taken_port(effect.task.slot.ports))
      return emit(TaskExited{id, port_taken_end(*port, options_.node)});
    const std::string dir = dir_of(id);
    Status made = cwd_of(effect.task);
    if (made) made = make_task_dir(dir, effect.task);
    if (made) made = make_output_dirs(id, effect.task.outputs);
    if (made && !effect.task.outputs.empty())
      janitor_.post([id, outputs = effect.task.outputs] { remove_earlier_outputs(id, outputs); });
    if (made) tasks_[id] = Task{std::move(effect.task), std::nullopt, dir};
    emit(TaskPrepared{id, std::move(made)});
  }

  /// A directory that was asked for must be there; before the gang starts, not in its middle.
  static Status cwd_of(const PrepareTask& task) {
    if (!task.cwd_required || is_folder(task.cwd)) return {};
    return fail(Errc::kNotFound, "the working directory " + task.cwd + " that role " +
                                     task.task.role + " asks for is no directory on node " +
                                     task.slot.node.value);
  }

  void perform(SpawnShim& effect) {
    const TaskId id = effect.task.task;
    Task& task = tasks_[id];
    if (task.dir.empty()) task = Task{std::move(effect.task), std::nullopt, dir_of(id)};
    task.start = std::move(effect.start);
    if (Status ok = spawn(task); !ok) {
      server_->close(id);
      emit(TaskExited{id, start_failed(ok.error().context)});
    }
  }

  Status spawn(const Task& task) {
    DLRUN_TRY(write_start(task.dir, *task.start));
    DLRUN_TRY(write_task_files(task.dir, task.prepare.files));
    DLRUN_TRY(write_task_files(task.dir, task.start->files));
    DLRUN_ASSIGN(const std::string socket, open_socket(task));
    DLRUN_ASSIGN(shim::Spec spec, spec_of(task, socket));
    ship(task.prepare, task.dir);
    return shims_->spawn(task.dir, std::move(spec));
  }

  Result<std::string> open_socket(const Task& task) {
    task::Welcome welcome;
    welcome.task = task.prepare.task;
    welcome.epoch = task.prepare.epoch;
    welcome.world = task.prepare.world;
    welcome.job_name = task.prepare.job_name;
    welcome.ps = task.start->ps;
    welcome.inputs = task.prepare.inputs;
    welcome.commit_number = task.prepare.commit_number;
    welcome.commit_tag = task.prepare.commit_tag;
    return server_->open(task.prepare.task, task.prepare.token, std::move(welcome));
  }

  /// Later entries of the same name win; what the agent adds comes last.
  Result<shim::Spec> spec_of(const Task& task, const std::string& socket) const {
    const PrepareTask& p = task.prepare;
    std::map<std::string, std::string> env(options_.default_env.begin(),
                                           options_.default_env.end());
    for (const auto& [name, value] : p.env) env[name] = value;
    for (const auto& [name, value] : task.start->env) env[name] = value;
    if (!env.contains("PATH")) env["PATH"] = kDefaultPath;
    env["PATH"] = path_with_last_resorts(env["PATH"], last_resorts_);
    for (const auto& [name, value] : options_.client_env) env[name] = value;
    if (!options_.python_dir.empty()) {
      std::string& path = env["PYTHONPATH"];
      path = path.empty() ? options_.python_dir : options_.python_dir + ":" + path;
    }
    env["DLRUN_SOCKET"] = socket;
    env["DLRUN_TOKEN"] = security::to_hex(p.token);
    env["DLRUN_TASK"] = to_string(p.task);
    env["DLRUN_WORK_DIR"] = task.dir + "/work";
    for (const auto* files : {&p.files, &task.start->files})
      for (const TaskFile& file : *files)
        for (const std::string& name : file.variables) env[name] = task_file_path(task.dir, file);
    // A framework whose ranks see all GPUs of their node has said so.
    const EnvList& told = task.start->env;
    const bool gpus_told = std::any_of(told.begin(), told.end(), [](const auto& variable) {
      return variable.first == "CUDA_VISIBLE_DEVICES";
    });
    if (!p.slot.gpu_uuids.empty() && !gpus_told) {
      std::string& visible = env["CUDA_VISIBLE_DEVICES"];
      visible.clear();
      for (const std::string& uuid : p.slot.gpu_uuids)
        visible += (visible.empty() ? "" : ",") + uuid;
    }
    shim::Spec spec;
    spec.argv = p.argv;
    if (p.program == RoleProgram::kShardHost) spec.argv = {options_.self_program, "shard-host"};
    if (spec.argv.empty()) return fail(Errc::kInvalidArgument, "no program");
    for (const auto& [name, value] : env) spec.env.push_back(name + "=" + value);
    // The submitter's folder where it exists on this node, else the task's own.
    spec.cwd = p.cwd_required || (!p.cwd.empty() && is_folder(p.cwd)) ? p.cwd : task.dir + "/work";
    spec.memory_bytes = static_cast<std::uint64_t>(p.resources.memory_bytes);
    spec.time_limit_ms = to_ms(p.time_limit);
    for (const auto& [name, value] : p.rlimits) {
      const auto resource = shim::rlimit_of(name);
      if (!resource)
        return fail(Errc::kInvalidArgument, "the limit '" + name + "' is not known here");
      spec.rlimits.push_back({*resource, value, value});
    }
    spec.grace_ms = to_ms(p.grace);
    return spec;
  }

  void perform(SignalShim& effect) {
    const Task* task = find(effect.task);
    if (task == nullptr) return;
    if (effect.grace > Duration(0)) {
      (void)server_->send(effect.task, task::StopNow{});
      (void)shims_->stop(task->dir, effect.grace, effect.cause);
    } else {
      (void)shims_->kill(task->dir, effect.cause);
    }
  }

  void perform(CleanTask& effect) {
    const auto it = tasks_.find(effect.task);
    if (it == tasks_.end()) return;
    const std::string dir = it->second.dir;
    const bool ran = it->second.start.has_value();
    const PrepareTask prepare = std::move(it->second.prepare);
    tasks_.erase(it);
    server_->close(effect.task);
    (void)feeders_->drop_consumer(effect.task);
    if (!ran) return janitor_.post([dir] { remove_task_dir(dir); });
    if (Status ok = mark_cleaned(dir); !ok) log(ok.error().to_string());
    janitor_.post([dir] { remove_work(dir); });
    ship_rest(prepare, dir);
  }

  void ship(const PrepareTask& task, const std::string& dir) {
    shipper_->add(task.task, dir + "/logs", {task.epoch, log_proof(task.token, options_.node)});
  }
  void ship_rest(const PrepareTask& task, const std::string& dir) {
    ship(task, dir);
    shipper_->finish(task.task, options_.ship_give_up, [this, dir](bool shipped) {
      // Not shipped: the next agent process tries again.
      if (shipped) janitor_.post([dir] { remove_task_dir(dir); });
    });
  }

  void perform(DeliverBarrier& effect) {
    (void)server_->send(effect.task, task::BarrierPassed{effect.name, effect.round});
  }

  void perform(DeliverLease& effect) {
    const TaskId* feeder = feeders_->feeder_of(effect.reply.task);
    if (feeder == nullptr) return;
    task::FeederReply reply;
    reply.request = effect.reply.request;
    reply.error = effect.reply.error;
    reply.error_context = std::move(effect.reply.error_context);
    reply.answer = std::move(effect.reply.answer);
    (void)server_->send(*feeder, task::PeerKind::kFeeder, std::move(reply));
  }

  void perform(DeliverCommit& effect) {
    task::Committed committed;
    committed.request = effect.done.id;
    committed.number = effect.done.number;
    committed.error = effect.done.error;
    committed.error_context = std::move(effect.done.error_context);
    (void)server_->send(effect.done.task, std::move(committed));
  }

  void perform(DeliverWorkerGone& effect) {
    (void)server_->send(effect.shard_task, task::PeerKind::kShardHost,
                        task::WorkerLeft{effect.worker});
  }

  void perform(PublishOutputs& effect) {
    publisher_.post([this, commit = effect.commit] {
      std::uint64_t steps = 0;
      auto told = std::chrono::steady_clock::now();
      Status done = publish_outputs(commit, [&] {
        ++steps;
        const auto now = std::chrono::steady_clock::now();
        if (now - told < kSayProgressEvery) return;
        told = now;
        run([this, commit, steps] { emit(TaskPublishing{commit.task, commit.epoch, steps}); });
      });
      run([this, commit, done = std::move(done)] {
        emit(TaskPublished{commit.task, commit.epoch, done});
      });
    });
  }

  void perform(ShipLogsTo& effect) {
    std::string endpoint = effect.endpoint;
    if (endpoint.empty()) return;
    if (const auto star = endpoint.find("//*:"); star != std::string::npos) {
      const std::string& host = options_.coordinator_host;
      endpoint.replace(star + 2, 1, host.find(':') == std::string::npos ? host : "[" + host + "]");
    }
    shipper_->connect(endpoint, effect.key);
  }

  // ---- what happens on the node

  void take_up(const FoundDir& dir) {
    const TaskId id = dir.found.task.task;
    if (dir.cleaned) return ship_rest(dir.found.task, dir.dir);
    Task& task = tasks_[id];
    task = Task{dir.found.task, dir.found.start, dir.dir};
    if (!dir.has_shim || !task.start) return;
    ship(dir.found.task, dir.dir);
    if (!dir.found.end)
      if (const auto socket = open_socket(task); !socket) log(socket.error().to_string());
    if (Status ok = shims_->attach(dir.dir); !ok) {
      TaskEnd end;
      end.cause = Cause::kShimLost;
      end.detail = ok.error().context;
      emit(TaskExited{id, end});
    }
  }

  void tell_end(const TaskId& id) {
    feeders_->forget(id);
    const auto it = ended_.find(id);
    if (it == ended_.end()) return;
    emit(TaskExited{id, std::move(it->second)});
    ended_.erase(it);
  }

  void on_shim(const shim::ShimEvent& event) {
    if (feeders_->on_shim(event)) {
      std::vector<TaskId> orphans;
      for (const auto& [id, end] : ended_)
        if (feeders_->feeder_of(id) == nullptr) orphans.push_back(id);
      for (const TaskId& id : orphans) tell_end(id);
      return;
    }
    for (const auto& [id, task] : tasks_) {
      if (task.dir != event.task_dir) continue;
      if (event.phase == shim::Phase::kRunning) {
        emit(TaskStarted{id, event.pid, event.warning});
        if (task.prepare.ready == ReadyWhen::kPort) probe(id);
      }
      if (event.phase == shim::Phase::kEnded) {
        // Its feeder says first what it has read: else the job would give that to others.
        const bool waits = feeders_->drop_consumer(id);
        ended_[id] = event.end;
        if (!waits) return tell_end(id);
        worker_.post_after(kLastNewsWithin, guarded([this, id = id] { tell_end(id); }));
      }
      return;
    }
  }

  /// Until its port takes connections, or the task is gone.
  void probe(const TaskId& id) {
    const Task* task = find(id);
    if (task == nullptr || task->prepare.slot.ports.empty()) return;
    std::string address;
    for (const auto& [name, value] : options_.client_env)
      if (name == "DLRUN_ADDRESS") address = value;
    if (takes_connections(address, task->prepare.slot.ports[0])) {
      if (Status ok = write_ready(task->dir, id, {}); !ok) log(ok.error().to_string());
      emit(TaskIsReady{id, {}});
    } else {
      worker_.post_after(kProbeEvery, guarded([this, id] { probe(id); }));
    }
  }

  void on_process(const TaskId& id, task::PeerKind kind, task::ToServer message) {
    std::visit([&](auto& m) { on(id, kind, m); }, message);
  }
  void on(const TaskId&, task::PeerKind, const task::Hello&) {}
  void on(const TaskId& id, task::PeerKind kind, const task::Ready& m) {
    if (feeders_->is_feeder(id)) {
      if (kind == task::PeerKind::kFeeder) feeders_->on_ready(id, m.info);
      return;
    }
    if (const Task* task = find(id))
      if (Status ok = write_ready(task->dir, id, m.info); !ok) log(ok.error().to_string());
    emit(TaskIsReady{id, m.info});
  }
  void on(const TaskId&, task::PeerKind, const task::ReportProgress&) {}  // see on_progress
  void on_progress(const TaskId& id) {
    const task::ReportProgress last = progress_.take(id);
    emit(TaskProgress{id, last.fraction, last.text});
  }
  void on(const TaskId& id, task::PeerKind, const task::EnterBarrier& m) {
    emit(TaskAtBarrier{id, m.name, m.round});
  }
  void on(const TaskId& id, task::PeerKind, const task::OpenInput& m) {
    if (const Task* task = find(id)) feeders_->open_input(task->prepare, m);
  }
  /// A feeder speaks for the consumers it was told to admit, for nobody else.
  bool may_speak_for(const TaskId& feeder, const TaskId& consumer) const {
    const TaskId* serving = feeders_->feeder_of(consumer);
    return serving != nullptr && *serving == feeder;
  }
  void on(const TaskId& id, task::PeerKind, task::FeederFiles& m) {
    if (may_speak_for(id, m.consumer))
      emit(TaskFiles{m.consumer, m.input, std::move(m.files), m.request});
  }
  void on(const TaskId& id, task::PeerKind, task::FeederLease& m) {
    if (may_speak_for(id, m.consumer))
      emit(TaskLease{m.consumer, m.input, m.splits_max, m.request, m.resync, std::move(m.held),
                     std::move(m.done), std::move(m.steps)});
  }
  void on(const TaskId& id, task::PeerKind, task::CommitInputs& m) {
    if (!feeders_->is_feeder(id))
      emit(TaskCommits{id, m.request, std::move(m.tag), std::move(m.inputs)});
  }
  void on(const TaskId& id, task::PeerKind, const task::FeederGone& m) {
    if (may_speak_for(id, m.consumer)) tell_end(m.consumer);
  }
  void on(const TaskId&, task::PeerKind, const task::PsReport&) {}  // nobody asks yet

  AgentHostOptions options_;
  const std::string tasks_dir_, last_resorts_;
  SystemClock clock_;
  std::vector<FoundDir> found_;
  std::function<void(HostEvent)> emit_;
  std::map<TaskId, Task> tasks_;
  std::map<TaskId, TaskEnd> ended_;  ///< not told yet: their feeders may have news
  bool closing_ = false;             ///< of the worker
  LatestProgress progress_;
  std::unique_ptr<task::TaskServer> server_;
  std::unique_ptr<shim::ShimClient> shims_;
  std::unique_ptr<logs::LogShipper> shipper_;
  std::unique_ptr<Feeders> feeders_;
  os::SerialWorker publisher_;  ///< outputs go to the disk here: no task waits for what is large
  /// removes what tasks left: may take long, and starts and kills must not wait for it
  os::SerialWorker janitor_;
  os::SerialWorker worker_;  ///< last: its thread ends first
};

AgentHost::AgentHost(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AgentHost::~AgentHost() = default;

Result<std::unique_ptr<AgentHost>> AgentHost::start(AgentHostOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  DLRUN_TRY(impl->open());
  return std::unique_ptr<AgentHost>(new AgentHost(std::move(impl)));
}
std::vector<FoundTask> AgentHost::found() const { return impl_->found(); }
void AgentHost::begin(std::function<void(HostEvent)> emit) { impl_->begin(std::move(emit)); }
void AgentHost::perform(AgentEffect effect) { impl_->post(std::move(effect)); }

}  // namespace dlrun::cluster
