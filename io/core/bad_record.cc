#include "io/core/bad_record.h"

namespace dlrun::io {

std::string describe(const std::string& uri, std::uint64_t line, const BadRecord& bad) {
  return uri + ": offset " + std::to_string(bad.offset) + ", line " + std::to_string(line) +
         ", column " + std::to_string(bad.column) + ": " + bad.reason;
}

}  // namespace dlrun::io
