#pragma once
/// launcher/command_table.h: every command in one place: its name, its help, its flags, what it
/// calls. cli.cc parses by this table; a command that is not in it does not exist.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "launcher/commands.h"

namespace CLI {
class App;
}

namespace dlrun::launcher {

/// What the flags of any command are read into.
struct Line {
  bool json = false, quiet = false;
  RunFlags run;
  ListFlags list;
  LogFlags logs;
  EventFlags events;
  UpFlags up;
  ConnectFlags connect;
  std::int64_t minutes = 60;
  std::string job, file, reason, timeout, node;
  std::vector<std::string> jobs;
  bool out_only = false, err_only = false, hold = false;
  std::vector<std::string> extra;  ///< words that are nobody's flag: a forgotten --
};

struct Command {
  const char* name;
  const char* text;            ///< one line of help
  const char* footer;          ///< examples
  bool takes_program = false;  ///< what stands after -- is the user's
  void (*flags)(CLI::App&, Line&);
  int (*run)(Commands&, Line&);
};

/// In the order of the help.
std::span<const Command> command_table();

}  // namespace dlrun::launcher
