#pragma once
/// ps/pslite/member.h: this process in a ps-lite program: registers with the scheduler (or is it),
/// knows who is where, carries mail between the customers of all processes, waits in barriers, and
/// knows when the job has failed.
///
///            control post                              data post
///   worker   dials the scheduler                       dials every server
///   server   dials the scheduler                       workers dial it: tcp, shared memory
///   scheduler  everybody dials it                      (none: its mail takes the control links)
///
/// States: New -open-> Open -1-> Running -leave-> Left; any -2-> Failed
///   1: the roster came. 2: a node is lost, failed, or left where it was needed; not all came.
/// Errors: of every call once Failed: kUnavailable with the reason. kFailedPrecondition: not
/// running. kInvalidArgument: no such node, or none that mail goes to from here.
/// Bounds: MemberOptions. Mail for an app that is not here waits kAppWithin, within the links'
/// credit.
/// Threads: all methods from any. Mailboxes are called under a lock: they must be quick and call
/// nothing here.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ps/pslite/core/msg.h"
#include "ps/pslite/core/roll_core.h"
#include "ps/pslite/post.h"

namespace dlrun::pslite {

struct MemberOptions {
  Role role = Role::kWorker;
  std::uint32_t workers = 0;
  std::uint32_t servers = 0;
  int rank = kNobody;  ///< the one it would like
  std::string name;    ///< "host, process 123"
  std::string root;    ///< the scheduler's endpoint
  /// Where a scheduler or a server listens: each a list for one channel; the first that can be had.
  std::vector<std::vector<std::string>> bind;
  /// Processes with the same mark see each other's shared memory. "": none does.
  std::string host_mark;
  Duration start_within = std::chrono::seconds(300);
  Duration grace = std::chrono::seconds(10);
  std::uint64_t seed = 0;  ///< random: session and job numbers come from it
  Post::Options post;
  /// Called on a post's thread when nobody has asked for the failure within `grace`.
  std::function<void(const std::string& reason)> end_process;
  std::function<void(const std::string& line)> log;  ///< what is told with PS_VERBOSE
};

/// Mail for a customer of this process.
struct Letter {
  Mail mail;
  std::vector<transport::Frame> arrays;
  Post* from = nullptr;  ///< nullptr: this process
  Post::Session session = 0;
  std::uint64_t credit = 0;
};

class Mailbox {
 public:
  virtual ~Mailbox() = default;
  virtual void put(Letter letter) = 0;
  virtual void on_failure() = 0;
};

class Member final : public Post::User {
 public:
  static constexpr Duration kAppWithin = std::chrono::seconds(30);
  static constexpr Duration kLeaveWithin = std::chrono::seconds(5);

  Member(MemberOptions options, std::shared_ptr<transport::Transport> transport,
         const Clock& clock);
  /// One that has not left tells the others that it ended.
  ~Member() override;

  /// Registers (a process may do so once for each customer) and waits until everybody has.
  Status start(int customer);
  Status barrier(int group);
  /// Everything that was sent has arrived, the others know that this process goes, the threads
  /// end. `together`: the others are leaving too; then the scheduler goes last.
  void leave(bool together);
  /// From now on nobody's leaving is a failure.
  void about_to_leave();

  /// Gives `mail` its sender. Waits for room.
  Status send(Mail mail, std::vector<transport::Frame> arrays);
  void took(const Letter& letter);
  /// kAlreadyExists: the app has this customer.
  Status attach(int app, int customer, Mailbox* box);
  void detach(int app, int customer);

  int id() const;  ///< kNobody before the roster came
  const MemberOptions& options() const noexcept { return options_; }
  std::vector<int> lost() const;
  bool failed() const;
  bool has_left() const;
  /// The failure, which the caller is about to tell the program: first the others hear of it.
  std::optional<Error> failure_to_tell();
  /// Something in this process makes the job fail. Waits until the others know.
  void fail_here(const std::string& what);

 private:
  struct Waiting {
    Letter letter;
    TimePoint since;
  };
  struct Route {
    Post* post = nullptr;
    Post::Session session = 0;
  };
  using Lock = std::unique_lock<std::mutex>;

  void on_packet(Post& post, Post::Arrived arrived) override;
  void on_lost(Post& post, Post::Session session, const std::string& why) override;
  void on_turn(Post& post, TimePoint now) override;

  Status open(Lock& lock);
  Result<std::unique_ptr<transport::Channel>> listen();
  void handle(Post& post, Post::Arrived arrived);
  void apply(const RollCore::Effects& effects);
  void on_roster(const Roster& roster);
  void on_hello(Post& post, Post::Session session, const Hello& hello);
  void on_goodbye(Post::Session session);
  void deliver(Letter letter);
  Mailbox* box_for(const Mail& mail) const;
  int process_at(Post::Session session) const;
  void fail(const std::string& reason, bool tell);
  std::string self() const;
  void log(const std::string& line) const {
    if (options_.log) options_.log(line);
  }

  const MemberOptions options_;
  const std::shared_ptr<transport::Transport> transport_;
  const Clock& clock_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Post> control_, data_;
  Post::Session to_scheduler_ = 0;
  std::optional<RollCore> roll_;  ///< the scheduler's
  std::optional<Roster> roster_;
  std::map<int, int> process_of_;             ///< node -> process
  std::map<int, Route> routes_;               ///< by process
  std::map<int, std::uint64_t> outstanding_;  ///< requests without answer, by process
  std::set<int> left_;
  std::vector<int> lost_;
  std::vector<std::pair<Post*, Post::Arrived>> early_;  ///< before the roster
  std::map<int, std::uint64_t> passed_;                 ///< rounds, by group
  std::map<std::pair<int, int>, Mailbox*> boxes_;       ///< by app and customer
  std::deque<Waiting> waiting_;                         ///< for an app
  bool leaving_ = false, has_left_ = false;
  std::optional<Error> failure_;
  TimePoint failed_at_;
  bool told_ = false;
};

}  // namespace dlrun::pslite
