#include "launcher/sse_parser.h"

namespace dlrun::launcher {

bool SseParser::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto newline = bytes.find('\n');
    if (newline == std::string_view::npos) {
      partial_.append(bytes);
      return partial_.size() + event_.data.size() <= kEventBytesMax;
    }
    if (partial_.empty()) {
      line(bytes.substr(0, newline));
    } else {
      partial_.append(bytes.substr(0, newline));
      const std::string whole = std::move(partial_);
      partial_.clear();
      line(whole);
    }
    if (event_.data.size() > kEventBytesMax) return false;
    bytes.remove_prefix(newline + 1);
  }
  return true;
}

void SseParser::line(std::string_view text) {
  if (text.ends_with('\r')) text.remove_suffix(1);
  if (text.empty()) {
    if (has_data_) on_event_(event_);
    event_ = SseEvent{};
    has_data_ = false;
    return;
  }
  const auto colon = text.find(':');
  if (colon == 0) return;
  const std::string_view field = text.substr(0, colon);
  std::string_view value =
      colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "data") {
    if (has_data_) event_.data.push_back('\n');
    event_.data.append(value);
    has_data_ = true;
  } else if (field == "event") {
    event_.name = std::string(value);
  } else if (field == "id") {
    event_.id = std::string(value);
  }
}

}  // namespace dlrun::launcher
