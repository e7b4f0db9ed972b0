#include "bench/roofs/ring.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstring>
#include <thread>

#include "runtime/base/assert.h"

namespace dlrun::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kRingBytes = 2u << 20;

struct Shared {
  alignas(64) std::atomic<std::uint64_t> head{0};  ///< bytes written
  alignas(64) std::atomic<std::uint64_t> tail{0};  ///< bytes read
  alignas(64) std::atomic<std::uint64_t> done{0};  ///< messages received (push), wanted (pull)
  alignas(64) std::atomic<std::uint32_t> ping{0};
  alignas(64) std::atomic<std::uint32_t> pong{0};
  alignas(64) std::byte there[64]{};
  alignas(64) std::byte back[64]{};
};

/// Memory as two processes would share it.
class Ring {
 public:
  Ring() {
    const int fd = ::memfd_create("bench-ring", MFD_CLOEXEC);
    DLRUN_ASSERT(fd >= 0 && ::ftruncate(fd, kBytes) == 0);
    void* at = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    DLRUN_ASSERT(at != MAP_FAILED);
    ::close(fd);
    base_ = static_cast<std::byte*>(at);
    shared_ = new (base_) Shared;
  }
  ~Ring() { ::munmap(base_, kBytes); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  Shared& shared() { return *shared_; }
  std::byte* at(std::uint64_t position) { return base_ + 4096 + position % kRingBytes; }

 private:
  static constexpr std::size_t kBytes = 4096 + kRingBytes;
  std::byte* base_;
  Shared* shared_;
};

template <class Done>
void spin_until(Done done) {
  for (int i = 0; !done(); ++i) {
    _mm_pause();
    if (i % 64 == 63) ::sched_yield();
  }
}

void add(float* to, const float* from, std::size_t n) {
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i, _mm256_add_ps(_mm256_loadu_ps(to + i), _mm256_loadu_ps(from + i)));
  for (; i < n; ++i) to[i] += from[i];
}

double gbps(const MoveJob& job, Clock::time_point start) {
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return static_cast<double>(job.message_bytes) * static_cast<double>(job.messages) / seconds *
         1e-9;
}

/// Calls step(offset in the message, bytes) for the chunks of one message.
template <class Step>
void chunks(const MoveJob& job, Step step) {
  for (std::size_t at = 0; at < job.message_bytes; at += job.chunk_bytes)
    step(at, std::min(job.chunk_bytes, job.message_bytes - at));
}

void put(Ring& ring, std::uint64_t& written, const std::byte* from, std::size_t n) {
  Shared& s = ring.shared();
  spin_until([&] { return written + n - s.tail.load(std::memory_order_acquire) <= kRingBytes; });
  std::memcpy(ring.at(written), from, n);
  written += n;
  s.head.store(written, std::memory_order_release);
}

template <class Use>
void take(Ring& ring, std::uint64_t& read, std::size_t n, Use use) {
  Shared& s = ring.shared();
  spin_until([&] { return s.head.load(std::memory_order_acquire) - read >= n; });
  use(ring.at(read));
  read += n;
  s.tail.store(read, std::memory_order_release);
}

std::vector<float> floats_of(const MoveJob& job) {
  DLRUN_ASSERT(job.message_bytes % 4 == 0 &&
               kRingBytes % std::min(job.chunk_bytes, job.message_bytes) == 0);
  return std::vector<float>(job.message_bytes / 4, 1.0f);
}

}  // namespace

double ring_push(const MoveJob& job) {
  Ring ring;
  const std::vector<float> source = floats_of(job);
  std::vector<float> sums = floats_of(job);
  std::thread receiver([&] {
    std::uint64_t read = 0;
    for (std::size_t m = 0; m < job.messages; ++m) {
      chunks(job, [&](std::size_t at, std::size_t n) {
        take(ring, read, n, [&](const std::byte* from) {
          add(sums.data() + at / 4, reinterpret_cast<const float*>(from), n / 4);
        });
      });
      ring.shared().done.store(m + 1, std::memory_order_release);
    }
  });
  const auto start = Clock::now();
  const auto* bytes = reinterpret_cast<const std::byte*>(source.data());
  const auto acked = [&] { return ring.shared().done.load(std::memory_order_acquire); };
  std::uint64_t written = 0;
  for (std::size_t m = 0; m < job.messages; ++m) {
    spin_until([&] { return m - acked() < job.window; });
    chunks(job, [&](std::size_t at, std::size_t n) { put(ring, written, bytes + at, n); });
  }
  spin_until([&] { return acked() == job.messages; });
  const double rate = gbps(job, start);
  receiver.join();
  return rate;
}

