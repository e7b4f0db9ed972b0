#pragma once
/// launcher/terminal.h: user output on its way to a terminal or a pipe. Bytes are exact unless a
/// filter is asked for.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "launcher/world.h"

namespace dlrun::launcher {

/// Makes bytes harmless to a terminal: newline, tab, carriage return and colours (SGR) pass,
/// printable UTF-8 passes, every other control character, escape sequence, C1 control and byte that
/// is not UTF-8 becomes \xNN. Keeps its place across pieces.
class TerminalFilter {
 public:
  std::string feed(std::string_view bytes);
  std::string flush();  ///< what was held back at the end

 private:
  static constexpr std::size_t kSgrBytesMax = 32;
  std::string held_;  ///< a cut UTF-8 character or a cut SGR sequence
};

enum class OutputStyle {
  kRaw,       ///< bytes as they come
  kPrefixed,  ///< "[worker 3] " before each line, whole lines only
};

/// Writes the pieces of a job's logs. With `prefixed` a line is held until its end (at most
/// kLineBytesMax).
class LogPrinter {
 public:
  static constexpr std::size_t kLineBytesMax = 2u << 20;

  LogPrinter(const World& world, OutputStyle style, bool filter_out, bool filter_err)
      : world_(&world), style_(style), filter_out_(filter_out), filter_err_(filter_err) {}
  /// false when the reader of that stream is gone (a closed pipe).
  bool print(const std::string& role, std::uint32_t rank, std::uint32_t generation, bool is_stderr,
             std::string_view bytes);
  void flush();
  /// Whether the cursor stands at the start of a line, as far as we wrote.
  bool at_line_start() const { return at_line_start_; }

 private:
  using Key = std::tuple<std::string, std::uint32_t, std::uint32_t, bool>;
  struct Stream {
    std::string line;
    bool mid_line = false;  ///< part of the line was written already
    TerminalFilter filter;
  };
  bool write(bool is_stderr, std::string_view bytes);
  std::string prefix(const Key& key) const;

  const World* world_;
  OutputStyle style_;
  bool filter_out_, filter_err_;
  std::map<Key, Stream> streams_;
  bool at_line_start_ = true;
};

/// dlrun's own lines on stderr: "dlrun: ...". On a terminal a progress bar stands on the last line
/// and moves out of the way.
class StatusLine {
 public:
  StatusLine(const World& world, bool quiet) : world_(world), quiet_(quiet) {}
  void say(std::string_view text);
  /// fraction in [0, 1]. Not a terminal: a line at each further tenth.
  void progress(double fraction, std::string_view text, bool at_line_start);
  void hide();  ///< before anything else is written

 private:
  const World& world_;
  bool quiet_;
  bool shown_ = false;
  int last_tenth_ = -1;
  std::string last_bar_;
};

/// A table with aligned columns. Cells are written as they are: pass what may hold anything through
/// harmless().
std::string table(const std::vector<std::vector<std::string>>& rows);
/// TerminalFilter over one whole string, newlines kept
std::string harmless(std::string_view text);

}  // namespace dlrun::launcher
