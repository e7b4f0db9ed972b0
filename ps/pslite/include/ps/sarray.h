#ifndef PS_SARRAY_H_
#define PS_SARRAY_H_
/// ps/sarray.h: an array whose copies share the memory, like a pointer; also with another type of
/// value, and in part. Values are plain ones (numbers): they are copied as bytes.
#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "ps/internal/utils.h"
#include "ps/range.h"

namespace ps {

template <typename V>
class SArray {
 public:
  SArray() = default;
  /// `size` values `value`.
  explicit SArray(size_t size, V value = V()) { resize(size, value); }

  /// Shares the memory of `other`, as values of this type. The bytes must fit.
  template <typename W>
  explicit SArray(const SArray<W>& other) {
    *this = other;
  }
  template <typename W>
  void operator=(const SArray<W>& other) {
    size_ = other.size() * sizeof(W) / sizeof(V);
    CHECK_EQ(size_ * sizeof(V), other.size() * sizeof(W)) << "the bytes are no whole values";
    capacity_ = other.capacity() * sizeof(W) / sizeof(V);
    ptr_ = std::shared_ptr<V>(other.ptr(), reinterpret_cast<V*>(other.data()));
  }

  /// The memory at `data`; with `deletable` it is this array's to `delete[]`.
  SArray(V* data, size_t size, bool deletable = false) {
    if (deletable)
      reset(data, size, [](V* p) { delete[] p; });
    else
      reset(data, size, [](V*) {});
  }
  /// A copy.
  explicit SArray(const std::vector<V>& values) { CopyFrom(values.data(), values.size()); }
  /// Shares the vector's memory.
  explicit SArray(const std::shared_ptr<std::vector<V>>& values)
      : size_(values->size()), capacity_(values->size()), ptr_(values, values->data()) {}
  template <typename W>
  SArray(const std::initializer_list<W>& list) {  // NOLINT: converts, as it does in ps-lite
    CopyFrom(list.begin(), list.end());
  }
  template <typename W>
  void operator=(const std::initializer_list<W>& list) {
    CopyFrom(list.begin(), list.end());
  }

  void CopyFrom(const V* data, size_t size) {
    SArray fresh;
    fresh.Grow(size);
    if (size > 0) std::memcpy(static_cast<void*>(fresh.data()), data, size * sizeof(V));
    fresh.size_ = size;
    *this = fresh;
  }
  void CopyFrom(const SArray<V>& other) {
    if (this != &other) CopyFrom(other.data(), other.size());
  }
  template <typename It>
  void CopyFrom(const It& first, const It& last) {
    const auto size = static_cast<size_t>(std::distance(first, last));
    SArray fresh;
    fresh.Grow(size);
    std::copy(first, last, fresh.data());
    fresh.size_ = size;
    *this = fresh;
  }

  template <typename Deleter>
  void reset(V* data, size_t size, Deleter deleter) {
    ptr_.reset(data, deleter);
    size_ = capacity_ = size;
  }
  /// Within the capacity the memory stays; beyond it this array gets its own. New values: `value`.
  void resize(size_t size, V value = V()) {
    const size_t before = size_;
    if (size > capacity_) Grow(size);
    size_ = size;
    for (size_t i = before; i < size; ++i) data()[i] = value;
  }
  void reserve(size_t size) {
    if (size > capacity_) Grow(size);
  }
  void clear() { *this = SArray(); }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  V* begin() { return data(); }
  const V* begin() const { return data(); }
  V* end() { return data() + size_; }
  const V* end() const { return data() + size_; }
  V* data() const { return ptr_.get(); }
  std::shared_ptr<V>& ptr() { return ptr_; }
  const std::shared_ptr<V>& ptr() const { return ptr_; }
  V front() const {
    CHECK(!empty());
    return data()[0];
  }
  V back() const {
    CHECK(!empty());
    return data()[size_ - 1];
  }
  V& operator[](size_t i) { return data()[i]; }
  const V& operator[](size_t i) const { return data()[i]; }

  void push_back(const V& value) {
    const V copy = value;  // it may lie in here
    if (size_ == capacity_) Grow(2 * size_ + 4);
    data()[size_++] = copy;
  }
  void pop_back() {
    if (size_ > 0) --size_;
  }
  void append(const SArray<V>& other) {
    if (other.empty()) return;
    const SArray<V> source = other;  // it may be this one
    const size_t before = size_;
    resize(before + source.size());
    std::memcpy(static_cast<void*>(data() + before), source.data(), source.size() * sizeof(V));
  }
  /// [begin, end) of it; shares the memory.
  SArray<V> segment(size_t begin, size_t end) const {
    CHECK_GE(end, begin);
    CHECK_LE(end, size_);
    SArray<V> part;
    part.ptr_ = std::shared_ptr<V>(ptr_, data() + begin);
    part.size_ = part.capacity_ = end - begin;
    return part;
  }

 private:
  /// Memory of its own for `capacity` values; those that there are stay.
  void Grow(size_t capacity) {
    std::shared_ptr<V> memory(new V[capacity], [](V* p) { delete[] p; });
    if (size_ > 0) std::memcpy(static_cast<void*>(memory.get()), data(), size_ * sizeof(V));
    ptr_ = memory;
    capacity_ = capacity;
  }

  size_t size_ = 0;
  size_t capacity_ = 0;
  std::shared_ptr<V> ptr_;
};

/// Where in the sorted `values` those of [lower, upper) are.
template <typename V>
Range FindRange(const SArray<V>& values, V lower, V upper) {
  if (upper <= lower) return Range(0, 0);
  const V* const begin = values.begin();
  return Range(std::lower_bound(begin, values.end(), lower) - begin,
               std::lower_bound(begin, values.end(), upper) - begin);
}

/// "[5]: 1 2 3 4 5 ", of many the first and the last `shown`.
template <typename V>
inline std::string DebugStr(const V* data, int n, int shown = 5) {
  std::ostringstream text;
  text << "[" << n << "]: ";
  for (int i = 0; i < n; ++i) {
    if (n >= 2 * shown && i == shown) {
      text << "... ";
      i = n - shown;
    }
    text << data[i] << " ";
  }
  return text.str();
}
template <typename V>
std::ostream& operator<<(std::ostream& out, const SArray<V>& values) {
  return out << DebugStr(values.data(), static_cast<int>(values.size()));
}

}  // namespace ps
#endif  // PS_SARRAY_H_
