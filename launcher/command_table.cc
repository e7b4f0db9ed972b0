// The table of commands. What a command does is in the file of its group: job_commands.cc,
// view_commands.cc, machine_commands.cc, operator_commands.cc.
#include "launcher/command_table.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace dlrun::launcher {
namespace {

/// An empty name would be another question: GET /api/v1/jobs/ is the list of jobs.
CLI::Option* named(CLI::Option* option, const char* like) {
  return option->check(CLI::Validator(
      [like](const std::string& text) {
        return text.empty() ? fmt::format("'' is no name (like {})", like) : std::string();
      },
      ""));
}

void run_flags(CLI::App& app, Line& line) {
  RunFlags& f = line.run;
  app.add_option("-n,--workers", f.workers, "workers: a count, or a range like 1..4")
      ->type_name("N");
  app.add_option("--as", f.framework,
                 "what the program is written for: tensorflow, pytorch, xgboost, dmlc, mxnet, "
                 "pslite, lightgbm, mpi, jax, generic; it finds what that reads, and ends as its "
                 "jobs end")
      ->type_name("FRAMEWORK");
  app.add_option("--ps", f.shards,
                 "parameter shards, ready before the workers start; with --as, processes that run "
                 "the program as its servers")
      ->type_name("N")
      ->check(CLI::Range(0, 65536));
  app.add_option(
         "--input", f.inputs,
         "an input: name=PATH[,format=libsvm|csv|jsonl|...,column=NAME:TYPE,batch_rows=..,...]; "
         "the ending of PATH tells the format where none is given; several times")
      ->type_name("SPEC");
  app.add_option("--output", f.outputs,
                 "a folder that appears whole, and only if the job succeeds: name=FOLDER; rank 0 "
                 "writes into "
                 "$DLRUN_OUTPUT_NAME; several times")
      ->type_name("SPEC");
  app.add_option(
         "--env", f.env,
         "K=V for the program (V may hold anything), or K to take it from here; several times")
      ->type_name("K[=V]");
  app.add_option("--env-policy", f.env_policy, "inherit (your environment) or clean")
      ->type_name("P");
  app.add_option("--name", f.name, "name of the job");
  app.add_option("--project", f.project, "project it counts for");
  app.add_option("--priority", f.priority, "higher goes first")->type_name("N");
  app.add_option("--time-limit", f.time_limit, "end it after this long: 90s, 2h")
      ->type_name("TIME");
  app.add_option("--grace", f.grace, "TERM to KILL when it is killed (30s)")->type_name("TIME");
  app.add_option("--cpus", f.cpus, "cores per worker (1)")->type_name("N");
  app.add_option("--memory", f.memory, "memory per worker, a limit: 2GiB")->type_name("SIZE");
  app.add_option("--gpus", f.gpus, "GPUs per worker")->type_name("N");
  app.add_option("--ports", f.ports, "TCP ports leased per worker")->type_name("N");
  app.add_option("--label", f.labels, "only nodes with this label: K=V; several times")
      ->type_name("K=V");
  app.add_option("--restarts", f.restarts, "start the gang again up to N times when a node is lost")
      ->type_name("N")
      ->check(CLI::Range(0, 1000));
  app.add_option("--cwd", f.cwd, "working directory (this one)")->type_name("DIR");
  app.add_flag("--shell", f.shell, "run the words after -- as one line of /bin/sh");
  app.add_option("file", f.file, "a job file (.toml, .yaml, .json) instead of -- PROGRAM");
  app.add_option("extra", line.extra)->group("");
}

void jobs_and_reason(CLI::App& app, Line& line) {
  named(app.add_option("job", line.jobs, "j12 j13 ..."), "j12")->required();
  app.add_option("--reason", line.reason, "shown with the job");
}

void one_job(CLI::App& app, Line& line) {
  named(app.add_option("job", line.job, "j12"), "j12")->required();
}

void no_flags(CLI::App&, Line&) {}

constexpr Command kCommands[] = {
    {.name = "run",
     .text = "run a program or a job file, and stay until it is over",
     .footer =
         "\nThe program's stdout and stderr come here on stdout and stderr; several ranks are "
         "prefixed [worker 3]. dlrun's own lines go to\n"
         "stderr. The exit code is the program's. Ctrl-C asks, twice kills.\n\nExamples:\n  "
         "dlrun run -n 4 --ps 2 -- python3 train.py\n  dlrun run --as pytorch -n 4 -- python3 "
         "train.py\n  dlrun run job.toml\n"
         "  dlrun run --env LR=0.1 --time-limit 2h --name ctr -- ./train --fast\n",
     .takes_program = true,
     .flags =
         [](CLI::App& app, Line& line) {
           run_flags(app, line);
           app.add_flag("-q,--quiet", line.quiet,
                        "none of dlrun's own lines, but why the job failed");
         },
     .run = [](Commands& c, Line& line) { return c.run(line.run, line.quiet); }},
    {.name = "submit",
     .text = "submit and print the job's id",
     .footer = "\nExamples:\n  dlrun submit job.toml\n  id=$(dlrun submit -n 8 -- "
               "./train) && dlrun logs -f $id && dlrun wait $id\n",
     .takes_program = true,
     .flags =
         [](CLI::App& app, Line& line) {
           run_flags(app, line);
           app.add_flag("--hold", line.run.hold, "it waits as HELD until dlrun release");
         },
     .run = [](Commands& c, Line& line) { return c.submit(line.run); }},
    {.name = "list",
     .text = "jobs, newest first",
     .footer = "\nExamples:\n  dlrun list --state RUNNING --owner ann\n  dlrun list -l 10 --json\n",
     .flags =
         [](CLI::App& app, Line& line) {
           app.add_option("--state", line.list.state, "only this state: RUNNING, FAILED, ...");
           app.add_option("--owner", line.list.owner, "only this owner's");
           app.add_option("-l,--limit", line.list.limit, "at most so many (50)")
               ->check(CLI::Range(1, 1000));
         },
     .run = [](Commands& c, Line& line) { return c.list(line.list); }},
    {.name = "show",
     .text = "one job with its tasks",
     .footer = "\nExamples:\n  dlrun show j12\n  dlrun show j12 --json\n",
     .flags = one_job,
     .run = [](Commands& c, Line& line) { return c.show(line.job); }},
    {.name = "status",
     .text = "the cluster in a line, or a job in a line",
     .footer = "\nExamples:\n  dlrun status\n  dlrun status j12\n",
     .flags = [](CLI::App& app,
                 Line& line) { named(app.add_option("job", line.job, "j12"), "j12"); },
     .run = [](Commands& c, Line& line) { return c.status(line.job); }},
    {.name = "logs",
     .text = "output of a job",
     .footer = "\n--json gives one object a piece, its bytes in base64. On a terminal control "
               "sequences are made harmless; into a pipe, or with --raw, "
               "bytes are exact.\n\nExamples:\n  dlrun logs -f j12\n  dlrun logs j12 --role worker "
               "--rank 3 --stderr\n  dlrun logs j12 --tail 4096\n",
     .flags =
         [](CLI::App& app, Line& line) {
           named(app.add_option("job", line.logs.job, "j12"), "j12")->required();
           app.add_flag("-f,--follow", line.logs.follow, "live, until the job is over");
           app.add_option("--role", line.logs.role, "only this role");
           app.add_option("--rank", line.logs.rank, "only this rank")->check(CLI::Range(0, 65535));
           app.add_flag("--stdout", line.out_only, "only stdout");
           app.add_flag("--stderr", line.err_only, "only stderr");
           app.add_option("--tail", line.logs.tail, "begin this many bytes before the end")
               ->check(CLI::NonNegativeNumber);
           app.add_flag("--raw", line.logs.raw, "bytes as they are, no prefixes");
         },
     .run =
         [](Commands& c, Line& line) {
           if (line.out_only != line.err_only)
             line.logs.stream = line.out_only ? "stdout" : "stderr";
           return c.logs(line.logs);
         }},
    {.name = "kill",
     .text = "kill jobs: TERM, their grace, KILL",
     .footer = "\nExample:\n  dlrun kill j12 j13 --reason \"wrong data\"\n",
     .flags = jobs_and_reason,
     .run =
         [](Commands& c, Line& line) {
           return c.order(line.jobs, "kill", line.reason, false, "will be killed");
         }},
    {.name = "hold",
     .text = "keep waiting jobs from being placed, until they are released",
     .footer = "\nExample:\n  dlrun hold j12 --reason \"its input is not there yet\"\n",
     .flags = jobs_and_reason,
     .run = [](Commands& c,
               Line& line) { return c.order(line.jobs, "hold", line.reason, false, "is held"); }},
    {.name = "release",
     .text = "queue held jobs again",
     .footer = "\nExample:\n  dlrun release j12 j13\n",
     .flags =
         [](CLI::App& app, Line& line) {
           named(app.add_option("job", line.jobs, "j12 j13 ..."), "j12")->required();
         },
     .run = [](Commands& c,
               Line& line) { return c.order(line.jobs, "release", "", false, "is released"); }},
    {.name = "requeue",
     .text = "take the place of running jobs back: TERM, their grace, KILL, and queued again",
     .footer = "\nExamples:\n  dlrun requeue j12\n  dlrun requeue j12 --hold --reason \"node-7 "
               "goes down tonight\"\n",
     .flags =
         [](CLI::App& app, Line& line) {
           jobs_and_reason(app, line);
           app.add_flag("--hold", line.hold, "hold them then");
         },
     .run =
         [](Commands& c, Line& line) {
           return c.order(line.jobs, "requeue", line.reason, line.hold,
                          line.hold ? "will stop and be held" : "will stop and be queued again");
         }},
    {.name = "wait",
     .text = "wait for a job and exit with its code",
     .footer = "\nThe exit code is the job's.\n\nExamples:\n  dlrun wait j12 && ./publish.sh\n  "
               "dlrun wait j12 --timeout 10m\n",
     .flags =
         [](CLI::App& app, Line& line) {
           one_job(app, line);
           app.add_option("--timeout", line.timeout, "give up after this long, with 124");
         },
     .run = [](Commands& c, Line& line) { return c.wait(line.job, line.timeout); }},
    {.name = "nodes",
     .text = "nodes, what they have and what is used",
     .footer = "\nExamples:\n  dlrun nodes\n  dlrun nodes --json\n",
     .flags = no_flags,
     .run = [](Commands& c, Line&) { return c.nodes(); }},
    {.name = "events",
     .text = "what happened",
     .footer = "\nExamples:\n  dlrun events -f\n  dlrun events --job j12\n",
     .flags =
         [](CLI::App& app, Line& line) {
           app.add_flag("-f,--follow", line.events.follow, "live");
           named(app.add_option("--job", line.events.job, "only of this job"), "j12");
           app.add_option("--after", line.events.after, "only after this sequence number")
               ->check(CLI::NonNegativeNumber);
         },
     .run = [](Commands& c, Line& line) { return c.events(line.events); }},
    {.name = "why",
     .text = "why a job waits: per constraint, how many nodes fail it",
     .footer = "\nExample:\n  dlrun why j12\n",
     .flags = one_job,
     .run = [](Commands& c, Line& line) { return c.why(line.job); }},
    {.name = "check",
     .text = "read a job file and say what is wrong with it, and where",
     .footer = "\nExample:\n  dlrun check job.toml && dlrun submit job.toml\n",
     .flags =
         [](CLI::App& app, Line& line) {
           app.add_option("file", line.file, "job.toml, job.yaml, job.json")->required();
         },
     .run = [](Commands& c, Line& line) { return c.check(line.file); }},
    {.name = "up",
     .text = "start a cluster on this machine that stays",
     .footer = "\nExamples:\n  dlrun up --nodes 2 --cpus 4\n  dlrun down\n",
     .flags =
         [](CLI::App& app, Line& line) {
           app.add_option("--nodes", line.up.nodes, "agents (1)")->check(CLI::Range(1, 256));
           app.add_option("--cpus", line.up.cpus, "virtual cores of each (all of the machine's)");
           app.add_option("--memory", line.up.memory, "memory of each (its share)");
           app.add_option("--listen", line.up.listen,
                          "address where other machines may join (loopback only without it)");
           app.add_flag("--tasks-as-root", line.up.tasks_as_root,
                        "agents that run as root may run tasks so, beyond loopback");
         },
     .run = [](Commands& c, Line& line) { return c.up(line.up); }},
    {.name = "down",
     .text = "end the cluster that up started, and what it runs",
     .footer = "\nExample:\n  dlrun up --nodes 2 ; dlrun nodes ; dlrun down\n",
     .flags = no_flags,
     .run = [](Commands& c, Line&) { return c.down(); }},
    {.name = "connect",
     .text = "use a cluster on other machines from this one",
     .footer = "\nChecks that it answers, then writes cluster.json, token and ca.pem into "
               "~/.dlrun (or DLRUN_HOME).\n\nExample:\n  dlrun connect "
               "https://10.0.0.1:7443 --token-file rest.token --ca-file ca.pem\n",
     .flags =
         [](CLI::App& app, Line& line) {
           app.add_option("address", line.connect.url, "https://HOST:PORT of the coordinator")
               ->required();
           app.add_option("--token-file", line.connect.token_file, "file with the REST token")
               ->required();
           app.add_option("--ca-file", line.connect.ca_file, "the cluster's ca.pem");
         },
     .run = [](Commands& c, Line& line) { return c.connect(line.connect); }},
    {.name = "join-token",
     .text = "a new short-lived token for machines that join",
     .footer = "\nThe token alone goes to stdout, the join line to stderr.\n\nExample:\n  "
               "(umask 077; dlrun join-token --minutes 10 > join.token)\n",
     .flags =
         [](CLI::App& app, Line& line) {
           app.add_option("--minutes", line.minutes, "how long it is good (60)")
               ->check(CLI::Range(1, 10'080));
         },
     .run = [](Commands& c, Line& line) { return c.join_token(line.minutes); }},
    {.name = "certificates",
     .text = "who belongs to the cluster, and until when",
     .footer = "\nExample:\n  dlrun certificates\n",
     .flags = no_flags,
     .run = [](Commands& c, Line&) { return c.certificates(); }},
    {.name = "revoke",
     .text = "put a node out of the cluster: its certificates count no more",
     .footer = "\nExample:\n  dlrun revoke node-7\n",
     .flags =
         [](CLI::App& app, Line& line) {
           named(app.add_option("node", line.node, "name of the node"), "node-1")->required();
         },
     .run = [](Commands& c, Line& line) { return c.revoke(line.node); }},
    {.name = "version",
     .text = "the version",
     .footer = "\nExamples:\n  dlrun version\n  dlrun version --json\n",
     .flags = no_flags,
     .run = [](Commands& c, Line&) { return c.version(); }},
};

}  // namespace

std::span<const Command> command_table() { return kCommands; }

}  // namespace dlrun::launcher
