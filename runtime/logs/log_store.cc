#include "runtime/logs/log_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/shim/log_files.h"
#include "runtime/shim/spec.h"

namespace dlrun::logs {
namespace {

constexpr std::size_t kStreamsCached = 4096;
constexpr std::size_t kJobsCached = 1024;
constexpr std::size_t kReadBytesMax = 8u << 20;

std::string escape(const std::string& role) {
  std::string out;
  for (const char c : role) {
    const auto u = static_cast<unsigned char>(c);
    const bool plain = (u >= '0' && u <= '9') || (u >= 'A' && u <= 'Z') || (u >= 'a' && u <= 'z') ||
                       u == '_' || u == '-';
    if (plain) {
      out.push_back(c);
    } else {
      out.push_back('%');
      out.push_back("0123456789ABCDEF"[u >> 4]);
      out.push_back("0123456789ABCDEF"[u & 15]);
    }
  }
  return out;
}

std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      out.push_back(
          static_cast<char>(std::strtol(std::string(text.substr(i + 1, 2)).c_str(), nullptr, 16)));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

std::string name_of(const StreamId& id) {
  return std::to_string(id.task.generation.value) + "." + escape(id.task.role) + "." +
         std::to_string(id.task.rank) + (id.stream == Stream::kStdout ? ".out" : ".err");
}

std::optional<std::uint64_t> number(std::string_view text) {
  if (text.empty() || text.size() > 20) return std::nullopt;
  std::uint64_t v = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    v = v * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return v;
}

/// "<generation>.<role>.<rank>.<out|err>.<offset or done>"
std::optional<StreamId> parse_name(JobId job, std::string_view name) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t dot = name.find('.');
    parts.push_back(name.substr(0, dot));
    if (dot == std::string_view::npos) break;
    name.remove_prefix(dot + 1);
  }
  if (parts.size() != 5 || (parts[3] != "out" && parts[3] != "err")) return std::nullopt;
  const auto generation = number(parts[0]), rank = number(parts[2]);
  if (!generation || !rank || (parts[4] != "done" && !number(parts[4]))) return std::nullopt;
  StreamId id;
  id.task = {job, unescape(parts[1]), static_cast<std::uint32_t>(*rank),
             Generation{static_cast<std::uint32_t>(*generation)}};
  id.stream = parts[3] == "out" ? Stream::kStdout : Stream::kStderr;
  return id;
}

template <class Visit>
void for_each_file(const std::string& dir, Visit&& visit) {
  DIR* d = ::opendir(dir.c_str());
  if (d == nullptr) return;
  while (const dirent* entry = ::readdir(d)) {
    if (entry->d_name[0] != '.') visit(std::string(entry->d_name), ::dirfd(d));
  }
  ::closedir(d);
}

std::uint64_t bytes_in(const std::string& dir) {
  std::uint64_t sum = 0;
  for_each_file(dir, [&](const std::string& name, int fd) {
    struct stat st {};
    if (::fstatat(fd, name.c_str(), &st, 0) == 0 && S_ISREG(st.st_mode))
      sum += static_cast<std::uint64_t>(st.st_size);
  });
  return sum;
}

}  // namespace

std::string_view to_string(Stream stream) {
  return stream == Stream::kStdout ? "stdout" : "stderr";
}

class LogStore::Impl {
 public:
  Impl(std::string dir, StoreLimits limits) : dir_(std::move(dir)), limits_(limits) {}

