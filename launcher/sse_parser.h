#pragma once
/// launcher/sse_parser.h: server-sent events (WHATWG) from pieces of a body.
/// Bounds: kEventBytesMax per event; beyond it the stream is broken.

#include <functional>
#include <string>
#include <string_view>

namespace dlrun::launcher {

struct SseEvent {
  std::string id, name, data;
};

class SseParser {
 public:
  static constexpr std::size_t kEventBytesMax = 32u << 20;
  explicit SseParser(std::function<void(const SseEvent&)> on_event)
      : on_event_(std::move(on_event)) {}
  bool feed(std::string_view bytes);  ///< false: a bound was passed

 private:
  void line(std::string_view text);
  std::function<void(const SseEvent&)> on_event_;
  std::string partial_;
  SseEvent event_;
  bool has_data_ = false;
};

}  // namespace dlrun::launcher
