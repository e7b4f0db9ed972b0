#include "launcher/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "runtime/base/rng.h"

namespace dlrun::launcher {
namespace {

/// Everything written to two anonymous files.
struct Capture {
  World world;
  Capture() {
    world.out_fd = ::memfd_create("out", MFD_CLOEXEC);
    world.err_fd = ::memfd_create("err", MFD_CLOEXEC);
  }
  ~Capture() { ::close(world.out_fd), ::close(world.err_fd); }
  static std::string read(int fd) {
    std::string text(static_cast<std::size_t>(::lseek(fd, 0, SEEK_END)), '\0');
    EXPECT_EQ(::pread(fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    return text;
  }
  std::string out() const { return read(world.out_fd); }
  std::string err() const { return read(world.err_fd); }
};

TEST(TerminalFilter, LetsTextColoursAndCarriageReturnsPass) {
  const std::string good =
      "plain \xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\tx\r50%\n\x1b[1;31mred\x1b[0m\n";
  EXPECT_EQ(harmless(good), good);
}

TEST(TerminalFilter, EscapesWhatCouldHarmATerminal) {
  EXPECT_EQ(harmless("\x1b]0;title\x07"), "\\x1b]0;title\\x07");
  EXPECT_EQ(harmless("\x1b[2J\x1b[H"), "\\x1b[2J\\x1b[H");
  EXPECT_EQ(harmless("\x1b[6n"), "\\x1b[6n");
  EXPECT_EQ(harmless("\x1bP+q\x1b\\"), "\\x1bP+q\\x1b\\");
  EXPECT_EQ(harmless("a\bb\x7F"), "a\\x08b\\x7f");
  EXPECT_EQ(harmless("\x9b"
                     "2J"),
            "\\x9b2J")
      << "an eight-bit CSI";
  EXPECT_EQ(harmless("\xC2\x9B"
                     "2J"),
            "\\xc2\\x9b2J")
      << "the same as UTF-8";
  EXPECT_EQ(harmless("\xFF\xC3"), "\\xff\\xc3");
  EXPECT_EQ(harmless(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(harmless("\x1b[" + std::string(100, '1') + "m").substr(0, 5), "\\x1b[");
}

TEST(TerminalFilter, GivesTheSameWhereverThePiecesAreCut) {
  const std::string text =
      "\xC3\xA9\x1b[31mred\x1b[0m\xF0\x9F\x98\x80\x1b[2J\xE2\x82\x1b]0;x\x07\xC2\x85 end\x1b[3";
  const std::string whole = harmless(text);
  SplitMix64 rng(3);
  for (int round = 0; round < 200; ++round) {
    TerminalFilter filter;
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = 1 + rng.below(4);
      out += filter.feed(std::string_view(text).substr(at, n));
      at += n;
    }
    EXPECT_EQ(out + filter.flush(), whole);
  }
}

TEST(LogPrinter, IsExactForOneRank) {
  Capture capture;
  LogPrinter printer(capture.world, OutputStyle::kRaw, false, false);
  const std::string bytes("a\rb\0\xFF\xC3", 6);
  printer.print("worker", 0, 1, false, bytes);
  printer.print("worker", 0, 1, true, "err");
  printer.flush();
  EXPECT_EQ(capture.out(), bytes);
  EXPECT_EQ(capture.err(), "err");
}

TEST(LogPrinter, PrefixesEachLineOfSeveralRanksAndNeverMixesTwoInOne) {
  Capture capture;
  LogPrinter printer(capture.world, OutputStyle::kPrefixed, false, false);
  printer.print("worker", 0, 1, false, "he");
  printer.print("worker", 1, 1, false, "one\ntw");
  printer.print("worker", 0, 1, false, "llo\n");
  printer.print("worker", 1, 1, true, "oops\n");
  printer.flush();
  EXPECT_EQ(capture.out(), "[worker 1] one\n[worker 0] hello\n[worker 1] tw\n");
  EXPECT_EQ(capture.err(), "[worker 1] oops\n");
}

TEST(LogPrinter, KeepsALineOfAMegabyteWhole) {
  Capture capture;
  LogPrinter printer(capture.world, OutputStyle::kPrefixed, false, false);
  const std::string line(1'000'000, 'x');
  for (std::size_t at = 0; at < line.size(); at += 65536) {
    printer.print("worker", 0, 1, false, std::string_view(line).substr(at, 65536));
    printer.print("worker", 1, 1, false, "-\n");
  }
  printer.print("worker", 0, 1, false, "\n");
  EXPECT_NE(capture.out().find("[worker 0] " + line + "\n"), std::string::npos);
}

TEST(StatusLine, DrawsABarOnATerminalAndPlainLinesElsewhere) {
  Capture capture;
  StatusLine plain(capture.world, false);
  for (int i = 0; i <= 100; ++i) plain.progress(i / 100.0, "loss 0.5", true);
  plain.progress(std::nan(""), "", true);
  const std::string lines = capture.err();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 11);
  EXPECT_EQ(capture.err().find('\x1b'), std::string::npos);

  Capture terminal;
  terminal.world.err_tty = true;
  StatusLine bar(terminal.world, false);
  bar.progress(0.5, "half", true);
  bar.say("line");
  const std::string text = terminal.err();
  EXPECT_NE(text.find("\r[#############-------------]  50 % half\x1b[K"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("\x1b[2m"), std::string::npos) << "no colour without world.color";
  Capture quiet;
  StatusLine(quiet.world, true).say("x");
  EXPECT_EQ(quiet.err(), "");
}

TEST(Table, AlignsColumnsAndLeavesNoTrailingSpace) {
  EXPECT_EQ(table({{"A", "LONG", "C"}, {"aaa", "b", ""}}), "A    LONG  C\naaa  b\n");
}

}  // namespace
}  // namespace dlrun::launcher