  Status begin() {
    if (::mkdir(dir_.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno("create " + dir_);
    if (::access(dir_.c_str(), W_OK | X_OK) != 0) return fail_errno("log store " + dir_);
    janitor_ = std::thread([this] { clean(); });
    return {};
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      quit_ = true;
    }
    changed_.notify_all();
    if (janitor_.joinable()) janitor_.join();
  }

  Result<std::uint64_t> append(const StreamId& id, std::uint64_t offset, std::string_view bytes,
                               bool gap) {
    StreamInfo told;
    std::uint64_t end;
    {
      const std::lock_guard lock(mutex_);
      DLRUN_ASSIGN(State * state, load(id));
      if (state->finished || (offset > state->end && !gap)) return state->end;
      if (offset < state->end) {
        if (state->end - offset >= bytes.size()) return state->end;
        bytes.remove_prefix(state->end - offset);
        offset = state->end;
      }
      if (bytes.empty()) return state->end;
      DLRUN_TRY(write(id, *state, offset, bytes));
      end = state->end;
      told = info_of(id, *state);
    }
    tell(told);
    return end;
  }

  Status finish(const StreamId& id) {
    StreamInfo told;
    {
      const std::lock_guard lock(mutex_);
      DLRUN_ASSIGN(State * state, load(id));
      if (state->finished) return {};
      DLRUN_TRY(make_job_dir(id.task.job));
      DLRUN_TRY(shim::write_file(path_of(id) + ".done", std::to_string(state->end)));
      state->finished = true;
      told = info_of(id, *state);
    }
    tell(told);
    return {};
  }

  Result<std::uint64_t> end_of(const StreamId& id) {
    const std::lock_guard lock(mutex_);
    DLRUN_ASSIGN(const State* state, load(id));
    return state->end;
  }

  Result<StreamInfo> info(const StreamId& id) {
    const std::lock_guard lock(mutex_);
    DLRUN_ASSIGN(const State* state, load(id));
    if (state->starts.empty() && !state->finished)
      return fail(Errc::kNotFound, to_string(id.task) + ": no output yet");
    return info_of(id, *state);
  }

  Result<Chunk> read(const StreamId& id, std::uint64_t offset, std::size_t bytes_max) {
    bytes_max = std::min(bytes_max, kReadBytesMax);
    for (int attempt = 0; attempt < 3;
         ++attempt) {  // a segment may go between the look and the open
      Chunk chunk;
      std::uint64_t start = 0;
      {
        const std::lock_guard lock(mutex_);
        DLRUN_ASSIGN(const State* state, load(id));
        if (state->starts.empty() && !state->finished)
          return fail(Errc::kNotFound, to_string(id.task) + ": no output yet");
        chunk.oldest = state->oldest();
        chunk.end = state->end;
        chunk.finished = state->finished;
        chunk.offset = std::clamp(offset, chunk.oldest, chunk.end);
        // The segment that holds chunk.offset, or the next one when it falls into a gap.
        const auto after =
            std::upper_bound(state->starts.begin(), state->starts.end(), chunk.offset);
        start = after == state->starts.begin() ? 0 : *(after - 1);
        if (chunk.offset < chunk.end) {
          const auto next = after == state->starts.end() ? chunk.end : *after;
          chunk.next = next;  // for a gap
        }
      }
      if (chunk.offset == chunk.end) {
        chunk.next = chunk.end;
        return chunk;
      }
      const std::uint64_t next_start = chunk.next;
      const std::string path = shim::segment_path(job_dir(id.task.job), name_of(id), start);
      const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      if (fd < 0 && errno == ENOENT) {
        const std::lock_guard lock(mutex_);
        forget(id);
        continue;
      }
      if (fd < 0) return fail_errno("open " + path);
      chunk.bytes.resize(std::min<std::uint64_t>(bytes_max, next_start - chunk.offset));
      const ssize_t n = ::pread(fd, chunk.bytes.data(), chunk.bytes.size(),
                                static_cast<off_t>(chunk.offset - start));
      const int e = errno;
      ::close(fd);
      if (n < 0) return fail_errno("read " + path, e);
      chunk.bytes.resize(static_cast<std::size_t>(n));
      if (n == 0 && next_start < chunk.end) {  // lost bytes: go on after them
        offset = next_start;
        attempt = 0;
        continue;
      }
      chunk.next = chunk.offset + static_cast<std::uint64_t>(n);
      chunk.finished = chunk.finished && chunk.next == chunk.end;
      return chunk;
    }
    return fail(Errc::kUnavailable,
                to_string(id.task) + ": the log is dropped faster than it is read");
  }

  Result<std::vector<StreamInfo>> list(JobId job) {
    std::vector<StreamId> ids;
    for_each_file(job_dir(job), [&](const std::string& name, int) {
      if (auto id = parse_name(job, name)) ids.push_back(std::move(*id));
    });
    const auto key = [](const StreamId& s) {
      return std::tie(s.task.generation, s.task.role, s.task.rank, s.stream);
    };
    std::sort(ids.begin(), ids.end(),
              [&](const auto& a, const auto& b) { return key(a) < key(b); });
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    std::vector<StreamInfo> infos;
    for (const StreamId& id : ids) {
      if (auto known = info(id)) infos.push_back(std::move(*known));
    }
    return infos;
  }

  StoreStats stats() {
    const std::lock_guard lock(mutex_);
    StoreStats out = stats_;
    out.stored_bytes = total_bytes_;
    return out;
  }

  Status drop_job(JobId job) {
    const std::lock_guard lock(mutex_);
    const std::string dir = job_dir(job);
    std::uint64_t freed = 0;
    for_each_file(dir, [&](const std::string& name, int fd) {
      struct stat st {};
      if (::fstatat(fd, name.c_str(), &st, 0) == 0) freed += static_cast<std::uint64_t>(st.st_size);
      ::unlinkat(fd, name.c_str(), 0);
    });
    if (::rmdir(dir.c_str()) != 0 && errno != ENOENT) return fail_errno("remove " + dir);
    forget_job(job);
    total_bytes_ -= std::min(total_bytes_, freed);
    return {};
  }

  struct Listener {
    std::recursive_mutex mutex;
    std::function<void(const StreamInfo&)> call;
  };

  std::shared_ptr<void> subscribe(std::function<void(const StreamInfo&)> call) {
    auto listener = std::make_shared<Listener>();
    listener->call = std::move(call);
    {
      const std::lock_guard lock(listeners_mutex_);
      std::erase_if(listeners_, [](const auto& l) { return l.expired(); });
      listeners_.push_back(listener);
    }
    // The handle's end waits for a running call.
    return std::shared_ptr<void>(listener.get(), [listener](void*) {
      const std::lock_guard lock(listener->mutex);
      listener->call = nullptr;
    });
  }

 private:
  struct State {
    std::vector<std::uint64_t> starts;  ///< of the segments here
    std::uint64_t end = 0;
    std::uint64_t last_size = 0;  ///< of the last segment
    bool finished = false;
    std::list<StreamId>::iterator used;
    std::uint64_t oldest() const { return starts.empty() ? end : starts.front(); }
  };

  std::string job_dir(JobId job) const { return dir_ + "/j" + std::to_string(job.value); }
  std::string path_of(const StreamId& id) const { return job_dir(id.task.job) + "/" + name_of(id); }

  static StreamInfo info_of(const StreamId& id, const State& state) {
    return {id, state.oldest(), state.end, state.finished};
  }

  Status make_job_dir(JobId job) const {
    if (::mkdir(job_dir(job).c_str(), 0700) != 0 && errno != EEXIST)
      return fail_errno("create " + job_dir(job));
    return {};
  }

  /// What is on disk, kept for the streams used last.
  Result<State*> load(const StreamId& id) {
    const auto it = states_.find(id);
    if (it != states_.end()) {
      used_.splice(used_.begin(), used_, it->second.used);
      return &it->second;
    }
    State state;
    auto segments = shim::list_segments(job_dir(id.task.job), name_of(id));
    if (!segments && segments.error().code != Errc::kNotFound)
      return tl::unexpected(segments.error());
    if (segments) {
      for (const auto& s : *segments) {
        state.starts.push_back(s.start);
        state.end = s.start + s.size;
        state.last_size = s.size;
      }
    }
    if (const auto done = shim::read_file(path_of(id) + ".done", 64)) {
      state.finished = true;
      state.end = std::max(state.end, number(*done).value_or(0));
    }
    if (states_.size() >= kStreamsCached) {
      states_.erase(used_.back());
      used_.pop_back();
    }
    used_.push_front(id);
    state.used = used_.begin();
    return &states_.emplace(id, std::move(state)).first->second;
  }

  void forget(const StreamId& id) {
    const auto it = states_.find(id);
    if (it == states_.end()) return;
    used_.erase(it->second.used);
    states_.erase(it);
  }

  void forget_job(JobId job) {
    for (auto it = used_.begin(); it != used_.end();) {
      if (it->task.job == job) {
        states_.erase(*it);
        it = used_.erase(it);
      } else {
        ++it;
      }
    }
    job_bytes_.erase(job.value);
  }

  Status write(const StreamId& id, State& state, std::uint64_t offset, std::string_view bytes) {
    DLRUN_TRY(make_job_dir(id.task.job));
    std::uint64_t& job_bytes = bytes_of_job(id.task.job);
    const bool fresh =
        state.starts.empty() || offset != state.end || state.last_size >= limits_.segment_bytes;
    const std::uint64_t start = fresh ? offset : state.starts.back();
    const std::string path = shim::segment_path(job_dir(id.task.job), name_of(id), start);
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return fail_errno("open " + path);
    std::string_view left = bytes;
    while (!left.empty()) {
      const off_t at = static_cast<off_t>(offset - start + (bytes.size() - left.size()));
      const ssize_t n = ::pwrite(fd, left.data(), left.size(), at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {  // nothing of it stays
        const int e = errno;
        if (fresh) {
          ::unlink(path.c_str());
        } else {
          (void)!::ftruncate(fd, static_cast<off_t>(offset - start));
        }
        ::close(fd);
        return fail_errno("write " + path, e);
      }
      left.remove_prefix(static_cast<std::size_t>(n));
    }
    ::close(fd);
    if (fresh) {
      state.starts.push_back(start);
      state.last_size = 0;
    }
    state.last_size += bytes.size();
    stats_.lost_bytes += offset - state.end;
    state.end = offset + bytes.size();
    job_bytes += bytes.size();
    total_bytes_ += bytes.size();
    stats_.appended_bytes += bytes.size();
    if (job_bytes > limits_.job_bytes) shrink_job(id.task.job, job_bytes);
    if (total_bytes_ > limits_.total_bytes) changed_.notify_all();
    return {};
  }

  std::uint64_t& bytes_of_job(JobId job) {
    const auto it = job_bytes_.find(job.value);
    if (it != job_bytes_.end()) return it->second;
    if (job_bytes_.size() >= kJobsCached) job_bytes_.clear();
    return job_bytes_[job.value] = bytes_in(job_dir(job));
  }

  /// The oldest segment of the job's largest stream goes, until it fits. Each stream keeps its last
  /// segment.
  void shrink_job(JobId job, std::uint64_t& job_bytes) {
    struct Segments {
      std::vector<std::pair<std::uint64_t, std::uint64_t>> list;  // start, size
      std::uint64_t bytes = 0;
    };
    std::map<std::string, Segments> streams;
    std::map<std::string, StreamId> ids;
    for_each_file(job_dir(job), [&](const std::string& name, int fd) {
      const auto id = parse_name(job, name);
      const std::size_t dot = name.rfind('.');
      struct stat st {};
      if (!id || name.substr(dot + 1) == "done" || ::fstatat(fd, name.c_str(), &st, 0) != 0) return;
      auto& s = streams[name.substr(0, dot)];
      s.list.emplace_back(*number(name.substr(dot + 1)), static_cast<std::uint64_t>(st.st_size));
      s.bytes += static_cast<std::uint64_t>(st.st_size);
      ids.emplace(name.substr(0, dot), *id);
    });
    for (auto& [name, s] : streams) std::sort(s.list.begin(), s.list.end(), std::greater<>());
    while (job_bytes > limits_.job_bytes) {
      auto largest = streams.end();
      for (auto it = streams.begin(); it != streams.end(); ++it) {
        if (it->second.list.size() > 1 &&
            (largest == streams.end() || it->second.bytes > largest->second.bytes))
          largest = it;
      }
      if (largest == streams.end()) return;
      const auto [start, size] = largest->second.list.back();
      largest->second.list.pop_back();
      largest->second.bytes -= size;
      ::unlink(shim::segment_path(job_dir(job), largest->first, start).c_str());
      job_bytes -= std::min(job_bytes, size);
      total_bytes_ -= std::min(total_bytes_, size);
      stats_.dropped_bytes += size;
      const auto state = states_.find(ids.at(largest->first));
      if (state != states_.end()) std::erase(state->second.starts, start);
    }
  }

  // ---- the janitor: knows the total, and makes room for it

  void clean() {
    scan(nullptr);
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return quit_ || total_bytes_ > limits_.total_bytes; });
      if (quit_) return;
      lock.unlock();
      std::vector<std::pair<std::int64_t, JobId>> jobs;
      scan(&jobs);
      std::sort(jobs.begin(), jobs.end());
      lock.lock();
      const std::uint64_t target = limits_.total_bytes / 10 * 9;
      for (const auto& [when, job] : jobs) {
        if (total_bytes_ <= target) break;
        empty_job(job);
      }
      if (total_bytes_ > limits_.total_bytes)
        changed_.wait_for(lock, std::chrono::seconds(1), [&] { return quit_; });
    }
  }

  /// Sums all jobs up anew; lists them with the time of their last new file.
  void scan(std::vector<std::pair<std::int64_t, JobId>>* jobs) {
    std::uint64_t before;
    {
      const std::lock_guard lock(mutex_);
      before = total_bytes_;
    }
    std::uint64_t sum = 0;
    for_each_file(dir_, [&](const std::string& name, int fd) {
      const auto job = name[0] == 'j' ? number(std::string_view(name).substr(1)) : std::nullopt;
      struct stat st {};
      if (!job || ::fstatat(fd, name.c_str(), &st, 0) != 0) return;
      sum += bytes_in(dir_ + "/" + name);
      if (jobs != nullptr)
        jobs->emplace_back(std::int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec,
                           JobId{*job});
    });
    const std::lock_guard lock(mutex_);
    // appends went on meanwhile
    total_bytes_ = std::max(sum, total_bytes_ - std::min(total_bytes_, before));
  }

  /// Its segments go; that its streams are finished, and where they ended, stays.
  void empty_job(JobId job) {
    for_each_file(job_dir(job), [&](const std::string& name, int fd) {
      struct stat st {};
      if (name.size() > 5 && name.substr(name.size() - 5) == ".done") return;
      if (::fstatat(fd, name.c_str(), &st, 0) != 0 || ::unlinkat(fd, name.c_str(), 0) != 0) return;
      total_bytes_ -= std::min(total_bytes_, static_cast<std::uint64_t>(st.st_size));
      stats_.dropped_bytes += static_cast<std::uint64_t>(st.st_size);
    });
    // Streams in use go on at their end: their states stay, without the segments.
    job_bytes_.erase(job.value);
    for (auto& [id, state] : states_) {
      if (id.task.job != job) continue;
      state.starts.clear();
      state.last_size = 0;
    }
  }

  void tell(const StreamInfo& info) {
    std::vector<std::shared_ptr<Listener>> listeners;
    {
      const std::lock_guard lock(listeners_mutex_);
      for (const auto& weak : listeners_) {
        if (auto l = weak.lock()) listeners.push_back(std::move(l));
      }
    }
    for (const auto& l : listeners) {
      const std::lock_guard lock(l->mutex);
      if (l->call) l->call(info);
    }
  }

  const std::string dir_;
  const StoreLimits limits_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<StreamId, State> states_;
  std::list<StreamId> used_;  ///< of states_, last used first
  std::map<std::uint64_t, std::uint64_t> job_bytes_;
  std::uint64_t total_bytes_ = 0;
  StoreStats stats_;  ///< all but stored_bytes
  bool quit_ = false;
  std::thread janitor_;

  std::mutex listeners_mutex_;
  std::vector<std::weak_ptr<Listener>> listeners_;
};

