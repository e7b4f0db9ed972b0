#pragma once
/// io/core/bad_record.h: how every parser says that a record is bad: where it begins, which byte of
/// it is wrong, and why. describe() makes the one form in which people read it:
///   URI: offset O, line L, column C: reason
/// Offsets of a compressed file are those of the decoded bytes. Binary formats count records where
/// text has lines.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace dlrun::io {

struct BadRecord {
  std::uint64_t offset = 0;  ///< byte of the file where the record starts
  std::uint64_t column = 1;  ///< byte of the record where the trouble is, from 1
  std::string reason;
  /// Nothing after it can be read: the rest of the file goes with it.
  bool fatal = false;
};

struct ParseProgress {
  std::size_t consumed = 0;  ///< bytes of the text that are dealt with, a bad record included
  std::optional<BadRecord> bad;
};

std::string describe(const std::string& uri, std::uint64_t line, const BadRecord& bad);

}  // namespace dlrun::io
