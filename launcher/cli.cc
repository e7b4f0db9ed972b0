// The command line: from words to a command of command_table.h, or to what is wrong with them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>

#include "launcher/command_table.h"
#include "launcher/launcher_main.h"
#include "launcher/local_cluster.h"
#include "launcher/world.h"
#include "runtime/jobspec/units.h"

namespace dlrun::launcher {
namespace {

// What main.cc serves itself: known here for "did you mean".
constexpr std::string_view kDaemons[] = {"coordinator", "agent", "shard-host", "feeder"};
constexpr const char* kGuardian = "local-guardian";

constexpr const char* kFooter = R"(
Examples:
  dlrun run -- python3 train.py                     one process, raw output, its exit code
  dlrun run -n 4 --ps 2 -- python3 train.py         four workers and two parameter shards
  dlrun run -n 2 --input train=data/*.libsvm,batch_rows=256 -- python3 train.py
  dlrun up --nodes 2 ; dlrun nodes ; dlrun down     a cluster on this machine that stays
  dlrun submit job.toml ; dlrun logs -f j12 ; dlrun wait j12
  dlrun submit --hold job.toml ; dlrun release j12 ; dlrun requeue j12

`dlrun COMMAND --help` tells more. Exit codes: the program's own, 128 + signal, and those of docs/exit-codes.md.
Daemons: dlrun coordinator, dlrun agent.)";

std::vector<std::string_view> known_commands() {
  std::vector<std::string_view> out;
  for (const Command& command : command_table()) out.push_back(command.name);
  out.insert(out.end(), std::begin(kDaemons), std::end(kDaemons));
  return out;
}

/// For the first of `args` that is no flag of `app`: which it may have been meant to be.
std::string nearest_flag(const std::vector<std::string>& args, const CLI::App& app) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back(name);
  const std::vector<std::string_view> views(known.begin(), known.end());
  for (const std::string& arg : args) {
    if (!arg.starts_with("--")) continue;
    const std::string name =
        arg.substr(2, arg.find('=') == std::string::npos ? arg.size() : arg.find('=') - 2);
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string near = jobspec::nearest(name, views);
    return near.empty() ? "" : fmt::format("; did you mean --{}?", near);
  }
  return "";
}

bool looks_like_job_file(const std::string& name) {
  return name.ends_with(".toml") || name.ends_with(".yaml") || name.ends_with(".yml") ||
         name.ends_with(".json");
}

}  // namespace

bool is_launcher_command(const char* name) {
  const auto table = command_table();
  return std::string_view(name) == kGuardian ||
         std::any_of(table.begin(), table.end(),
                     [&](const Command& c) { return std::string_view(c.name) == name; });
}

static int run_line(const std::vector<std::string>& args, const World& world) {
  if (!args.empty() && args[0] == kGuardian)
    return guardian_main({args.begin() + 1, args.end()}, world);
  Line line;
  // Everything after the first "--" is the user's, to the last byte: the parser never sees it.
  std::vector<std::string> ours(args.begin(), std::find(args.begin(), args.end(), "--"));
  const bool has_program = ours.size() < args.size();
  if (has_program)
    line.run.argv.assign(args.begin() + static_cast<std::ptrdiff_t>(ours.size()) + 1, args.end());

  const auto usage = [&](const std::string& text) {
    world.err("dlrun: " + text + "\n");
    return static_cast<int>(kUsage);
  };
  if (!ours.empty() && !ours[0].empty() && ours[0][0] != '-') {
    const auto known = known_commands();
    if (std::find(known.begin(), known.end(), ours[0]) == known.end() && ours[0] != "help") {
      const std::string near = jobspec::nearest(ours[0], known);
      return usage(fmt::format(
          "unknown command '{}'{}", ours[0],
          near.empty() ? "; dlrun --help lists them" : fmt::format("; did you mean '{}'?", near)));
    }
    if (ours[0] == "help")
      ours = ours.size() > 1 ? std::vector<std::string>{ours[1], "--help"}
                             : std::vector<std::string>{"--help"};
  }

  CLI::App app{"dlrun turns machines into one deep-learning cluster, and runs your program on it.",
               "dlrun"};
  app.footer(kFooter);
  app.require_subcommand(0, 1);
  app.set_help_flag("-h,--help", "this help");
  bool version = false;
  app.add_flag("--version", version, "the version");
  for (const Command& command : command_table()) {
    CLI::App* sub = app.add_subcommand(command.name, command.text);
    sub->add_flag("--json", line.json, "JSON instead of text");
    sub->footer(command.footer);
    command.flags(*sub, line);
  }

  try {
    std::vector<std::string> reversed(ours.rbegin(), ours.rend());
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    world.out(chosen.empty() ? app.help() : chosen[0]->help());
    return kOk;
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    return usage(fmt::format("{}{}; see dlrun{} --help", error.what(),
                             nearest_flag(ours, chosen.empty() ? app : *chosen[0]),
                             chosen.empty() ? "" : " " + chosen[0]->get_name()));
  }
  Commands commands(world, {.json = line.json});
  if (version) return commands.version();
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) {
    world.err(app.help());
    return kUsage;
  }
  const CLI::App& sub = *chosen[0];
  const auto table = command_table();
  const auto command = std::find_if(table.begin(), table.end(),
                                    [&](const Command& c) { return sub.get_name() == c.name; });
  if (command->takes_program) {
    line.run.workers_given = sub.count("--workers") > 0;
    if (!line.extra.empty() ||
        (!line.run.file.empty() && !looks_like_job_file(line.run.file) && !has_program))
      return usage(fmt::format("put -- before the program: dlrun {} -- {}{}", command->name,
                               line.run.file,
                               line.extra.empty() ? "" : " " + line.extra[0] + " ..."));
    if (has_program && line.run.argv.empty()) return usage("nothing stands after --");
  } else if (has_program) {
    return usage(fmt::format("'{}' takes nothing after --", command->name));
  }
  return command->run(commands, line);
}

int run_cli(const std::vector<std::string>& args, const World& world) {
  const int code = run_line(args, world);
  if (world.out_error == 0 || world.out_error == EPIPE) return code;
  return code == kOk || code == 141 ? static_cast<int>(kNotWritten) : code;
}

}  // namespace dlrun::launcher
