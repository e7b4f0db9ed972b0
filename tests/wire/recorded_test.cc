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

// The ends of splits, as they were written and said before leases carried them.
TEST(Recorded, WhatIsNoLongerWrittenIsToldAsWhatItIs) {
  const auto event = wire::decode_event(
      unhex("000000000e00000000000000040001000c0000000000000000000000000000000000000000000000"
            "0d000000000000000000000002000200040000000000000001000000000000000800000002000100"
            "0100000032000000747261696e000000000000000000000000000000000000000000000000000000"));
  ASSERT_FALSE(event);
  EXPECT_EQ(event.error().code, Errc::kUnsupported);
  EXPECT_NE(event.error().context.find("end the jobs that read inputs"), std::string::npos)
      << event.error().context;
  const auto from = wire::decode_from_agent(
      unhex("000000000e0000000000000001000300070000000000000008000000020001001000000002000000"
            "14000000020001000000000000000000000000000000000000000000000000000000000000000000"
            "0000000000000000040000000000000000000000000000000100000032000000747261696e000000"));
  ASSERT_FALSE(from);
  EXPECT_NE(from.error().context.find("before leases carried"), std::string::npos)
      << from.error().context;
  const auto to = wire::decode_to_agent(
      unhex("000000000e0000000000000001000300090000000000000008000000020001001000000002000000"
            "14000000020001000000000000000000000000000000000000000000000000000000000000000000"
            "0000000000000000040000000000000000000000000000000100000032000000747261696e000000"));
  ASSERT_FALSE(to);
  EXPECT_NE(to.error().context.find("before leases carried"), std::string::npos)
      << to.error().context;
}

}  // namespace
}  // namespace dlrun
