#include "runtime/node/log_source.h"

namespace dlrun::node {
namespace {

logs::StreamId id_of(const TaskId& task, web::LogStream stream) {
  return {task, stream == web::LogStream::kStdout ? logs::Stream::kStdout : logs::Stream::kStderr};
}

}  // namespace

Result<web::LogSlice> StoreLogSource::read(const TaskId& task, web::LogStream stream,
                                           std::uint64_t offset, std::size_t bytes_max) {
  DLRUN_ASSIGN(logs::Chunk chunk, store_->read(id_of(task, stream), offset, bytes_max));
  web::LogSlice slice;
  slice.offset = chunk.bytes.empty() ? offset : chunk.offset;
  slice.bytes = std::move(chunk.bytes);
  slice.first = chunk.oldest;
  slice.size = chunk.end;
  DLRUN_ASSIGN(const logs::StreamInfo info, store_->info(id_of(task, stream)));
  slice.complete = info.finished && info.end == chunk.end;
  return slice;
}

Result<std::vector<web::LogRef>> StoreLogSource::list(JobId job) {
  DLRUN_ASSIGN(const std::vector<logs::StreamInfo> streams, store_->list(job));
  std::vector<web::LogRef> refs;
  for (const logs::StreamInfo& info : streams)
    refs.push_back({info.id.task, info.id.stream == logs::Stream::kStdout
                                      ? web::LogStream::kStdout
                                      : web::LogStream::kStderr});
  return refs;
}

std::shared_ptr<void> StoreLogSource::follow(const TaskId& task, web::LogStream stream,
                                             std::function<void()> listener) {
  return store_->subscribe(
      [id = id_of(task, stream), listener = std::move(listener)](const logs::StreamInfo& info) {
        if (info.id == id) listener();
      });
}

}  // namespace dlrun::node
