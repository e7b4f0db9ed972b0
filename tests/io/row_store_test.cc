#include "io/core/row_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "runtime/base/rng.h"
#include "tests/io/table_helper.h"

namespace dlrun::io {
namespace {

Table sample(std::size_t rows) {
  Table table;
  prepare_table({field("n", FieldType::kInt64), field("x", FieldType::kFloat32, true, 3),
                 field("s", FieldType::kText), field("words", FieldType::kText, false, 0),
                 field("list", FieldType::kFloat64, true, 0), field("on", FieldType::kBoolean)},
                table);
  SplitMix64 rng(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    table.columns[0].push(static_cast<std::int64_t>(row));
    for (int i = 0; i < 3; ++i) table.columns[1].push(static_cast<float>(row) + 0.5f);
    table.columns[2].push_bytes(std::string(static_cast<std::size_t>(rng.below(9)), 's'));
    for (std::uint64_t i = rng.below(4); i > 0; --i)
      table.columns[3].push_bytes("w" + std::to_string(i));
    const bool has = rng.below(3) != 0;
    for (std::uint64_t i = has ? rng.below(4) : 0; i > 0; --i)
      table.columns[4].push(static_cast<double>(i));
    table.columns[5].push(static_cast<std::uint8_t>(row & 1));
    for (std::size_t c = 0; c < table.columns.size(); ++c)
      table.columns[c].end_row(c == 4 ? has : c != 1 || row % 2 == 0);
    ++table.rows;
  }
  return table;
}

/// A slot of exactly `bytes` on the heap, so that one byte too far is seen.
struct Slot {
  explicit Slot(std::size_t bytes)
      : at(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kColumnAlign}))),
        size(bytes) {
    std::memset(at, 0xee, bytes);
  }
  ~Slot() { ::operator delete (at, std::align_val_t{kColumnAlign}); }
  std::span<std::byte> span() { return {at, size}; }
  std::byte* at;
  std::size_t size;
};

/// The batch back as a Table, to be told in the same words as the one that went in.
Table table_of(const BatchView& view) {
  Table table;
  table.rows = static_cast<std::size_t>(view.rows);
  for (const ColumnView& from : view.columns) {
    Column column;
    column.name = from.name;
    column.type = from.type;
    column.width = from.width;
    column.may_miss = !from.valid.empty();
    const auto* data = reinterpret_cast<const char*>(from.data.data());
    column.data.assign(data, data + from.data.size());
    if (!from.value_offsets.empty())
      column.value_ends.assign(from.value_offsets.begin() + 1, from.value_offsets.end());
    if (!from.row_offsets.empty())
      column.row_ends.assign(from.row_offsets.begin() + 1, from.row_offsets.end());
    column.valid.assign(from.valid.begin(), from.valid.end());
    table.columns.push_back(std::move(column));
  }
  return table;
}

std::vector<std::uint32_t> order_of(std::size_t rows, std::uint64_t seed) {
  std::vector<std::uint32_t> order(rows);
  std::iota(order.begin(), order.end(), 0u);
  SplitMix64 rng(seed);
  if (seed != 0)
    for (std::size_t i = rows; i > 1; --i)
      std::swap(order[i - 1], order[static_cast<std::size_t>(rng.below(i))]);
  return order;
}

TEST(TableStore, ABatchHoldsTheRowsInTheirOrderAndFitsWhatWasSaidToSuffice) {
  for (const std::size_t rows : {1u, 2u, 63u, 64u, 65u, 500u}) {
    TableStore store(sample(0));
    store.table() = sample(rows);
    for (const std::uint64_t seed : {0u, 1u, 2u}) {
      const auto order = order_of(rows, seed);
      std::uint64_t weight = 0;
      for (std::size_t row = 0; row < rows; ++row) weight += store.weight(row);
      const SplitPiece piece{7, rows, 3, 1};
      Slot slot(static_cast<std::size_t>(store.batch_bytes(rows, weight, 1)));
      const std::uint64_t used = store.write(order, 3, {&piece, 1}, slot.span());
      EXPECT_LE(used, slot.size);
      const auto view = open_batch({slot.at, static_cast<std::size_t>(used)});
      ASSERT_TRUE(view) << view.error().to_string();
      EXPECT_EQ(view->kind, BatchKind::kTable);
      EXPECT_EQ(view->pass, 3u);
      ASSERT_EQ(view->pieces.size(), 1u);
      EXPECT_EQ(view->pieces[0].split_id, 7u);
      const Table back = table_of(*view);
      expect_sound(back);
      std::string want;
      for (const std::uint32_t row : order) want += row_text(store.table(), row) + "\n";
      EXPECT_EQ(text_of(back), want);
    }
  }
}

TEST(TableStore, KeepsTheRowsThatAreNamed) {
  TableStore store(sample(0));
  store.table() = sample(100);
  std::string want;
  const std::vector<std::uint32_t> kept = {99, 3, 50};
  for (const std::uint32_t row : kept) want += row_text(store.table(), row) + "\n";
  store.keep(kept);
  EXPECT_EQ(text_of(store.table()), want);
  expect_sound(store.table());
  store.keep({});
  EXPECT_EQ(store.rows(), 0u);
  EXPECT_EQ(store.table().columns.size(), 6u);
}

TEST(TableStore, ABatchThatWasScribbledOnIsRefusedOrStaysWithinItsBytes) {
  const Table table = sample(20);
  const auto order = order_of(20, 1);
  Slot whole(64 * 1024);
  const auto used =
      static_cast<std::size_t>(TableStore::write_table(table, order, 0, {}, whole.span()));
  SplitMix64 rng(1);
  std::size_t refused = 0;
  for (int i = 0; i < 20000; ++i) {
    Slot slot(used);
    std::memcpy(slot.at, whole.at, used);
    for (std::uint64_t n = 1 + rng.below(3); n > 0; --n) {
      const std::size_t end = rng.below(2) == 0 ? used : std::min<std::size_t>(used, 1024);
      const std::uint64_t value = rng.below(3) == 0 ? ~0ull << rng.below(64) : rng.below(1 << 20);
      const auto at = static_cast<std::size_t>(rng.below(end - sizeof value));
      std::memcpy(slot.at + at, &value, 1 + rng.below(sizeof value));
    }
    const auto view = open_batch({slot.at, used});
    refused += !view;
    if (view && view->kind == BatchKind::kTable) (void)text_of(table_of(*view));
  }
  EXPECT_GT(refused, 1000u);
}

}  // namespace
}  // namespace dlrun::io
