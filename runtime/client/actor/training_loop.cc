#include "runtime/client/actor/training_loop.h"

#include <atomic>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <mutex>
#include <optional>

#include "runtime/client/input.h"
#include "runtime/client/table.h"

namespace dlrun::loop {
namespace {

constexpr Duration kCallTimeout = std::chrono::minutes(10);
constexpr Duration kOpenTimeout = std::chrono::minutes(1);
/// how soon a waiting reader notices the end
constexpr Duration kReadSlice = std::chrono::milliseconds(200);

/// Something that may wait, for the detached actor that does such things one after the other.
struct Command {
  std::function<Status()> run;
};
/// To a reader: a batch of its was let go; the first one starts it.
struct Returned {};

}  // namespace
}  // namespace dlrun::loop

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(dlrun::loop::Command)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(dlrun::loop::Returned)

namespace dlrun::loop {

struct Job::Impl {
  std::shared_ptr<client::Session> session;
  caf::actor_system* system = nullptr;
  caf::actor loop;
  caf::actor commands;
  std::vector<caf::actor> readers;  // touched by the loop's handlers, and after the loop's end
  std::vector<std::unique_ptr<client::Table>> tables;  // touched by `commands` only
  std::uint32_t table_count = 0;                       // touched by the loop only
  std::atomic<bool> ended{false};
  std::promise<Result<int>> outcome;
  std::once_flag outcome_set;

  void end(Result<int> result) {
    std::call_once(outcome_set, [&] {
      ended = true;
      outcome.set_value(std::move(result));
    });
  }
  void ask(std::function<Status()> run) { caf::anon_send(commands, Command{std::move(run)}); }
};

namespace {

caf::behavior command_actor(caf::event_based_actor*, std::shared_ptr<Job::Impl> impl) {
  return {[impl](Command& command) {
    if (impl->ended) return;
    if (const Status status = command.run(); !status) impl->end(tl::unexpected(status.error()));
  }};
}

struct Reader {
  std::shared_ptr<Job::Impl> impl;
  std::string name;
  std::uint32_t ahead = 1;
  std::shared_ptr<client::Input> input;
  std::uint32_t out = 0;               ///< batches not let go yet
  std::optional<std::uint32_t> ended;  ///< this pass is over; told once `out` is 0
  bool over = false;                   ///< all of them are; told likewise
};

/// Sends batches until `ahead` are out. A mark waits until none is: what the loop does with the
/// last batch before it comes first.
Status pump(caf::event_based_actor* self, Reader& reader) {
  // a batch that outlives the reader must not keep it alive
  const auto me = caf::actor_cast<caf::actor_addr>(self);
  while (reader.out < reader.ahead && !reader.impl->ended) {
    if (reader.over || reader.ended) {
      if (reader.out > 0) return {};
      if (reader.over) {
        caf::anon_send(reader.impl->loop, InputEnded{reader.name});
        self->quit();
        return {};
      }
      caf::anon_send(reader.impl->loop, PassEnded{reader.name, *reader.ended});
      reader.ended.reset();
    }
    auto view = reader.input->next(kReadSlice);
    if (!view && view.error().code == Errc::kDeadlineExceeded) continue;
    reader.over = !view && view.error().code == Errc::kEndOfData;
    if (reader.over) continue;
    DLRUN_TRY(view);
    if (view->pass_ended) {
      reader.ended = view->pass;
      continue;
    }
    auto released = [input = reader.input, me](const io::BatchView& done) {
      if (!done.no_rows) static_cast<void>(input->release(done.sequence));
      if (auto to = caf::actor_cast<caf::actor>(me)) caf::anon_send(to, Returned{});
    };
    ++reader.out;
    caf::anon_send(reader.impl->loop, BatchReady{std::make_shared<const Batch>(
                                          reader.name, *view, std::move(released))});
  }
  return {};
}

Status open_input(Reader& reader) {
  DLRUN_ASSIGN(reader.input, client::Input::open(reader.impl->session, reader.name, kOpenTimeout));
  reader.ahead = std::min(reader.ahead, reader.input->held_max());
  return {};
}

caf::behavior reader_actor(caf::event_based_actor* self, const std::shared_ptr<Reader>& reader) {
  return {[self, reader](Returned) {
    const bool first = !reader->input;
    Status status = first ? open_input(*reader) : Status{};
    if (!first) --reader->out;
    if (status) status = pump(self, *reader);
    if (!status) reader->impl->end(tl::unexpected(status.error()));
  }};
}

caf::behavior loop_actor(caf::event_based_actor* self, const std::shared_ptr<Job::Impl>& impl,
                         const Behaviour* behaviour) {
  impl->loop = caf::actor(self);
  self->set_exception_handler([impl](std::exception_ptr& thrown) -> caf::error {
    std::string what = "the loop threw something that is no std::exception";
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
      what = std::string("the loop threw: ") + error.what();
    } catch (...) {
    }
    impl->end(fail(Errc::kInternal, what));
    return caf::exit_reason::unhandled_exception;
  });
  self->set_default_handler(
      [impl](caf::scheduled_actor*, caf::message_view& view) -> caf::result<caf::message> {
        auto& content = view.content();
        if (!content.match_elements<PassEnded>()) {
          impl->end(fail(Errc::kFailedPrecondition,
                         "the loop has no handler for " + caf::to_string(content)));
        }
        return caf::make_message();
      });
  return (*behaviour)(self, Job(impl));
}

}  // namespace

