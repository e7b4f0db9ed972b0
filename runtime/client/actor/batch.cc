#include "runtime/client/actor/batch.h"

#include <algorithm>

namespace dlrun::loop {

Batch::Batch(std::string input, io::BatchView view,
             std::function<void(const io::BatchView&)> released)
    : input_(std::move(input)),
      view_(view),
      released_(std::move(released)),
      keys_(view.ids.begin(), view.ids.end()) {
  std::sort(keys_.begin(), keys_.end());
  keys_.erase(std::unique(keys_.begin(), keys_.end()), keys_.end());
  index_.reserve(view.ids.size());
  for (const auto id : view.ids) {
    const auto at = std::lower_bound(keys_.begin(), keys_.end(), id);
    index_.push_back(static_cast<std::uint32_t>(at - keys_.begin()));
  }
}

Batch::~Batch() {
  if (released_) released_(view_);
}

}  // namespace dlrun::loop
