#pragma once
/// runtime/client/actor/batch.h: one batch of the pipe with an owner: the slot goes back when the
/// last reference dies.
/// Shapes: labels [rows].
///   CSR: row r is the entries offsets[r] .. offsets[r + 1] of values and index; keys [n] are the
///   distinct ids of the batch, rising; index [nnz] u32 says which key an entry has, so that one
///   pull serves the batch.
///   Dense: values [rows, cols].
/// Threads: read from any.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/core/batch.h"

namespace dlrun::loop {

class Batch {
 public:
  /// `released` runs once, in the destructor, on whatever thread that is.
  Batch(std::string input, io::BatchView view, std::function<void(const io::BatchView&)> released);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  const std::string& input() const { return input_; }
  std::uint32_t pass() const { return view_.pass; }
  std::size_t rows() const { return view_.rows; }
  std::size_t cols() const { return view_.cols; }
  std::span<const float> labels() const { return view_.labels; }
  std::span<const float> values() const { return view_.values; }
  std::span<const std::uint64_t> ids() const { return view_.ids; }
  std::span<const std::uint32_t> fields() const { return view_.fields; }
  /// Of a typed format; the rest is empty then.
  const std::vector<io::ColumnView>& columns() const { return view_.columns; }
  std::size_t begin_of(std::size_t row) const {
    return static_cast<std::size_t>(view_.offsets[row]);
  }
  std::size_t end_of(std::size_t row) const {
    return static_cast<std::size_t>(view_.offsets[row + 1]);
  }
  std::span<const std::uint64_t> keys() const { return keys_; }
  std::span<const std::uint32_t> index() const { return index_; }

 private:
  std::string input_;
  io::BatchView view_;
  std::function<void(const io::BatchView&)> released_;
  std::vector<std::uint64_t> keys_;
  std::vector<std::uint32_t> index_;
};

using BatchPtr = std::shared_ptr<const Batch>;

}  // namespace dlrun::loop
