#include <gtest/gtest.h>

#include "runtime/client/actor/batch.h"

namespace dlrun::loop {
namespace {

struct Columns {
  std::vector<float> labels = {1, 0};
  std::vector<std::int64_t> offsets = {0, 3, 5};
  std::vector<std::uint64_t> ids = {~0ull, 7, 7, 0, ~0ull};
  std::vector<float> values = {1, 2, 3, 4, 5};

  io::BatchView view() const {
    io::BatchView view;
    view.kind = io::BatchKind::kCsr;
    view.rows = labels.size();
    view.labels = labels;
    view.offsets = offsets;
    view.ids = ids;
    view.values = values;
    view.sequence = 42;
    return view;
  }
};

TEST(ActorBatch, KeysAreDistinctRisingAndIndexLeadsBackToEveryId) {
  const Columns columns;
  const Batch batch("train", columns.view(), {});
  EXPECT_EQ(std::vector<std::uint64_t>(batch.keys().begin(), batch.keys().end()),
            (std::vector<std::uint64_t>{0, 7, ~0ull}));
  ASSERT_EQ(batch.index().size(), columns.ids.size());
  for (std::size_t e = 0; e < columns.ids.size(); ++e)
    EXPECT_EQ(batch.keys()[batch.index()[e]], columns.ids[e]);
  EXPECT_EQ(batch.begin_of(1), 3u);
  EXPECT_EQ(batch.end_of(1), 5u);
}

TEST(ActorBatch, GivesItsSlotBackOnceWhenTheLastReferenceDies) {
  const Columns columns;
  std::vector<std::uint64_t> released;
  BatchPtr batch = std::make_shared<const Batch>(
      "train", columns.view(),
      [&](const io::BatchView& view) { released.push_back(view.sequence); });
  BatchPtr second = batch;
  batch.reset();
  EXPECT_TRUE(released.empty());
  second.reset();
  EXPECT_EQ(released, std::vector<std::uint64_t>{42});
}

}  // namespace
}  // namespace dlrun::loop
