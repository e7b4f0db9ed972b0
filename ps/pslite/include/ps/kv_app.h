#ifndef PS_KV_APP_H_
#define PS_KV_APP_H_
/// ps/kv_app.h: lists of keys and values: workers push and pull them, servers handle what comes.
#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ps/base.h"
#include "ps/simple_app.h"

namespace ps {

/// Keys rise. Without `lens` every key has vals.size() / keys.size() values; with them key i has
/// lens[i], one after the other.
template <typename Val>
struct KVPairs {
  SArray<Key> keys;
  SArray<Val> vals;
  SArray<int> lens;
  int priority = 0;  ///< without effect
};

/// Pushes to and pulls from the servers that own the keys. Thread safe. Callbacks run on the
/// customer's thread, before Wait returns.
template <typename Val>
class KVWorker : public SimpleApp {
 public:
  using SimpleApp::obj_;
  using Callback = std::function<void()>;
  using SlicedKVs = std::vector<std::pair<bool, KVPairs<Val>>>;
  /// Makes of `send` one list for each server: (whether it gets any, its part).
  using Slicer = std::function<void(const KVPairs<Val>& send, const std::vector<Range>& ranges,
                                    SlicedKVs* sliced)>;

  explicit KVWorker(int app_id) : KVWorker(app_id, app_id) {}
  KVWorker(int app_id, int customer_id, int /*instance*/ = 0) {
    slicer_ = [this](const KVPairs<Val>& send, const std::vector<Range>& ranges,
                     SlicedKVs* sliced) { DefaultSlicer(send, ranges, sliced); };
    obj_ = new Customer(app_id, customer_id, [this](const Message& m) { Process(m); });
  }
  ~KVWorker() override {
    // Here, while what the thread uses is still there.
    delete obj_;
    obj_ = nullptr;
  }

  /// Copies what it is given. Each returns the number to wait for.
  int Push(const std::vector<Key>& keys, const std::vector<Val>& vals,
           const std::vector<int>& lens = {}, int cmd = 0, const Callback& cb = nullptr,
           int priority = 0) {
    return ZPush(SArray<Key>(keys), SArray<Val>(vals), SArray<int>(lens), cmd, cb, priority);
  }
  /// `vals` and `lens` are there until it is done: of the right size, or empty, to be resized.
  int Pull(const std::vector<Key>& keys, std::vector<Val>* vals, std::vector<int>* lens = nullptr,
           int cmd = 0, const Callback& cb = nullptr, int priority = 0) {
    const SArray<Key> own(keys);
    return Begin(false, true, Pairs(own, SArray<Val>(), SArray<int>(), priority), cmd,
                 Gather(own, vals, lens, cb));
  }
  int PushPull(const std::vector<Key>& keys, const std::vector<Val>& vals, std::vector<Val>* outs,
               std::vector<int>* lens = nullptr, int cmd = 0, const Callback& cb = nullptr,
               int priority = 0) {
    const SArray<Key> own(keys);
    KVPairs<Val> send = Pairs(own, SArray<Val>(vals), SArray<int>(), priority);
    if (lens != nullptr) send.lens = SArray<int>(*lens);
    return Begin(true, true, send, cmd, Gather(own, outs, lens, cb));
  }

  /// As above without copies: what is given stays as it is until it is done.
  int ZPush(const SArray<Key>& keys, const SArray<Val>& vals, const SArray<int>& lens = {},
            int cmd = 0, const Callback& cb = nullptr, int priority = 0) {
    return Begin(true, false, Pairs(keys, vals, lens, priority), cmd,
                 [cb](std::vector<KVPairs<Val>>*) {
                   if (cb) cb();
                 });
  }
  int ZPull(const SArray<Key>& keys, SArray<Val>* vals, SArray<int>* lens = nullptr, int cmd = 0,
            const Callback& cb = nullptr, int priority = 0) {
    return Begin(false, true, Pairs(keys, SArray<Val>(), SArray<int>(), priority), cmd,
                 Gather(keys, vals, lens, cb));
  }
  int ZPushPull(const SArray<Key>& keys, const SArray<Val>& vals, SArray<Val>* outs,
                SArray<int>* lens = nullptr, int cmd = 0, const Callback& cb = nullptr,
                int priority = 0) {
    KVPairs<Val> send = Pairs(keys, vals, SArray<int>(), priority);
    if (lens != nullptr) send.lens = *lens;
    return Begin(true, true, send, cmd, Gather(keys, outs, lens, cb));
  }