double ring_pull(const MoveJob& job) {
  Ring ring;
  const std::vector<float> source = floats_of(job);
  std::vector<float> out = floats_of(job);
  std::thread server([&] {
    const auto* bytes = reinterpret_cast<const std::byte*>(source.data());
    std::uint64_t written = 0;
    for (std::size_t m = 0; m < job.messages; ++m) {
      spin_until([&] { return ring.shared().done.load(std::memory_order_acquire) > m; });
      chunks(job, [&](std::size_t at, std::size_t n) { put(ring, written, bytes + at, n); });
    }
  });
  const auto start = Clock::now();
  auto* bytes = reinterpret_cast<std::byte*>(out.data());
  std::uint64_t read = 0;
  for (std::size_t m = 0; m < job.messages; ++m) {
    ring.shared().done.store(m + job.window, std::memory_order_release);
    chunks(job, [&](std::size_t at, std::size_t n) {
      take(ring, read, n, [&](const std::byte* from) { std::memcpy(bytes + at, from, n); });
    });
  }
  const double rate = gbps(job, start);
  server.join();
  return rate;
}

double plain_copy(const MoveJob& job) {
  const std::vector<float> source = floats_of(job);
  std::vector<float> out = floats_of(job);
  const auto start = Clock::now();
  for (std::size_t m = 0; m < job.messages; ++m) {
    std::memcpy(out.data(), source.data(), job.message_bytes);
    asm volatile("" : : "r"(out.data()) : "memory");
  }
  return gbps(job, start);
}

namespace {

/// n round trips; wait(word, value) until *word == value, wake(word) after it was set.
template <class Wait, class Wake>
std::vector<double> round_trips(std::size_t n, std::uint32_t pause_us, Wait wait, Wake wake) {
  Ring ring;
  Shared& s = ring.shared();
  std::thread server([&] {
    std::byte copy[64];
    for (std::uint32_t i = 1; i <= n; ++i) {
      wait(s.ping, i);
      std::memcpy(copy, s.there, sizeof copy);
      std::memcpy(s.back, copy, sizeof copy);
      s.pong.store(i, std::memory_order_release);
      wake(s.pong);
    }
  });
  std::vector<double> ns;
  ns.reserve(n);
  std::byte data[64]{};
  for (std::uint32_t i = 1; i <= n; ++i) {
    if (pause_us > 0) ::usleep(pause_us);
    const auto start = Clock::now();
    std::memcpy(s.there, data, sizeof data);
    s.ping.store(i, std::memory_order_release);
    wake(s.ping);
    wait(s.pong, i);
    std::memcpy(data, s.back, sizeof data);
    ns.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  }
  server.join();
  return ns;
}

}  // namespace

std::vector<double> ring_round_trips(std::size_t n) {
  return round_trips(
      n, 0,
      [](std::atomic<std::uint32_t>& word, std::uint32_t value) {
        spin_until([&] { return word.load(std::memory_order_acquire) == value; });
      },
      [](std::atomic<std::uint32_t>&) {});
}

std::vector<double> futex_round_trips(std::size_t n, std::uint32_t pause_us) {
  return round_trips(
      n, pause_us,
      [](std::atomic<std::uint32_t>& word, std::uint32_t value) {
        for (std::uint32_t seen = word; seen != value; seen = word)
          ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, nullptr, nullptr, 0);
      },
      [](std::atomic<std::uint32_t>& word) {
        ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
      });
}

}  // namespace dlrun::bench
