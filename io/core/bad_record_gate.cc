#include "io/core/bad_record_gate.h"

#include "runtime/base/base64.h"

namespace dlrun::io {

namespace {

std::string json_text(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char byte : text) {
    const auto c = static_cast<unsigned char>(byte);
    if (c == '"' || c == '\\') out += '\\';
    if (c >= 0x20 && c < 0x7f) {
      out += byte;
    } else {
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
    }
  }
  return out + '"';
}

}  // namespace

BadRecordGate::Verdict BadRecordGate::judge(const std::string& uri, std::uint64_t line,
                                            const BadRecord& bad, std::string_view raw) {
  ++seen_;
  Verdict verdict;
  const std::string place = describe(uri, line, bad);
  const bool bounded = action_ == BadRecordAction::kSkip || records_max_ != 0;
  if (action_ == BadRecordAction::kFail)
    verdict.over = Error{Errc::kInvalidArgument, place};
  else if (bounded && seen_ > records_max_)
    verdict.over =
        Error{Errc::kInvalidArgument, place + " (more than " + std::to_string(records_max_) +
                                          " bad records, which the job allows)"};
  else if (action_ == BadRecordAction::kQuarantine)
    verdict.quarantine = quarantine_line(uri, line, bad, raw);
  return verdict;
}

std::string quarantine_line(const std::string& uri, std::uint64_t line, const BadRecord& bad,
                            std::string_view raw) {
  return "{\"uri\": " + json_text(uri) + ", \"offset\": " + std::to_string(bad.offset) +
         ", \"line\": " + std::to_string(line) + ", \"column\": " + std::to_string(bad.column) +
         ", \"reason\": " + json_text(bad.reason) + ", \"record\": \"" +
         base64_encode(raw.substr(0, kQuarantinedBytesMax)) + "\"}\n";
}

}  // namespace dlrun::io