  void Wait(int timestamp) override { obj_->WaitRequest(timestamp); }
  void set_slicer(const Slicer& slicer) {
    CHECK(slicer) << "an empty slicer";
    slicer_ = slicer;
  }

 private:
  /// Runs when the last answer of a request has come, with what the servers sent.
  using Done = std::function<void(std::vector<KVPairs<Val>>* parts)>;
  struct Open {
    Done done;
    std::vector<KVPairs<Val>> parts;
  };

  static KVPairs<Val> Pairs(const SArray<Key>& keys, const SArray<Val>& vals,
                            const SArray<int>& lens, int priority) {
    KVPairs<Val> pairs;
    pairs.keys = keys;
    pairs.vals = vals;
    pairs.lens = lens;
    pairs.priority = priority;
    return pairs;
  }

  int Begin(bool push, bool pull, const KVPairs<Val>& send, int cmd, Done done) {
    SlicedKVs sliced;
    slicer_(send, Postoffice::Get()->GetServerKeyRanges(), &sliced);
    const int timestamp = obj_->NewRequest(kServerGroup);
    const auto skipped =
        std::count_if(sliced.begin(), sliced.end(),
                      [](const std::pair<bool, KVPairs<Val>>& s) { return !s.first; });
    if (static_cast<size_t>(skipped) == sliced.size()) {
      std::vector<KVPairs<Val>> none;
      done(&none);
      obj_->AddResponse(timestamp, static_cast<int>(skipped));
      return timestamp;
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      open_[timestamp].done = std::move(done);
    }
    obj_->AddResponse(timestamp, static_cast<int>(skipped));
    for (size_t i = 0; i < sliced.size(); ++i) {
      if (!sliced[i].first) continue;
      const KVPairs<Val>& part = sliced[i].second;
      Message message;
      message.meta.app_id = obj_->app_id();
      message.meta.customer_id = obj_->customer_id();
      message.meta.timestamp = timestamp;
      message.meta.request = true;
      message.meta.push = push;
      message.meta.pull = pull;
      message.meta.head = cmd;
      message.meta.priority = send.priority;
      message.meta.recver = Postoffice::ServerRankToID(static_cast<int>(i));
      message.AddData(part.keys);
      message.AddData(part.vals);
      if (!part.lens.empty()) message.AddData(part.lens);
      Postoffice::Get()->van()->Send(message);
    }
    return timestamp;
  }

  void Process(const Message& message) override {
    if (message.meta.simple_app) {
      SimpleApp::Process(message);
      return;
    }
    const int timestamp = message.meta.timestamp;
    const bool last = obj_->OneMissing(timestamp);
    Open open;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto at = open_.find(timestamp);
      if (at == open_.end()) return;
      if (message.meta.pull) {
        CHECK_GE(message.data.size(), 2) << "a server answered a pull without keys and values";
        KVPairs<Val> part;
        part.keys = message.data[0];
        part.vals = message.data[1];
        if (message.data.size() > 2) part.lens = message.data[2];
        at->second.parts.push_back(part);
      }
      if (!last) return;
      open = std::move(at->second);
      open_.erase(at);
    }
    open.done(&open.parts);
  }

