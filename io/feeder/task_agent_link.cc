#include "io/feeder/task_agent_link.h"

#include <variant>

namespace dlrun::io {

TaskAgentLink::TaskAgentLink() : connected_(promise_.get_future()) {}
TaskAgentLink::~TaskAgentLink() = default;

Status TaskAgentLink::connect(task::ClientOptions options, FeederEvents& events) {
  options.on_message = [&events](task::ToClient message) {
    if (const auto* admit = std::get_if<task::AdmitConsumer>(&message)) events.admit(*admit);
    if (const auto* drop = std::get_if<task::DropConsumer>(&message)) events.drop(drop->consumer);
    if (std::holds_alternative<task::StopNow>(message)) events.stop();
  };
  options.on_closed = [&events](const Error&) { events.stop(); };
  auto client = task::TaskClient::connect(std::move(options));
  if (client) client_ = std::move(*client);
  promise_.set_value(client_.get());
  if (!client) return tl::unexpected(client.error());
  return {};
}

Result<task::TaskClient*> TaskAgentLink::client() {
  task::TaskClient* const client = connected_.get();
  if (client == nullptr) return fail(Errc::kUnavailable, "the feeder has no agent");
  return client;
}

void TaskAgentLink::disconnect() { client_.reset(); }

Status TaskAgentLink::ready(const std::string& socket_path) {
  cluster::TaskReadyInfo info;
  info.ipc = socket_path;
  DLRUN_ASSIGN(auto* const to, client());
  return to->send(task::Ready{info});
}

Result<InputStart> TaskAgentLink::files(const TaskId& consumer, const std::string& input,
                                        const std::vector<FileEntry>& files, Duration timeout) {
  DLRUN_ASSIGN(auto* const to, client());
  return to->feeder_files(consumer, input, files, timeout);
}

Result<LeaseAnswer> TaskAgentLink::lease(const task::FeederLease& request, Duration timeout) {
  DLRUN_ASSIGN(auto* const to, client());
  return to->feeder_lease(request, timeout);
}

Status TaskAgentLink::gone(const TaskId& consumer) {
  DLRUN_ASSIGN(auto* const to, client());
  return to->send(task::FeederGone{consumer});
}

}  // namespace dlrun::io
