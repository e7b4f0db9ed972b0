#include "tests/node/rack.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

namespace dlrun::node {
namespace {

std::string tool(const char* name) {
  for (const char* folder : {"/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/"})
    if (::access((std::string(folder) + name).c_str(), X_OK) == 0)
      return std::string(folder) + name;
  return "";
}

/// The only child of `parent`, or 0.
pid_t child_of(pid_t parent) {
  std::ifstream children("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) +
                         "/children");
  pid_t child = 0;
  return children >> child ? child : 0;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Its init: reaps what is left to it. The sleep ends the host of a test that hangs.
std::vector<std::string> holder_command(const std::string& name) {
  return {tool("setpriv"),
          "--pdeathsig",
          "KILL",
          tool("unshare"),
          "--net",
          "--pid",
          "--mount",
          "--uts",
          "--fork",
          "--kill-child=KILL",
          "--mount-proc",
          "/bin/sh",
          "-c",
          "hostname " + name + "; sleep 900 & wait"};
}

}  // namespace

std::string Rack::why_not() {
  if (::geteuid() != 0) return "making network namespaces needs root";
  for (const char* name : {"ip", "unshare", "nsenter", "setpriv", "hostname"})
    if (tool(name).empty()) return std::string("this machine has no ") + name;
  char folder[] = "/tmp/dlrun-rack-XXXXXX";
  if (::mkdtemp(folder) == nullptr) return "no folder in /tmp";
  const std::string log = std::string(folder) + "/log";
  std::string reason;
  {
    Process probe({tool("unshare"), "--net", "--pid", "--mount", "--uts", "--fork", "--mount-proc",
                   tool("ip"), "link", "add", "br0", "type", "bridge"},
                  log);
    if (probe.wait(std::chrono::seconds(10)) != 0)
      reason = "network namespaces and bridges cannot be made here: " + first_line(log);
  }
  ::unlink(log.c_str());
  ::rmdir(folder);
  return reason;
}

Rack::Rack(std::string folder) : folder_(std::move(folder)) {
  hosts_["bridge"] = make("bridge");
  must("bridge", "ip link add br0 type bridge && ip link set br0 up");
}

Rack::~Rack() {
  // An init that is killed takes its host with it; the cables go with their namespaces.
  for (auto& [name, host] : hosts_)
    if (host.init > 0) ::kill(host.init, SIGKILL);
  for (auto& [name, host] : hosts_) host.holder->wait(std::chrono::seconds(10));
}

Rack::Host Rack::make(const std::string& name) {
  Host host;
  host.holder = std::make_unique<Process>(holder_command(name), folder_ + "/" + name + ".host.log");
  for (int i = 0; i < 1000; ++i) {
    const pid_t init = child_of(host.holder->pid());
    if (init > 0 && first_line("/proc/" + std::to_string(init) + "/comm") == "sh" &&
        child_of(init) > 0) {
      host.init = init;
      return host;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ADD_FAILURE() << "host " << name << " does not start: " << host.holder->log();
  return host;
}

void Rack::must(const std::string& host, const std::string& command) {
  // Only its network: a cable's other end is named by a process id of this machine.
  const std::string log = folder_ + "/network.txt";
  Process process({tool("nsenter"), "-t", std::to_string(hosts_.at(host).init), "-n", "/bin/sh",
                   "-c", "PATH=/usr/sbin:/usr/bin:/sbin:/bin; " + command},
                  log);
  EXPECT_EQ(process.wait(std::chrono::seconds(20)), 0)
      << host << ": " << command << ": " << process.log();
  ::unlink(log.c_str());
}

void Rack::add_host(const std::string& name) {
  Host host = make(name);
  host.number = static_cast<int>(hosts_.size());
  const std::string n = std::to_string(host.number), pid = std::to_string(host.init);
  hosts_[name] = std::move(host);
  must("bridge", "ip link add v" + n + " type veth peer name eth0 netns " + pid +
                     " && ip link set v" + n + " master br0 && ip link set v" + n + " up");
  must(name, "ip addr add 10.77.0." + n + "/24 dev eth0 && ip addr add fd77::" + n +
                 "/64 dev eth0 nodad && ip link set lo up && ip link set eth0 up");
}

std::string Rack::v4(const std::string& host) const {
  return "10.77.0." + std::to_string(hosts_.at(host).number);
}
std::string Rack::v6(const std::string& host) const {
  return "fd77::" + std::to_string(hosts_.at(host).number);
}

void Rack::cut(const std::string& host) {
  must("bridge", "ip link set v" + std::to_string(hosts_.at(host).number) + " down");
}
void Rack::mend(const std::string& host) {
  must("bridge", "ip link set v" + std::to_string(hosts_.at(host).number) + " up");
}

std::vector<std::string> Rack::enter(const Host& host, std::vector<std::string> argv,
                                     const std::vector<std::string>& env) const {
  std::vector<std::string> out{tool("setpriv"),
                               "--pdeathsig",
                               "KILL",
                               tool("nsenter"),
                               "-t",
                               std::to_string(host.init),
                               "-n",
                               "-m",
                               "-u",
                               "-p"};
  if (!env.empty()) {
    out.push_back("/usr/bin/env");
    out.insert(out.end(), env.begin(), env.end());
  }
  out.insert(out.end(), argv.begin(), argv.end());
  return out;
}

std::pair<int, std::string> Rack::run(const std::string& host, std::vector<std::string> argv,
                                      Duration limit, const std::vector<std::string>& env) {
  const std::string log = folder_ + "/" + host + "." + std::to_string(++runs_) + ".txt";
  const auto process = start(host, std::move(argv), log, env);
  int code = process->wait(limit);
  if (code < 0) {
    signal(*process, SIGKILL);
    process->wait(std::chrono::seconds(5));
    code = 124;
  }
  std::string text = process->log();
  ::unlink(log.c_str());
  return {code, std::move(text)};
}

std::unique_ptr<Process> Rack::start(const std::string& host, std::vector<std::string> argv,
                                     const std::string& log_path,
                                     const std::vector<std::string>& env) {
  return std::make_unique<Process>(enter(hosts_.at(host), std::move(argv), env), log_path);
}

void Rack::signal(const Process& started, int number) {
  if (const pid_t child = child_of(started.pid()); child > 0) ::kill(child, number);
}

void Rack::inside(const std::string& host, const std::function<void()>& body) {
  std::thread([&] {
    const int fd = ::open(("/proc/" + std::to_string(hosts_.at(host).init) + "/ns/net").c_str(),
                          O_RDONLY | O_CLOEXEC);
    const bool in = fd >= 0 && ::setns(fd, CLONE_NEWNET) == 0;
    if (fd >= 0) ::close(fd);
    if (in)
      body();
    else
      ADD_FAILURE() << "cannot enter host " << host;
  }).join();
}

}  // namespace dlrun::node