std::uint32_t Job::rank() const { return impl_->session->welcome().task.rank; }
std::uint32_t Job::world() const { return impl_->session->welcome().world; }

const io::InputSpec* Job::input(const std::string& name) const {
  for (const auto& input : impl_->session->welcome().inputs) {
    if (input.name == name) return &input;
  }
  return nullptr;
}

TableRef Job::table(ps::TableSchema schema) const {
  impl_->ask([impl = impl_.get(), schema = std::move(schema)]() -> Status {
    DLRUN_ASSIGN(auto table, client::Table::open(impl->session, schema, kCallTimeout));
    impl->tables.push_back(std::move(table));
    return {};
  });
  return TableRef{impl_->table_count++};
}

void Job::read(const std::string& input, std::uint32_t ahead) const {
  auto reader = std::make_shared<Reader>();
  reader->impl = impl_;
  reader->name = input;
  reader->ahead = std::max(ahead, 1u);
  impl_->readers.push_back(impl_->system->spawn<caf::detached>(reader_actor, std::move(reader)));
  caf::anon_send(impl_->readers.back(), Returned{});
}

void Job::pull(TableRef table, BatchPtr batch) const {
  impl_->ask([impl = impl_.get(), table, batch = std::move(batch)]() -> Status {
    auto& from = *impl->tables[table.index];
    std::vector<float> rows(batch->keys().size() * from.schema().dim);
    DLRUN_TRY(from.pull(batch->keys(), rows, kCallTimeout));
    caf::anon_send(impl->loop, RowsReady{table, batch, std::move(rows)});
    return {};
  });
}

void Job::push(TableRef table, const BatchPtr& batch, std::vector<float> grads) const {
  // the batch's slot need not wait for the push
  std::vector<std::uint64_t> keys(batch->keys().begin(), batch->keys().end());
  impl_->ask([impl = impl_.get(), table, keys = std::move(keys), grads = std::move(grads)] {
    return impl->tables[table.index]->push(keys, grads, kCallTimeout);
  });
}

void Job::clock(TableRef table) const {
  impl_->ask(
      [impl = impl_.get(), table] { return impl->tables[table.index]->clock(kCallTimeout); });
}

void Job::leave() const {
  impl_->ask([impl = impl_.get()] { return impl->session->leave(kCallTimeout); });
}

void Job::barrier(const std::string& name) const {
  impl_->ask([impl = impl_.get(), name]() -> Status {
    DLRUN_TRY(impl->session->barrier(name, kCallTimeout));
    caf::anon_send(impl->loop, BarrierPassed{name});
    return {};
  });
}

void Job::export_npy(TableRef table, const std::string& path) const {
  impl_->ask([impl = impl_.get(), table, path] {
    return impl->tables[table.index]->export_npy(path, kCallTimeout);
  });
}

void Job::progress(double fraction, const std::string& text) const {
  // a progress line that is lost ends no training
  static_cast<void>(impl_->session->progress(fraction, text));
}

void Job::finish(int code) const {
  impl_->ask([impl = impl_.get(), code]() -> Status {
    impl->end(code);
    return {};
  });
}

Result<int> run(std::shared_ptr<client::Session> session, const Behaviour& behaviour) {
  caf::actor_system_config config;
  config.set("scheduler.policy", caf::atom("sharing"));  // the stealing policy polls
  // one loop; what waits has threads of its own
  config.set("scheduler.max-threads", std::size_t{1});
  caf::actor_system system(config);
  auto impl = std::make_shared<Job::Impl>();
  impl->session = std::move(session);
  impl->system = &system;
  auto outcome = impl->outcome.get_future();
  impl->commands = system.spawn<caf::detached>(command_actor, impl);
  auto loop = system.spawn(loop_actor, impl, &behaviour);
  Result<int> result = outcome.get();
  caf::anon_send_exit(loop, caf::exit_reason::user_shutdown);
  for (auto& reader : impl->readers) caf::anon_send_exit(reader, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(impl->commands, caf::exit_reason::user_shutdown);
  caf::scoped_actor waiter(system);
  waiter->wait_for(loop);
  for (auto& reader : impl->readers) waiter->wait_for(reader);
  waiter->wait_for(impl->commands);
  // the actors are gone: nobody else touches these, and their handles must not outlive the system
  impl->tables.clear();
  impl->readers.clear();
  impl->loop = nullptr;
  impl->commands = nullptr;
  return result;
}

int run(const Behaviour& behaviour) {
  auto say = [](const Error& error) {
    std::fprintf(stderr, "training loop: %s\n", error.to_string().c_str());
    return 1;
  };
  const char* socket = std::getenv("DLRUN_SOCKET");
  const char* token = std::getenv("DLRUN_TOKEN");
  if (socket == nullptr || token == nullptr) {
    return say({Errc::kFailedPrecondition,
                "not a dlrun task (DLRUN_SOCKET, DLRUN_TOKEN): start it with `dlrun run`"});
  }
  auto agent = task::client_options(socket, token, task::PeerKind::kUser);
  if (!agent) return say(agent.error());
  auto session = client::Session::open(std::move(*agent));
  if (!session) return say(session.error());
  auto code = run(std::move(*session), behaviour);
  return code ? *code : say(code.error());
}

}  // namespace dlrun::loop
