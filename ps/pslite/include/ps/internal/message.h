#ifndef PS_INTERNAL_MESSAGE_H_
#define PS_INTERNAL_MESSAGE_H_
/// ps/internal/message.h: what customers send each other.
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "ps/sarray.h"

namespace ps {

enum DataType {
  CHAR,
  INT8,
  INT16,
  INT32,
  INT64,
  UINT8,
  UINT16,
  UINT32,
  UINT64,
  FLOAT,
  DOUBLE,
  OTHER
};

template <typename V, typename W>
constexpr bool SameType() {
  return std::is_same<typename std::remove_cv<V>::type, W>::value;
}
template <typename V>
DataType GetDataType() {
  return SameType<V, int8_t>()     ? INT8
         : SameType<V, int16_t>()  ? INT16
         : SameType<V, int32_t>()  ? INT32
         : SameType<V, int64_t>()  ? INT64
         : SameType<V, uint8_t>()  ? UINT8
         : SameType<V, uint16_t>() ? UINT16
         : SameType<V, uint32_t>() ? UINT32
         : SameType<V, uint64_t>() ? UINT64
         : SameType<V, float>()    ? FLOAT
         : SameType<V, double>()   ? DOUBLE
                                   : OTHER;
}

/// A process, as its number and role.
struct Node {
  enum : int { kEmpty = std::numeric_limits<int>::max() };
  enum Role { SERVER, WORKER, SCHEDULER, JOINT };
  Role role = WORKER;
  int id = kEmpty;
  int customer_id = 0;
  bool is_recovery = false;
};

struct Meta {
  enum : int { kEmpty = std::numeric_limits<int>::max() };
  int head = kEmpty;
  int app_id = kEmpty;
  int customer_id = kEmpty;
  int timestamp = kEmpty;
  int sender = kEmpty;
  int recver = kEmpty;
  bool request = false;
  bool push = false;
  bool pull = false;
  bool simple_app = false;
  std::string body;
  std::vector<DataType> data_type;  ///< of data[i]
  int priority = 0;
};

struct Message {
  Meta meta;
  std::vector<SArray<char>> data;

  template <typename V>
  void AddData(const SArray<V>& values) {
    meta.data_type.push_back(GetDataType<V>());
    data.push_back(SArray<char>(values));
  }
};

}  // namespace ps
#endif  // PS_INTERNAL_MESSAGE_H_
