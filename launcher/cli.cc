// The command line: names, flags, help. What a command does is in commands.cc.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "launcher/commands.h"
#include "launcher/launcher_main.h"
#include "launcher/local_cluster.h"
#include "launcher/world.h"
#include "runtime/jobspec/units.h"

namespace dlrun::launcher {
namespace {

constexpr std::string_view kCommands[] = {
    "run",     "submit",  "list",    "show",       "status",       "logs",  "kill",  "hold",
    "release", "requeue", "wait",    "nodes",      "events",       "why",   "check", "up",
    "down",    "version", "connect", "join-token", "certificates", "revoke"};
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
  std::vector<std::string> extra;
};

void add_run_flags(CLI::App* sub, Line& line) {
  RunFlags& f = line.run;
  sub->add_option("-n,--workers", f.workers, "workers: a count, or a range like 1..4")
      ->type_name("N");
  sub->add_option("--ps", f.shards, "parameter shards, ready before the workers start")
      ->type_name("N");
  sub->add_option("--input", f.inputs,
                  "an input: name=PATH[,format=libsvm|libffm|csv|tsv,batch_rows=..,passes=..,...]; "
                  "the ending of PATH tells the format where none is given; several times")
      ->type_name("SPEC");
  sub->add_option("--output", f.outputs,
                  "a folder that appears whole, and only if the job succeeds: name=FOLDER; rank 0 "
                  "writes into "
                  "$DLRUN_OUTPUT_NAME; several times")
      ->type_name("SPEC");
  sub->add_option(
         "--env", f.env,
         "K=V for the program (V may hold anything), or K to take it from here; several times")
      ->type_name("K[=V]");
  sub->add_option("--env-policy", f.env_policy, "inherit (your environment) or clean")
      ->type_name("P");
  sub->add_option("--name", f.name, "name of the job");
  sub->add_option("--project", f.project, "project it counts for");
  sub->add_option("--priority", f.priority, "higher goes first")->type_name("N");
  sub->add_option("--time-limit", f.time_limit, "end it after this long: 90s, 2h")
      ->type_name("TIME");
  sub->add_option("--grace", f.grace, "TERM to KILL when it is killed (30s)")->type_name("TIME");
  sub->add_option("--cpus", f.cpus, "cores per worker (1)")->type_name("N");
  sub->add_option("--memory", f.memory, "memory per worker, a limit: 2GiB")->type_name("SIZE");
  sub->add_option("--gpus", f.gpus, "GPUs per worker")->type_name("N");
  sub->add_option("--ports", f.ports, "TCP ports leased per worker")->type_name("N");
  sub->add_option("--label", f.labels, "only nodes with this label: K=V; several times")
      ->type_name("K=V");
  sub->add_option("--restarts", f.restarts,
                  "start the gang again up to N times when a node is lost")
      ->type_name("N");
  sub->add_option("--cwd", f.cwd, "working directory (this one)")->type_name("DIR");
  sub->add_flag("--shell", f.shell, "run the words after -- as one line of /bin/sh");
  sub->add_option("file", f.file, "a job file (.toml, .yaml, .json) instead of -- PROGRAM");
  sub->add_option("extra", line.extra)->group("");
}

std::vector<std::string_view> known_commands() {
  std::vector<std::string_view> out(std::begin(kCommands), std::end(kCommands));
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
  return std::find(std::begin(kCommands), std::end(kCommands), std::string_view(name)) !=
             std::end(kCommands) ||
         std::string_view(name) == kGuardian;
}

int run_cli(const std::vector<std::string>& args, const World& world) {
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
  const auto command = [&](const char* name, const char* text, const char* footer = "") {
    CLI::App* sub = app.add_subcommand(name, text);
    sub->add_flag("--json", line.json, "JSON instead of text");
    sub->footer(footer);
    return sub;
  };

  CLI::App* run =
      command("run", "run a program or a job file, and stay until it is over",
              "\nThe program's stdout and stderr come here on stdout and stderr; several ranks are "
              "prefixed [worker 3]. dlrun's own lines go to\n"
              "stderr. The exit code is the program's. Ctrl-C asks, twice kills.\n\nExamples:\n  "
              "dlrun run -n 4 --ps 2 -- python3 train.py\n  dlrun run job.toml\n"
              "  dlrun run --env LR=0.1 --time-limit 2h --name ctr -- ./train --fast\n");
  add_run_flags(run, line);
  run->add_flag("-q,--quiet", line.quiet, "none of dlrun's own lines");
  CLI::App* submit = command("submit", "submit and print the job's id",
                             "\nExamples:\n  dlrun submit job.toml\n  id=$(dlrun submit -n 8 -- "
                             "./train) && dlrun logs -f $id && dlrun wait $id\n");
  add_run_flags(submit, line);
  submit->add_flag("--hold", line.run.hold, "it waits as HELD until dlrun release");
  CLI::App* list = command("list", "jobs, newest first");
  list->add_option("--state", line.list.state, "only this state: RUNNING, FAILED, ...");
  list->add_option("--owner", line.list.owner, "only this owner's");
  list->add_option("-l,--limit", line.list.limit, "at most so many (50)")
      ->check(CLI::Range(1, 1000));
  CLI::App* show = command("show", "one job with its tasks");
  show->add_option("job", line.job, "j12")->required();
  CLI::App* status = command("status", "the cluster in a line, or a job in a line");
  status->add_option("job", line.job, "j12");
  CLI::App* logs =
      command("logs", "output of a job",
              "\n--json gives one object a piece, its bytes in base64. On a terminal control "
              "sequences are made harmless; into a pipe, or with --raw, "
              "bytes are exact.\n\nExamples:\n  dlrun logs -f j12\n  dlrun logs j12 --role worker "
              "--rank 3 --stderr\n  dlrun logs j12 --tail 4096\n");
  logs->add_option("job", line.logs.job, "j12")->required();
  logs->add_flag("-f,--follow", line.logs.follow, "live, until the job is over");
  logs->add_option("--role", line.logs.role, "only this role");
  logs->add_option("--rank", line.logs.rank, "only this rank")->check(CLI::Range(0, 65535));
  logs->add_flag("--stdout", line.out_only, "only stdout");
  logs->add_flag("--stderr", line.err_only, "only stderr");
  logs->add_option("--tail", line.logs.tail, "begin this many bytes before the end")
      ->check(CLI::NonNegativeNumber);
  logs->add_flag("--raw", line.logs.raw, "bytes as they are, no prefixes");
  CLI::App* kill = command("kill", "kill jobs: TERM, their grace, KILL");
  kill->add_option("job", line.jobs, "j12 j13 ...")->required();
  kill->add_option("--reason", line.reason, "shown with the job");
  CLI::App* hold = command("hold", "keep waiting jobs from being placed, until they are released");
  hold->add_option("job", line.jobs, "j12 j13 ...")->required();
  hold->add_option("--reason", line.reason, "shown with the job");
  CLI::App* release = command("release", "queue held jobs again");
  release->add_option("job", line.jobs, "j12 j13 ...")->required();
  CLI::App* requeue = command(
      "requeue", "take the place of running jobs back: TERM, their grace, KILL, and queued again");
  requeue->add_option("job", line.jobs, "j12 j13 ...")->required();
  requeue->add_flag("--hold", line.hold, "hold them then");
  requeue->add_option("--reason", line.reason, "shown with the job");
  CLI::App* wait = command("wait", "wait for a job and exit with its code");
  wait->add_option("job", line.job, "j12")->required();
  wait->add_option("--timeout", line.timeout, "give up after this long, with 124");
  CLI::App* nodes = command("nodes", "nodes, what they have and what is used");
  CLI::App* events = command("events", "what happened");
  events->add_flag("-f,--follow", line.events.follow, "live");
  events->add_option("--job", line.events.job, "only of this job");
  events->add_option("--after", line.events.after, "only after this sequence number");
  CLI::App* why = command("why", "why a job waits: per constraint, how many nodes fail it");
  why->add_option("job", line.job, "j12")->required();
  CLI::App* check = command("check", "read a job file and say what is wrong with it, and where");
  check->add_option("file", line.file, "job.toml, job.yaml, job.json")->required();
  CLI::App* up = command("up", "start a cluster on this machine that stays",
                         "\nExamples:\n  dlrun up --nodes 2 --cpus 4\n  dlrun down\n");
  up->add_option("--nodes", line.up.nodes, "agents (1)")->check(CLI::Range(1, 256));
  up->add_option("--cpus", line.up.cpus, "virtual cores of each (all of the machine's)");
  up->add_option("--memory", line.up.memory, "memory of each (its share)");
  up->add_option("--listen", line.up.listen,
                 "address where other machines may join (loopback only without it)");
  up->add_flag("--tasks-as-root", line.up.tasks_as_root,
               "agents that run as root may run tasks so, beyond loopback");
  CLI::App* down = command("down", "end the cluster that up started, and what it runs");
  CLI::App* connect =
      command("connect", "use a cluster on other machines from this one",
              "\nChecks that it answers, then writes cluster.json, token and ca.pem into "
              "~/.dlrun (or DLRUN_HOME).\n\nExample:\n  dlrun connect "
              "https://10.0.0.1:7443 --token-file rest.token --ca-file ca.pem\n");
  connect->add_option("address", line.connect.url, "https://HOST:PORT of the coordinator")
      ->required();
  connect->add_option("--token-file", line.connect.token_file, "file with the REST token")
      ->required();
  connect->add_option("--ca-file", line.connect.ca_file, "the cluster's ca.pem");
  CLI::App* join_token =
      command("join-token", "a new short-lived token for machines that join",
              "\nThe token alone goes to stdout, the join line to stderr.\n\nExample:\n  "
              "(umask 077; dlrun join-token --minutes 10 > join.token)\n");
  join_token->add_option("--minutes", line.minutes, "how long it is good (60)")
      ->check(CLI::Range(1, 10'080));
  CLI::App* certificates = command("certificates", "who belongs to the cluster, and until when");
  CLI::App* revoke =
      command("revoke", "put a node out of the cluster: its certificates count no more");
  revoke->add_option("node", line.node, "name of the node")->required();
  CLI::App* version_command = command("version", "the version");

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
  CLI::App* sub = chosen[0];
  line.run.workers_given = (sub == run || sub == submit) && sub->count("--workers") > 0;
  if (sub == run || sub == submit) {
    if (!line.extra.empty() ||
        (!line.run.file.empty() && !looks_like_job_file(line.run.file) && !has_program))
      return usage(fmt::format("put -- before the program: dlrun {} -- {}{}", sub->get_name(),
                               line.run.file,
                               line.extra.empty() ? "" : " " + line.extra[0] + " ..."));
    if (has_program && line.run.argv.empty()) return usage("nothing stands after --");
    return sub == run ? commands.run(line.run, line.quiet) : commands.submit(line.run);
  }
  if (has_program) return usage(fmt::format("'{}' takes nothing after --", sub->get_name()));
  if (sub == list) return commands.list(line.list);
  if (sub == show) return commands.show(line.job);
  if (sub == status) return commands.status(line.job);
  if (sub == logs) {
    if (line.out_only != line.err_only) line.logs.stream = line.out_only ? "stdout" : "stderr";
    return commands.logs(line.logs);
  }
  if (sub == kill) return commands.kill(line.jobs, line.reason);
  if (sub == hold) return commands.order(line.jobs, "hold", line.reason, false, "is held");
  if (sub == release) return commands.order(line.jobs, "release", "", false, "is released");
  if (sub == requeue)
    return commands.order(line.jobs, "requeue", line.reason, line.hold,
                          line.hold ? "will stop and be held" : "will stop and be queued again");
  if (sub == wait) return commands.wait(line.job, line.timeout);
  if (sub == nodes) return commands.nodes();
  if (sub == events) return commands.events(line.events);
  if (sub == why) return commands.why(line.job);
  if (sub == check) return commands.check(line.file);
  if (sub == up) return commands.up(line.up);
  if (sub == down) return commands.down();
  if (sub == connect) return commands.connect(line.connect);
  if (sub == join_token) return commands.join_token(line.minutes);
  if (sub == certificates) return commands.certificates();
  if (sub == revoke) return commands.revoke(line.node);
  if (sub == version_command) return commands.version();
  return kInternal;
}

}  // namespace dlrun::launcher
