/// client_host: the native processes of LocalCluster, and a job on this machine without daemons.
///   client_host shard-host | feeder
///   client_host run [-n WORKERS] [--ps SHARDS] [--input NAME=PATH] [--format F] [--batch-rows N]
///       [--passes N] [--split-bytes N] [--env NAME=VALUE] [--timeout-s N] -- PROGRAM ARGS...
/// --format, --batch-rows, --passes and --split-bytes hold for the inputs after them.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "io/feeder/feeder_main.h"
#include "ps/shard/shard_host_main.h"
#include "tests/client/local_cluster.h"

namespace {

std::string self_path() {
  char path[4096];
  const auto n = ::readlink("/proc/self/exe", path, sizeof path - 1);
  return n > 0 ? std::string(path, static_cast<std::size_t>(n)) : std::string();
}

int run(int argc, char** argv) {
  dlrun::test::LocalJob job;
  dlrun::io::InputSpec form;
  std::vector<std::pair<std::string, std::string>> env;
  long timeout_s = 300;
  int at = 2;
  for (; at + 1 < argc && std::strcmp(argv[at], "--") != 0; at += 2) {
    const std::string name = argv[at], value = argv[at + 1];
    const auto equals = value.find('=');
    if (name == "-n")
      job.workers = static_cast<std::uint32_t>(std::atoi(value.c_str()));
    else if (name == "--ps")
      job.shards = static_cast<std::uint32_t>(std::atoi(value.c_str()));
    else if (name == "--batch-rows")
      form.batch_rows = static_cast<std::uint32_t>(std::atoi(value.c_str()));
    else if (name == "--passes")
      form.passes = static_cast<std::uint32_t>(std::atoi(value.c_str()));
    else if (name == "--split-bytes")
      form.split_bytes = static_cast<std::uint64_t>(std::atoll(value.c_str()));
    else if (name == "--timeout-s")
      timeout_s = std::atol(value.c_str());
    else if (name == "--env")
      env.emplace_back(value.substr(0, equals), value.substr(equals + 1));
    else if (name == "--format") {
      form.format = value == "libffm"   ? dlrun::io::Format::kLibffm
                    : value == "libsvm" ? dlrun::io::Format::kLibsvm
                                        : dlrun::io::Format::kCsv;
      form.delimiter = value == "tsv" ? '\t' : ',';
    } else if (name == "--input") {
      form.name = value.substr(0, equals);
      form.uris = {value.substr(equals + 1)};
      job.inputs.push_back(form);
    } else {
      std::fprintf(stderr, "unknown option %s\n", name.c_str());
      return 2;
    }
  }
  const std::vector<std::string> program(argv + std::min(at + 1, argc), argv + argc);
  if (program.empty() || job.workers == 0) return 2;
  job.host_program = self_path();
  auto cluster = dlrun::test::LocalCluster::start(job);
  if (!cluster) {
    std::fprintf(stderr, "%s\n", cluster.error().to_string().c_str());
    return 1;
  }
  for (std::uint32_t rank = 0; rank < job.workers; ++rank) {
    if (auto pid = (*cluster)->spawn(rank, program, env); !pid) {
      std::fprintf(stderr, "%s\n", pid.error().to_string().c_str());
      return 1;
    }
  }
  auto codes = (*cluster)->wait(std::chrono::seconds(timeout_s));
  if (!codes) {
    std::fprintf(stderr, "%s\n", codes.error().to_string().c_str());
    return 1;
  }
  for (const int code : *codes) {
    if (code != 0) return code;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "shard-host") return dlrun::ps::shard_host_main(argc - 1, argv + 1);
  if (command == "feeder") return dlrun::io::feeder_main(argc - 1, argv + 1);
  if (command == "run") return run(argc, argv);
  std::fprintf(stderr, "usage: client_host shard-host | feeder | run ... -- PROGRAM ARGS...\n");
  return 2;
}
