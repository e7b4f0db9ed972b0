#include "ps/checkpoint/part_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>

#include "ps/checkpoint/block_codec.h"
#include "runtime/base/assert.h"
#include "runtime/os/fd.h"

namespace dlrun::ps {
namespace {

constexpr std::uint64_t kWriteBackBytes = 8u << 20;

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status sync_folder(const std::string& path) {
  const os::Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail_errno("open " + path);
  if (::fsync(fd.get()) != 0) return fail_errno("sync " + path);
  return {};
}

}  // namespace

struct PartWriter::Impl {
  Impl(PartFile f, std::function<void()> change)
      : file(std::move(f)),
        temporary(file.path + ".tmp-" + std::to_string(::getpid())),
        on_change(std::move(change)),
        coder(file.zstd_level),
        check(file.checkpoint, static_cast<std::uint16_t>(file.shard.value)) {}

  void run() {
    for (;;) {
      std::optional<Block> block;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return stopping || finishing || !queue.empty(); });
        if (stopping) return;
        if (!queue.empty()) {
          block = std::move(queue.front());
          queue.pop_front();
        }
      }
      if (!block) return end(complete());
      changed.notify_all();
      on_change();
      if (Status ok = write(*block); !ok) return end(std::move(ok));
    }
  }

  Status write(Block& block) {
    block.header.checkpoint = file.checkpoint;
    block.header.shard = static_cast<std::uint16_t>(file.shard.value);
    block.header.number = check.blocks();
    const std::string_view stored = coder.store(block);
    const Status in_order = check.next(block.header);
    DLRUN_ASSERT(in_order.has_value());
    head.clear();
    encode(block.header, head);
    DLRUN_TRY(os::write_all(fd.get(), head, "write " + temporary));
    DLRUN_TRY(os::write_all(fd.get(), stored, "write " + temporary));
    bytes += head.size() + stored.size();
    if (bytes - written_back >= kWriteBackBytes) {
      // Only a hint: sync at the end is what counts.
      (void)::sync_file_range(fd.get(), static_cast<off64_t>(written_back),
                              static_cast<off64_t>(bytes - written_back), SYNC_FILE_RANGE_WRITE);
      written_back = bytes;
    }
    return {};
  }

  Status complete() {
    Block end;
    end.header.kind = BlockKind::kEnd;
    end.header.n = static_cast<std::uint32_t>(check.blocks());
    DLRUN_TRY(write(end));
    if (::fsync(fd.get()) != 0) return fail_errno("sync " + temporary);
    fd.reset();
    if (std::rename(temporary.c_str(), file.path.c_str()) != 0)
      return fail_errno("rename to " + file.path);
    return sync_folder(folder_of(file.path));
  }

  void end(Status status) {
    if (!status) ::unlink(temporary.c_str());
    {
      const std::lock_guard lock(mutex);
      if (status) {
        result = Facts{bytes, check.blocks(), check.rows(), check.headers_crc()};
      } else {
        result = tl::unexpected(status.error());
      }
      queue.clear();
    }
    changed.notify_all();
    on_change();
  }

  const PartFile file;
  const std::string temporary;
  const std::function<void()> on_change;
  BlockCoder coder;
  PartCheck check;
  os::Fd fd;
  std::string head;
  std::uint64_t bytes = 0;
  std::uint64_t written_back = 0;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Block> queue;
  bool finishing = false;
  bool stopping = false;
  std::optional<Result<Facts>> result;
  std::thread thread;  ///< last: it uses the others
};

PartWriter::PartWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  impl_->thread = std::thread([this] { impl_->run(); });
}

Result<std::unique_ptr<PartWriter>> PartWriter::create(PartFile file,
                                                       std::function<void()> on_change) {
  if (file.shard.value > 0xffff)
    return fail(Errc::kInvalidArgument, "a checkpoint has at most 65,536 parts");
  auto impl = std::make_unique<Impl>(std::move(file), std::move(on_change));
  impl->fd =
      os::Fd(::open(impl->temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!impl->fd) return fail_errno("create " + impl->temporary);
  return std::unique_ptr<PartWriter>(new PartWriter(std::move(impl)));
}

PartWriter::~PartWriter() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->changed.notify_all();
  impl_->thread.join();
  if (!impl_->result) ::unlink(impl_->temporary.c_str());
}

bool PartWriter::has_room() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->result.has_value() || impl_->queue.size() < impl_->file.blocks_max;
}

void PartWriter::put(Block block) {
  std::unique_lock lock(impl_->mutex);
  DLRUN_ASSERT(!impl_->finishing);
  impl_->changed.wait(lock, [&] {
    return impl_->result.has_value() || impl_->queue.size() < impl_->file.blocks_max;
  });
  if (impl_->result) return;
  impl_->queue.push_back(std::move(block));
  lock.unlock();
  impl_->changed.notify_all();
}

void PartWriter::finish() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->finishing = true;
  }
  impl_->changed.notify_all();
}

std::optional<Result<PartWriter::Facts>> PartWriter::result() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->result;
}

}  // namespace dlrun::ps
