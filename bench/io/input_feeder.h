#pragma once
/// bench/io/input_feeder.h: a feeder with its consumers in one process, and a LedgerCore in place
/// of the job: what a benchmark of one input needs. Whatever fails ends the program with its
/// reason.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/core/ledger_core.h"
#include "io/feeder/feeder.h"
#include "io/pipe/reader.h"
#include "io/source/local_source.h"

namespace dlrun::bench {

[[noreturn]] void fail_bench(const Error& error);

template <class T>
T get(Result<T> result) {
  if (!result) fail_bench(result.error());
  return std::move(*result);
}

/// A folder of its own under the temporary one; gone with the object.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

class InputFeeder {
 public:
  /// `from`: a commit that the input goes on from. `folder` outlives it.
  InputFeeder(io::InputSpec spec, const Folder& folder, std::uint32_t world = 1,
              const std::optional<io::LedgerState>& from = {});
  std::unique_ptr<io::PipeReader> attach(std::uint32_t rank);
  io::LedgerState commit(const std::vector<io::ConsumerCursor>& consumers);
  static TaskId consumer(std::uint32_t rank) { return {JobId(1), "worker", rank, Generation(1)}; }

 private:
  /// The agent and the job.
  class Link final : public io::AgentLink {
   public:
    Link(const io::InputSpec& spec, std::uint32_t world, std::optional<io::LedgerState> from)
        : ledger_({spec}), world_(world), from_(std::move(from)) {}
    Status ready(const std::string&) override { return {}; }
    Result<io::InputStart> files(const TaskId& consumer, const std::string& input,
                                 const std::vector<io::FileEntry>& files, Duration) override;
    Result<io::LeaseAnswer> lease(const task::FeederLease& request, Duration) override;
    Status gone(const TaskId&) override { return {}; }
    io::LedgerState commit(const std::vector<io::ConsumerCursor>& consumers);

   private:
    std::mutex mutex_;
    io::LedgerCore ledger_;
    const std::uint32_t world_;
    std::optional<io::LedgerState> from_;
  };

  const io::InputSpec spec_;
  const std::string socket_;
  io::LocalSource source_;
  Link link_;
  io::Feeder feeder_;
};

}  // namespace dlrun::bench