  /// Puts the parts of a pull together in the order of the keys. C and D: std::vector or SArray.
  template <typename C, typename D>
  static Done Gather(const SArray<Key>& keys, C* vals, D* lens, const Callback& cb) {
    CHECK(vals != nullptr) << "nowhere to put the pulled values";
    return [keys, vals, lens, cb](std::vector<KVPairs<Val>>* parts) {
      std::sort(parts->begin(), parts->end(), [](const KVPairs<Val>& a, const KVPairs<Val>& b) {
        return b.keys.empty() ? false : a.keys.empty() || a.keys.front() < b.keys.front();
      });
      size_t keys_came = 0, vals_came = 0;
      for (const KVPairs<Val>& part : *parts) {
        keys_came += part.keys.size();
        vals_came += part.vals.size();
        if (!part.lens.empty()) CHECK_EQ(part.lens.size(), part.keys.size());
      }
      CHECK_EQ(keys_came, keys.size()) << "the servers answered a pull with other keys";
      if (vals->empty()) vals->resize(vals_came);
      CHECK_EQ(vals->size(), vals_came) << "the pulled values do not fit where they shall go";
      if (lens != nullptr) {
        if (lens->empty()) lens->resize(keys.size());
        CHECK_EQ(lens->size(), keys.size());
      }
      Val* val = vals->data();
      int* len = lens != nullptr ? lens->data() : nullptr;
      for (const KVPairs<Val>& part : *parts) {
        if (!part.vals.empty())
          std::memcpy(static_cast<void*>(val), part.vals.data(), part.vals.size() * sizeof(Val));
        val += part.vals.size();
        if (len == nullptr) continue;
        for (size_t i = 0; i < part.keys.size(); ++i)
          *len++ = part.lens.empty() ? static_cast<int>(part.vals.size() / part.keys.size())
                                     : part.lens[i];
      }
      if (cb) cb();
    };
  }

  void DefaultSlicer(const KVPairs<Val>& send, const std::vector<Range>& ranges,
                     SlicedKVs* sliced) {
    const SArray<Key>& keys = send.keys;
    const Key* const first = keys.begin();
    const Key* const last = keys.end();
    CHECK(std::is_sorted(first, last)) << "keys must rise";
    sliced->resize(ranges.size());
    size_t each = 0;  // values of a key, without lens
    if (send.lens.empty()) {
      each = keys.empty() ? 0 : send.vals.size() / keys.size();
      CHECK_EQ(each * keys.size(), send.vals.size()) << "the keys do not have equally many values";
    } else {
      CHECK_EQ(send.lens.size(), keys.size());
    }
    size_t key = 0, val = 0;
    for (size_t server = 0; server < ranges.size(); ++server) {
      // The last one takes all that is left.
      const size_t key_end =
          server + 1 == ranges.size()
              ? keys.size()
              : static_cast<size_t>(
                    std::lower_bound(first + key, last, static_cast<Key>(ranges[server].end())) -
                    first);
      size_t val_end = val + each * (key_end - key);
      if (!send.lens.empty())
        for (size_t i = key; i < key_end; ++i) val_end += static_cast<size_t>(send.lens[i]);
      (*sliced)[server].first = key_end > key;
      if (key_end > key) {
        KVPairs<Val>& part = (*sliced)[server].second;
        part.keys = keys.segment(key, key_end);
        if (!send.vals.empty()) part.vals = send.vals.segment(val, val_end);
        if (!send.lens.empty()) part.lens = send.lens.segment(key, key_end);
      }
      key = key_end;
      val = val_end;
    }
  }

  std::mutex mutex_;
  std::unordered_map<int, Open> open_;
  Slicer slicer_;
};

/// About a request that came to a server.
struct KVMeta {
  int cmd;
  bool push;
  bool pull;
  int sender;
  int timestamp;
  int customer_id;  ///< the worker's
};

/// Handles pushes and pulls, one after the other, on a thread of its own. Each is to be answered,
/// there or later, from any thread.
template <typename Val>
class KVServer : public SimpleApp {
 public:
  using ReqHandle =
      std::function<void(const KVMeta& req_meta, const KVPairs<Val>& req_data, KVServer* server)>;

