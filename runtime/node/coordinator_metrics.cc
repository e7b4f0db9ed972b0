#include "runtime/node/coordinator_metrics.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace dlrun::node {
namespace {

using web::Metric;

void add(std::vector<Metric>& all, const char* name, const char* help, double value,
         bool counter = false) {
  all.push_back({.name = name,
                 .help = help,
                 .counter = counter,
                 .samples = {{.labels = {}, .value = value}}});
}

void add(std::vector<Metric>& all, const char* name, const char* help, const Histogram& histogram) {
  all.push_back({.name = name, .help = help, .histogram = {histogram.values()}});
}

double file_bytes(const std::string& path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0 ? static_cast<double>(st.st_size) : 0;
}

}  // namespace

std::vector<Metric> CoordinatorMetrics::collect() {
  std::vector<Metric> all;
  const cluster::Meters& m = *sources_.meters;
  add(all, "dlrun_store_commit_seconds", "One durable commit of the event log, fsync included.",
      m.commit_seconds);
  add(all, "dlrun_store_commit_events", "Events that shared a commit.", m.commit_events);
  add(all, "dlrun_store_commits_refused_total",
      "Commits that the store refused: a full or failing disk.",
      static_cast<double>(m.commits_refused.value()), true);
  add(all, "dlrun_store_bytes", "Size of the event log's files.",
      file_bytes(sources_.events_file) + file_bytes(sources_.events_file + "-wal"));
  add(all, "dlrun_control_messages_refused_total",
      "Messages of agents that were not understood, or spoke for another node.",
      static_cast<double>(m.messages_refused.value()), true);
  add(all, "dlrun_queue_wait_seconds", "From the queue to a place, for each start of a job.",
      m.queue_seconds);
  add(all, "dlrun_coordinator_turn_seconds",
      "How long one message or call took the coordinator up, placements included.", m.turn_seconds);

  const logs::StoreStats logs = sources_.log_store->stats();
  add(all, "dlrun_log_stored_bytes", "Task output in the log store.",
      static_cast<double>(logs.stored_bytes));
  add(all, "dlrun_log_received_bytes_total", "Task output that was shipped here.",
      static_cast<double>(logs.appended_bytes), true);
  add(all, "dlrun_log_dropped_bytes_total", "Task output removed to keep within the budgets.",
      static_cast<double>(logs.dropped_bytes), true);
  add(all, "dlrun_log_lost_bytes_total", "Task output that never arrived: holes in streams.",
      static_cast<double>(logs.lost_bytes), true);
  add(all, "dlrun_log_messages_refused_total",
      "Log messages and handshakes refused by the log receiver.",
      static_cast<double>(sources_.log_receiver->refused()), true);
  add_process_metrics(all);
  return all;
}

void add_process_metrics(std::vector<Metric>& all) {
  std::ifstream statm("/proc/self/statm");
  double pages_virtual = 0, pages = 0;
  statm >> pages_virtual >> pages;
  const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  add(all, "process_resident_memory_bytes", "Resident memory.", pages * page);
  add(all, "process_virtual_memory_bytes", "Virtual memory.", pages_virtual * page);

  double fds = -1;  // the one that lists them
  std::error_code ec;
  for (std::filesystem::directory_iterator it("/proc/self/fd", ec), end; !ec && it != end;
       it.increment(ec))
    ++fds;
  add(all, "process_open_fds", "Open file descriptors.", fds);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    add(all, "process_max_fds", "Most file descriptors that may be open.",
        static_cast<double>(limit.rlim_cur));

  // Fields of /proc/self/stat after the name, which may hold anything: utime is the 12th, starttime
  // the 20th of them.
  std::ifstream stat("/proc/self/stat");
  std::string line;
  std::getline(stat, line);
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return;
  std::istringstream fields(line.substr(name_end + 2));
  std::string skip;
  for (int i = 0; i < 11; ++i) fields >> skip;
  double user = 0, system = 0, start = 0, threads = 0;
  fields >> user >> system;
  for (int i = 0; i < 4; ++i) fields >> skip;
  fields >> threads >> skip >> start;
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  add(all, "process_cpu_seconds_total", "CPU time, user and system.", (user + system) / ticks,
      true);
  add(all, "process_threads", "Threads.", threads);
  std::ifstream boot("/proc/stat");
  for (std::string word; boot >> word;) {
    if (word != "btime") continue;
    double at = 0;
    boot >> at;
    add(all, "process_start_time_seconds", "When the process started, in Unix time.",
        at + start / ticks);
    return;
  }
}

}  // namespace dlrun::node
