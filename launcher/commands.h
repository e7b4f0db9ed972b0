#pragma once
/// launcher/commands.h: what each command does once its line is understood. Each returns an exit
/// code and prints what went wrong.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launcher/spec_from_flags.h"
#include "launcher/world.h"
#include "runtime/base/result.h"

namespace dlrun::launcher {

class RestClient;

struct CommonFlags {
  bool json = false;
};

struct ListFlags {
  std::string state, owner;
  std::uint32_t limit = 50;
};

struct LogFlags {
  std::string job, role, stream;
  int rank = -1;
  std::int64_t tail = -1;
  bool follow = false, raw = false;
};

struct EventFlags {
  std::string job;
  std::uint64_t after = 0;
  bool follow = false;
};

struct UpFlags {
  std::uint32_t nodes = 1;
  std::string cpus, memory, listen;
  bool tasks_as_root = false;
};

struct ConnectFlags {
  std::string url, token_file, ca_file;
};

class Commands {
 public:
  Commands(const World& world, CommonFlags common) : world_(world), common_(common) {}

  int run(const RunFlags& flags, bool quiet);
  int submit(const RunFlags& flags);
  int list(const ListFlags& flags);
  int show(const std::string& job);
  int status(const std::string& job);
  int logs(const LogFlags& flags);
  /// POSTs `order` (kill, hold, release, requeue) for each job; `said` follows its name on stderr.
  int order(const std::vector<std::string>& jobs, const std::string& order,
            const std::string& reason, bool hold, const std::string& said);
  int wait(const std::string& job, const std::string& timeout);
  int nodes();
  int events(const EventFlags& flags);
  int why(const std::string& job);
  int check(const std::string& file);
  int up(const UpFlags& flags);
  int down();
  int version();
  // operator_commands.cc
  int connect(const ConnectFlags& flags);
  int join_token(std::int64_t minutes);
  int certificates();
  int revoke(const std::string& node);

  /// prints it; the code that fits, `usual` for bad arguments
  int fail_with(const Error& error, int usual = 0) const;

 private:
  class Cluster;
  /// GETs `target`; --json prints it as it is, else `show` makes text of it.
  int ask(const std::string& target, const std::function<std::string(const std::string&)>& show);
  /// GETs, or POSTs `body` when there is one, to the configured cluster; never brings one up.
  Result<std::string> send(const std::string& target, const std::string& body) const;
  /// `of_job`: "" or "&job=j12".
  int list_events(RestClient& client, std::uint64_t after, const std::string& of_job);
  int follow_events(RestClient& client, std::uint64_t after, const std::string& of_job);
  void print_json(std::string_view body) const;

  const World& world_;
  CommonFlags common_;
};

}  // namespace dlrun::launcher