  explicit KVServer(int app_id, bool /*is_scheduler*/ = false, int /*instance*/ = 0) {
    obj_ = new Customer(app_id, app_id, [this](const Message& m) { Process(m); });
  }
  ~KVServer() override {
    delete obj_;
    obj_ = nullptr;
  }

  using SimpleApp::set_request_handle;
  void set_request_handle(const ReqHandle& request_handle) {
    CHECK(request_handle) << "an empty request handle";
    kv_handle_.Set(request_handle);
  }
  using SimpleApp::Response;
  /// What is in `res` stays as it is until it was sent: it is not copied.
  void Response(const KVMeta& req, const KVPairs<Val>& res = KVPairs<Val>()) {
    Message message;
    message.meta.app_id = obj_->app_id();
    message.meta.customer_id = req.customer_id;
    message.meta.timestamp = req.timestamp;
    message.meta.recver = req.sender;
    message.meta.head = req.cmd;
    message.meta.push = req.push;
    message.meta.pull = req.pull;
    if (req.pull || !res.keys.empty()) {
      message.AddData(res.keys);
      message.AddData(res.vals);
      if (!res.lens.empty()) message.AddData(res.lens);
    }
    Postoffice::Get()->van()->Send(message);
  }

 private:
  void Process(const Message& message) override {
    if (message.meta.simple_app) {
      SimpleApp::Process(message);
      return;
    }
    const KVMeta meta = {message.meta.head,   message.meta.push,      message.meta.pull,
                         message.meta.sender, message.meta.timestamp, message.meta.customer_id};
    KVPairs<Val> data;
    if (!message.data.empty()) {
      CHECK_GE(message.data.size(), 2);
      data.keys = message.data[0];
      data.vals = message.data[1];
      if (message.data.size() > 2) {
        data.lens = message.data[2];
        CHECK_EQ(data.lens.size(), data.keys.size());
      }
    }
    // A request may come before the handle is set.
    const std::shared_ptr<ReqHandle> handle = kv_handle_.Get(std::chrono::seconds(30));
    CHECK(handle != nullptr) << "a KVServer without a request handle got a request";
    (*handle)(meta, data, this);
  }

  internal::HandleSlot<ReqHandle> kv_handle_;
};

/// A store that adds what is pushed. Values of any length: a longer push makes a row longer; a key
/// that was never pushed has one value, 0.
template <typename Val>
struct KVServerDefaultHandle {
  void operator()(const KVMeta& req_meta, const KVPairs<Val>& req_data, KVServer<Val>* server) {
    const size_t n = req_data.keys.size();
    const size_t each = n == 0 ? 0 : req_data.vals.size() / n;
    KVPairs<Val> res;
    if (req_meta.push && req_data.lens.empty()) CHECK_EQ(each * n, req_data.vals.size());
    std::vector<const std::vector<Val>*> rows;
    size_t total = 0;
    bool scalars = true;
    const Val* val = req_data.vals.data();
    for (size_t i = 0; i < n; ++i) {
      std::vector<Val>& row = store[req_data.keys[i]];
      if (req_meta.push) {
        const size_t len = req_data.lens.empty() ? each : static_cast<size_t>(req_data.lens[i]);
        if (row.size() < len) row.resize(len);
        for (size_t k = 0; k < len; ++k) row[k] += *val++;
      }
      if (!req_meta.pull) continue;
      if (row.empty()) row.resize(1);
      rows.push_back(&row);
      total += row.size();
      scalars = scalars && row.size() == 1;
    }
    if (req_meta.pull) {
      res.keys = req_data.keys;
      res.vals.resize(total);
      if (!scalars) res.lens.resize(n);
      Val* out = res.vals.data();
      for (size_t i = 0; i < rows.size(); ++i) {
        out = std::copy(rows[i]->begin(), rows[i]->end(), out);
        if (!scalars) res.lens[i] = static_cast<int>(rows[i]->size());
      }
    }
    server->Response(req_meta, res);
  }

  std::unordered_map<Key, std::vector<Val>> store;
};

}  // namespace ps
#endif  // PS_KV_APP_H_
