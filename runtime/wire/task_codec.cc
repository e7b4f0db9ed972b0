#include "runtime/wire/task_codec.h"

#include "runtime/base/overload.h"
#include "runtime/wire/common_codec.h"
#include "runtime/wire/task.capnp.h"

namespace dlrun::wire {
namespace {

using Server = schema::TaskToServer;
using Client = schema::TaskToClient;

/// 0 = none. A code of a newer peer reads as kInternal; its context stays.
Errc get_errc(std::uint32_t code) {
  if (code == 0) return Errc{};
  return code <= static_cast<std::uint32_t>(Errc::kInternal) ? static_cast<Errc>(code)
                                                             : Errc::kInternal;
}

Result<task::ToServer> get_server(Server::Reader r) {
  switch (r.which()) {
    case Server::HELLO: {
      const auto m = r.getHello();
      task::Hello to;
      to.version = m.getVersion();
      DLRUN_ASSIGN(to.kind, get_enum(m.getKind(), task::PeerKind::kFeeder, "peer kind"));
      DLRUN_ASSIGN(to.token, get_token(m.getToken()));
      to.pid = m.getPid();
      return to;
    }
    case Server::READY:
      return task::Ready{{to_string(r.getReady().getTcp()), to_string(r.getReady().getIpc())}};
    case Server::PROGRESS:
      return task::ReportProgress{r.getProgress().getFraction(),
                                  to_string(r.getProgress().getText())};
    case Server::BARRIER:
      return task::EnterBarrier{to_string(r.getBarrier().getName()), r.getBarrier().getRound()};
    case Server::OPEN_INPUT:
      return task::OpenInput{r.getOpenInput().getRequest(), to_string(r.getOpenInput().getInput())};
    case Server::FEEDER_FILES: {
      const auto m = r.getFeederFiles();
      task::FeederFiles to;
      to.request = m.getRequest();
      DLRUN_ASSIGN(to.consumer, get(m.getConsumer()));
      to.input = to_string(m.getInput());
      to.files = get(m.getFiles());
      return to;
    }
    case Server::FEEDER_LEASE: {
      const auto m = r.getFeederLease();
      task::FeederLease to;
      to.request = m.getRequest();
      DLRUN_ASSIGN(to.consumer, get(m.getConsumer()));
      to.input = to_string(m.getInput());
      to.splits_max = m.getSplitsMax();
      to.resync = m.getResync();
      to.held = get(m.getHeld());
      to.done = get(m.getDone());
      to.steps = get(m.getSteps());
      return to;
    }
    case Server::COMMIT_INPUTS: {
      const auto m = r.getCommitInputs();
      return task::CommitInputs{m.getRequest(), to_string(m.getTag()), get(m.getInputs())};
    }
    case Server::FEEDER_GONE: {
      task::FeederGone to;
      DLRUN_ASSIGN(to.consumer, get(r.getFeederGone().getConsumer()));
      return to;
    }
    case Server::PS_REPORT:
      return task::PsReport{to_string(r.getPsReport().getReport())};
    case Server::OBSOLETE22:
      break;
  }
  return fail(Errc::kUnsupported,
              "message " + std::to_string(static_cast<unsigned>(r.which())) + " of a newer client");
}

Result<task::ToClient> get_client(Client::Reader r) {
  switch (r.which()) {
    case Client::WELCOME: {
      const auto m = r.getWelcome();
      task::Welcome to;
      to.version = m.getVersion();
      DLRUN_ASSIGN(to.task, get(m.getTask()));
      to.epoch = get(m.getEpoch());
      to.world = m.getWorld();
      to.job_name = to_string(m.getJobName());
      DLRUN_ASSIGN(to.ps, get(m.getPs()));
      DLRUN_ASSIGN(to.inputs, get(m.getInputs()));
      to.restore = {to_string(m.getRestoreFolder()), m.getRestoreDigest()};
      to.commit_number = m.getCommitNumber();
      to.commit_tag = to_string(m.getCommitTag());
      return to;
    }
    case Client::REFUSED: {
      const Errc code = get_errc(r.getRefused().getCode());
      return task::Refused{code == Errc{} ? Errc::kInternal : code,
                           to_string(r.getRefused().getReason())};
    }
    case Client::BARRIER_PASSED:
      return task::BarrierPassed{to_string(r.getBarrierPassed().getName()),
                                 r.getBarrierPassed().getRound()};
    case Client::INPUT_AT: {
      const auto m = r.getInputAt();
      task::InputAt to;
      to.request = m.getRequest();
      to.error = get_errc(m.getError());
      to.error_context = to_string(m.getErrorContext());
      to.feeder_socket = to_string(m.getFeederSocket());
      DLRUN_ASSIGN(to.consumer_token, get_token(m.getConsumerToken()));
      return to;
    }
    case Client::WORKER_LEFT: {
      task::WorkerLeft to;
      DLRUN_ASSIGN(to.worker, get(r.getWorkerLeft().getWorker()));
      return to;
    }
    case Client::ADMIT_CONSUMER: {
      const auto m = r.getAdmitConsumer();
      task::AdmitConsumer to;
      DLRUN_ASSIGN(to.token, get_token(m.getToken()));
      DLRUN_ASSIGN(to.consumer, get(m.getConsumer()));
      to.epoch = get(m.getEpoch());
      DLRUN_ASSIGN(to.input, get(m.getInput()));
      return to;
    }
    case Client::DROP_CONSUMER: {
      task::DropConsumer to;
      DLRUN_ASSIGN(to.consumer, get(r.getDropConsumer().getConsumer()));
      return to;
    }
    case Client::FEEDER_REPLY: {
      const auto m = r.getFeederReply();
      task::FeederReply to;
      to.request = m.getRequest();
      to.error = get_errc(m.getError());
      to.error_context = to_string(m.getErrorContext());
      DLRUN_ASSIGN(to.answer, get(m.getAnswer()));
      return to;
    }
    case Client::COMMITTED: {
      const auto m = r.getCommitted();
      return task::Committed{m.getRequest(), m.getNumber(), get_errc(m.getError()),
                             to_string(m.getErrorContext())};
    }
    case Client::STOP_NOW:
      return task::StopNow{};
    case Client::PS_ORDER:
      return task::PsOrder{to_string(r.getPsOrder().getOrder())};
  }
  return fail(Errc::kUnsupported,
              "message " + std::to_string(static_cast<unsigned>(r.which())) + " of a newer agent");
}

}  // namespace

std::string encode(const task::ToServer& message) {
  capnp::MallocMessageBuilder builder;
  auto root = builder.initRoot<Server>();
  std::visit(
      Overload{
          [&](const task::Hello& m) {
            auto to = root.initHello();
            to.setVersion(m.version);
            to.setKind(static_cast<std::uint8_t>(m.kind));
            to.setToken(token_data(m.token));
            to.setPid(m.pid);
          },
          [&](const task::Ready& m) {
            auto to = root.initReady();
            to.setTcp(m.info.tcp);
            to.setIpc(data_of(m.info.ipc));
          },
          [&](const task::ReportProgress& m) {
            auto to = root.initProgress();
            to.setFraction(m.fraction);
            to.setText(m.text);
          },
          [&](const task::EnterBarrier& m) {
            auto to = root.initBarrier();
            to.setName(m.name);
            to.setRound(m.round);
          },
          [&](const task::OpenInput& m) {
            auto to = root.initOpenInput();
            to.setRequest(m.request);
            to.setInput(m.input);
          },
          [&](const task::FeederFiles& m) {
            auto to = root.initFeederFiles();
            to.setRequest(m.request);
            put(to.initConsumer(), m.consumer);
            to.setInput(m.input);
            put(to.initFiles(static_cast<unsigned>(m.files.size())), m.files);
          },
          [&](const task::FeederLease& m) {
            auto to = root.initFeederLease();
            to.setRequest(m.request);
            put(to.initConsumer(), m.consumer);
            to.setInput(m.input);
            to.setSplitsMax(m.splits_max);
            to.setResync(m.resync);
            put(to.initHeld(static_cast<unsigned>(m.held.size())), m.held);
            put(to.initDone(static_cast<unsigned>(m.done.size())), m.done);
            put(to.initSteps(static_cast<unsigned>(m.steps.size())), m.steps);
          },
          [&](const task::CommitInputs& m) {
            auto to = root.initCommitInputs();
            to.setRequest(m.request);
            to.setTag(data_of(m.tag));
            put(to.initInputs(static_cast<unsigned>(m.inputs.size())), m.inputs);
          },
          [&](const task::FeederGone& m) { put(root.initFeederGone().initConsumer(), m.consumer); },
          [&](const task::PsReport& m) { root.initPsReport().setReport(data_of(m.report)); },
      },
      message);
  return to_bytes(builder);
}

std::string encode(const task::ToClient& message) {
  capnp::MallocMessageBuilder builder;
  auto root = builder.initRoot<Client>();
  std::visit(
      Overload{
          [&](const task::Welcome& m) {
            auto to = root.initWelcome();
            to.setVersion(m.version);
            put(to.initTask(), m.task);
            put(to.initEpoch(), m.epoch);
            to.setWorld(m.world);
            to.setJobName(m.job_name);
            put(to.initPs(), m.ps);
            put(to.initInputs(static_cast<unsigned>(m.inputs.size())), m.inputs);
            if (!m.restore.folder.empty()) to.setRestoreFolder(m.restore.folder);
            to.setRestoreDigest(m.restore.digest);
            to.setCommitNumber(m.commit_number);
            to.setCommitTag(data_of(m.commit_tag));
          },
          [&](const task::Refused& m) {
            auto to = root.initRefused();
            to.setCode(static_cast<std::uint32_t>(m.code));
            to.setReason(m.reason);
          },
          [&](const task::BarrierPassed& m) {
            auto to = root.initBarrierPassed();
            to.setName(m.name);
            to.setRound(m.round);
          },
          [&](const task::InputAt& m) {
            auto to = root.initInputAt();
            to.setRequest(m.request);
            to.setError(static_cast<std::uint32_t>(m.error));
            to.setErrorContext(m.error_context);
            to.setFeederSocket(data_of(m.feeder_socket));
            to.setConsumerToken(token_data(m.consumer_token));
          },
          [&](const task::WorkerLeft& m) { put(root.initWorkerLeft().initWorker(), m.worker); },
          [&](const task::AdmitConsumer& m) {
            auto to = root.initAdmitConsumer();
            to.setToken(token_data(m.token));
            put(to.initConsumer(), m.consumer);
            put(to.initEpoch(), m.epoch);
            put(to.initInput(), m.input);
          },
          [&](const task::DropConsumer& m) {
            put(root.initDropConsumer().initConsumer(), m.consumer);
          },
          [&](const task::FeederReply& m) {
            auto to = root.initFeederReply();
            to.setRequest(m.request);
            to.setError(static_cast<std::uint32_t>(m.error));
            to.setErrorContext(m.error_context);
            put(to.initAnswer(), m.answer);
          },
          [&](const task::Committed& m) {
            auto to = root.initCommitted();
            to.setRequest(m.request);
            to.setNumber(m.number);
            to.setError(static_cast<std::uint32_t>(m.error));
            to.setErrorContext(m.error_context);
          },
          [&](const task::StopNow&) { root.setStopNow(); },
          [&](const task::PsOrder& m) { root.initPsOrder().setOrder(data_of(m.order)); },
      },
      message);
  return to_bytes(builder);
}

Result<task::ToServer> decode_to_server(std::string_view bytes) {
  return from_bytes<Server>(bytes, "message of a task", get_server);
}

Result<task::ToClient> decode_to_client(std::string_view bytes) {
  return from_bytes<Client>(bytes, "message of the agent", get_client);
}

Result<std::string> frame(std::string message) {
  if (message.size() > kTaskFrameBytesMax) {
    return fail(Errc::kInvalidArgument, "a message of " + std::to_string(message.size()) +
                                            " bytes is over the 16 MiB bound");
  }
  std::string head;
  for (int i = 0; i < 4; ++i) head.push_back(static_cast<char>(message.size() >> (8 * i)));
  message.insert(0, head);
  return message;
}

Result<bool> unframe(std::string_view buffer, std::size_t& consumed, std::string_view& message) {
  buffer.remove_prefix(consumed);
  if (buffer.size() < 4) return false;
  std::size_t size = 0;
  for (std::size_t i = 4; i-- > 0;) size = size << 8 | static_cast<std::uint8_t>(buffer[i]);
  if (size == 0 || size > kTaskFrameBytesMax) {
    return fail(Errc::kCorrupt, "a frame of " + std::to_string(size) + " bytes");
  }
  if (buffer.size() - 4 < size) return false;
  message = buffer.substr(4, size);
  consumed += 4 + size;
  return true;
}

}  // namespace dlrun::wire