LogStore::LogStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LogStore::~LogStore() = default;

Result<std::unique_ptr<LogStore>> LogStore::open(std::string dir, StoreLimits limits) {
  auto impl = std::make_unique<Impl>(std::move(dir), limits);
  DLRUN_TRY(impl->begin());
  return std::unique_ptr<LogStore>(new LogStore(std::move(impl)));
}

Result<std::uint64_t> LogStore::append(const StreamId& id, std::uint64_t offset,
                                       std::string_view bytes, bool gap) {
  return impl_->append(id, offset, bytes, gap);
}
Status LogStore::finish(const StreamId& id) { return impl_->finish(id); }
Result<std::uint64_t> LogStore::end_of(const StreamId& id) { return impl_->end_of(id); }
Result<Chunk> LogStore::read(const StreamId& id, std::uint64_t offset, std::size_t bytes_max) {
  return impl_->read(id, offset, bytes_max);
}
Result<StreamInfo> LogStore::info(const StreamId& id) { return impl_->info(id); }
Result<std::vector<StreamInfo>> LogStore::list(JobId job) { return impl_->list(job); }
Status LogStore::drop_job(JobId job) { return impl_->drop_job(job); }
StoreStats LogStore::stats() const { return impl_->stats(); }
std::shared_ptr<void> LogStore::subscribe(std::function<void(const StreamInfo&)> listener) {
  return impl_->subscribe(std::move(listener));
}

}  // namespace dlrun::logs
