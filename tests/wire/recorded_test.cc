// Bytes that version 0.1 wrote, kept in recorded-1.txt: they must decode to the same values for
// ever. DLRUN_RECORD=1 prints the lines of the present build, for the day a version is added; the
// lines of an old one are never replaced.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>

#include "runtime/wire/control_codec.h"
#include "runtime/wire/event_codec.h"
#include "tests/wire/samples.h"

namespace dlrun {
namespace {

std::string hex(const std::string& bytes) {
  static const char* digits = "0123456789abcdef";
  std::string out;
  for (const unsigned char c : bytes) {
    out += digits[c >> 4];
    out += digits[c & 15];
  }
  return out;
}

std::string unhex(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    out += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return out;
}

std::map<std::string, std::string> recorded() {
  std::ifstream file(std::string(std::getenv("DLRUN_SOURCE_DIR")) + "/tests/wire/recorded-1.txt");
  std::map<std::string, std::string> lines;
  std::string name, bytes;
  while (file >> name >> bytes) lines[name] = unhex(bytes);
  return lines;
}

template <class Messages, class Decode>
void check(const char* kind, const Messages& messages,
           const std::map<std::string, std::string>& lines, Decode decode) {
  const bool record = std::getenv("DLRUN_RECORD") != nullptr;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string name = kind + std::to_string(i);
    if (record) {
      std::cout << name << ' ' << hex(wire::encode(messages[i])) << '\n';
      continue;
    }
    const auto line = lines.find(name);
    ASSERT_NE(line, lines.end()) << name << " has no recorded bytes";
    const auto back = decode(line->second);
    ASSERT_TRUE(back.has_value()) << name << ": " << back.error().to_string();
    EXPECT_TRUE(*back == messages[i]) << name;
  }
}

TEST(Recorded, VersionOneOfEveryMessageAndEventStillReadsTheSame) {
  const auto lines = recorded();
  check("to_agent_", wire_test::to_agent(), lines, wire::decode_to_agent);
  check("from_agent_", wire_test::from_agent(), lines, wire::decode_from_agent);
  check("event_", wire_test::events(), lines, wire::decode_event);
}

}  // namespace
}  // namespace dlrun
