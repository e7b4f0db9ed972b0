#pragma once
/// web/log_pumps.h: the bytes of logs: one stored range as a body; one stream, or all of a job's,
/// followed live.
/// Bytes are exact: events carry base64. A pump reads from the store at the pace of its reader.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "web/context.h"

namespace dlrun::web {

/// [begin, end) of one stream, as it stands; cut off when rotation drops bytes on the way.
class LogBodyPump final : public Pump {
 public:
  LogBodyPump(const Context& context, LogRef ref, std::uint64_t begin, std::uint64_t end)
      : context_(context), ref_(std::move(ref)), at_(begin), end_(end) {}
  void start(Sink& sink) override;
  void on_writable() override;
  void stop() override { sink_ = nullptr; }

 private:
  const Context& context_;
  LogRef ref_;
  std::uint64_t at_, end_;
  Sink* sink_ = nullptr;
};

struct LogFilter {
  std::string role;  ///< "" = any
  std::optional<std::uint32_t> rank;
  std::optional<LogStream> stream;
  std::optional<std::uint32_t> generation;  ///< else all of them, in the order they start
  std::map<LogRef, std::uint64_t> from;     ///< where to begin, for streams not at 0
  /// streams not in `from` begin this far before their end
  std::optional<std::uint64_t> tail_bytes;
  bool follow = true;   ///< false: ends when everything stored has been sent
  bool single = false;  ///< the form for one stream: id = next offset, data = base64 alone
};

/// Form of many: `event: log`, data = {"role","rank","generation","stream","offset","bytes"}. Form
/// of one: `event: log`, id = offset of the next byte, data = base64. `event: gap` where rotation
/// dropped bytes, {"from","to"} (and the stream's name). `event: end` when the job is over and
/// every stream is complete, or silent for options.log_grace.
class LogFollowPump final : public Pump, public std::enable_shared_from_this<LogFollowPump> {
 public:
  LogFollowPump(const Context& context, cluster::JobView view, LogFilter filter);
  void start(Sink& sink) override;
  void on_writable() override { pump(); }
  void stop() override;

 private:
  struct Stream {
    LogRef ref;
    std::uint64_t at = 0;
    bool positioned = false;  ///< tail was applied
    bool complete = false;
    bool known = false;  ///< the store has heard of it
    bool never_started = false;
    std::shared_ptr<std::atomic<bool>> dirty;
    std::shared_ptr<void> handle;
  };
  void take_view(const cluster::JobView& view);
  void add(const LogRef& ref, bool never_started);
  bool wanted(const LogRef& ref) const;
  void refresh();
  void arm_recheck();
  void pump();
  void step(Stream& stream);
  void check_end();
  std::string event(const Stream& stream, const std::string& bytes) const;

  const Context& context_;
  JobId job_;
  LogFilter filter_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::map<LogRef, std::size_t> index_;
  std::size_t turn_ = 0;
  Sink* sink_ = nullptr;
  std::shared_ptr<void> watch_, timer_, recheck_;
  std::shared_ptr<std::atomic<bool>> posted_ = std::make_shared<std::atomic<bool>>(false);
  bool asking_ = false, again_ = false, final_ = false, listed_ = false, pumping_ = false,
       grace_over_ = false;
};

}  // namespace dlrun::web
