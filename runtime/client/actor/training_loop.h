#pragma once
/// runtime/client/actor/training_loop.h: a training loop as an actor, in an actor system of its own
/// without a network. The loop is a CAF behaviour: it asks through `Job`, the answers are messages.
///
///   ask                      answer
///   job.read("train")        BatchReady, ..., PassEnded after each pass, InputEnded after the last
///   job.pull(table, batch)   RowsReady: the row of every key of the batch
///   job.barrier("name")      BarrierPassed
///   job.push, clock, leave, export_npy: no answer; done in the order asked
///   job.finish(code)         run() returns the code once all that was asked has been done
///
/// PassEnded and InputEnded come when every batch before them was let go (its last BatchPtr is
/// gone), so after the handlers that pushed what they learnt from it.
/// Threads: handlers run one at a time; two more threads do what waits (pipe; tables, barriers).
/// Bounds: at most `ahead` batches of an input are out of the ring; with 1, push and clock of a
///   batch come before the pull of the next, as BSP by the book has it.
/// Errors: whatever fails ends the loop: run() prints the reason and returns 1. PassEnded may be
///   left unhandled; any other message without a handler ends the loop too.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <caf/behavior.hpp>
#include <caf/event_based_actor.hpp>

#include "ps/core/msg.h"
#include "runtime/base/result.h"
#include "runtime/client/actor/batch.h"
#include "runtime/client/session.h"

namespace dlrun::loop {

/// A table of the loop, valid for its Job.
struct TableRef {
  std::uint32_t index = 0;
  friend bool operator==(const TableRef&, const TableRef&) = default;
};

struct BatchReady {
  BatchPtr batch;
};
/// rows [batch->keys().size(), dim]
struct RowsReady {
  TableRef table;
  BatchPtr batch;
  std::vector<float> rows;
};
struct PassEnded {
  std::string input;
  std::uint32_t pass = 0;
};
struct InputEnded {
  std::string input;
};
struct BarrierPassed {
  std::string name;
};

/// What a loop can ask. A value: copy it into the handlers. Every call returns at once.
class Job {
 public:
  std::uint32_t rank() const;
  std::uint32_t world() const;
  /// nullptr: the job has none of this name
  const io::InputSpec* input(const std::string& name) const;

  /// Makes or opens it on the shards before anything else is done with it. Every rank names the
  /// same schema.
  TableRef table(ps::TableSchema schema) const;
  void read(const std::string& input, std::uint32_t ahead = 3) const;
  void pull(TableRef table, BatchPtr batch) const;
  /// grads [keys, dim]
  void push(TableRef table, const BatchPtr& batch, std::vector<float> grads) const;
  void clock(TableRef table) const;
  /// of all tables: nobody waits for this rank's clock any more; pulls stay possible
  void leave() const;
  void barrier(const std::string& name) const;
  void export_npy(TableRef table, const std::string& path) const;
  void progress(double fraction, const std::string& text = {}) const;
  void finish(int code = 0) const;

  struct Impl;
  explicit Job(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Impl> impl_;
};

using Behaviour = std::function<caf::behavior(caf::event_based_actor*, Job)>;

/// Composition root of a training loop: connects through DLRUN_SOCKET and DLRUN_TOKEN, runs the
/// loop, returns its exit code (1 after an error, whose reason it has written to stderr).
int run(const Behaviour& behaviour);
/// The same on a session that is open already. The error is what ended the loop.
Result<int> run(std::shared_ptr<client::Session> session, const Behaviour& behaviour);

}  // namespace dlrun::loop

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(dlrun::loop::BatchReady)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(dlrun::loop::RowsReady)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(dlrun::loop::PassEnded)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(dlrun::loop::InputEnded)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(dlrun::loop::BarrierPassed)
