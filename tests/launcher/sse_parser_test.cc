#include "launcher/sse_parser.h"

#include <gtest/gtest.h>

#include <vector>

namespace dlrun::launcher {
namespace {

TEST(SseParser, ReadsEventsWhereverThePiecesAreCut) {
  const std::string text =
      ": comment\n\nid: 7\nevent: log\ndata: abc\n\ndata: a\r\ndata:b\r\n\r\nevent: nothing\n\n";
  for (std::size_t cut = 1; cut < text.size(); ++cut) {
    std::vector<SseEvent> events;
    SseParser parser([&](const SseEvent& event) { events.push_back(event); });
    EXPECT_TRUE(parser.feed(std::string_view(text).substr(0, cut)));
    EXPECT_TRUE(parser.feed(std::string_view(text).substr(cut)));
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[0].id, "7");
    EXPECT_EQ(events[0].name, "log");
    EXPECT_EQ(events[0].data, "abc");
    EXPECT_EQ(events[1].data, "a\nb");
    EXPECT_EQ(events[1].name, "");
  }
}

TEST(SseParser, StopsAtItsBound) {
  SseParser parser([](const SseEvent&) {});
  bool ok = true;
  const std::string piece(1 << 20, 'x');
  for (int i = 0; i < 64 && ok; ++i) ok = parser.feed(piece);
  EXPECT_FALSE(ok);
}

}  // namespace
}  // namespace dlrun::launcher
