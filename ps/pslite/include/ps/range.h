#ifndef PS_RANGE_H_
#define PS_RANGE_H_
/// ps/range.h: an interval of keys, or of places in an array.
#include <cstdint>

namespace ps {

/// [begin, end).
class Range {
 public:
  Range() = default;
  Range(uint64_t begin, uint64_t end) : begin_(begin), end_(end) {}
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return end_; }
  uint64_t size() const { return end_ - begin_; }

 private:
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
};

}  // namespace ps
#endif  // PS_RANGE_H_
