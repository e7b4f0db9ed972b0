#pragma once
/// runtime/wire/logs_codec.h: the header frame between LogShipper and LogReceiver. No capnp in this
/// header.

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/ids.h"
#include "runtime/base/result.h"

namespace dlrun::wire {

enum class LogKind : std::uint8_t {
  kAsk = 1,
  kAppend = 2,
  kFinish = 3,
  kAskAnswer = 11,
  kAppendAnswer = 12,
  kFinishAnswer = 13,
};

struct LogHeader {
  LogKind kind{};
  std::uint64_t request = 0;
  TaskId task;
  std::uint8_t stream = 1;  ///< 1 stdout, 2 stderr
  std::uint64_t offset = 0;
  bool gap = false;
  Errc error{};
  std::string error_context;
  Epoch epoch;        ///< questions: of the task's placement
  std::string proof;  ///< questions: that the sender was given the task under that epoch
};

std::string encode(const LogHeader& header);
Result<LogHeader> decode_log_header(std::string_view bytes);  ///< kCorrupt

}  // namespace dlrun::wire
