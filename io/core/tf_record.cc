#include "io/core/tf_record.h"

#include <algorithm>

#include "io/core/crc32c.h"
#include "io/core/little.h"

namespace dlrun::io {

namespace {
bool header_holds(std::string_view bytes) {
  return masked(crc32c(bytes.substr(0, 8))) == little<std::uint32_t>(bytes, 8);
}
bool payload_holds(std::string_view bytes, std::size_t length) {
  return masked(crc32c(bytes.substr(kTfHeaderBytes, length))) ==
         little<std::uint32_t>(bytes, kTfHeaderBytes + length);
}
}  // namespace

TfRecordParser::TfRecordParser(std::unique_ptr<PayloadDecoder> decoder,
                               std::uint64_t record_bytes_max)
    : decoder_(std::move(decoder)), record_bytes_max_(record_bytes_max) {}

ParseProgress TfRecordParser::parse(std::string_view bytes, std::uint64_t offset, bool last,
                                    Table& table) {
  std::size_t at = 0;
  const auto bad = [&](std::size_t next, std::size_t place, std::string reason,
                       bool fatal = false) {
    return ParseProgress{next, BadRecord{offset + at, place + 1, std::move(reason), fatal}};
  };
  const auto ends = [&](std::uint64_t wanted) {
    const std::size_t have = bytes.size() - at;
    return bad(
        bytes.size(), have,
        "the file ends within a record: " + std::to_string(wanted - have) + " bytes are missing",
        true);
  };
  while (at < bytes.size()) {
    const std::string_view rest = bytes.substr(at);
    if (passing_over_ > 0) {
      const auto n = std::min<std::uint64_t>(passing_over_, rest.size());
      passing_over_ -= n;
      at += static_cast<std::size_t>(n);
      continue;
    }
    if (rest.size() < kTfHeaderBytes) {
      if (searching_ && last) return {bytes.size(), std::nullopt};
      if (last) return ends(kTfHeaderBytes);
      return {at, std::nullopt};
    }
    const bool holds = header_holds(rest);
    if (!holds && !searching_) {
      searching_ = true;
      return bad(at + 1, 8, "checksum of the length");
    }
    const auto length = little<std::uint64_t>(rest);
    const bool fits = holds && length <= record_bytes_max_;
    if (searching_ && !fits) {
      ++at;
      continue;
    }
    if (!fits) {
      if (length > ~std::uint64_t{0} - kTfHeaderBytes - kTfFooterBytes)
        return bad(bytes.size(), 0, "a record of " + std::to_string(length) + " bytes", true);
      const std::uint64_t whole = length + kTfHeaderBytes + kTfFooterBytes;
      const auto here = std::min<std::uint64_t>(whole, rest.size());
      passing_over_ = whole - here;
      return bad(at + static_cast<std::size_t>(here), 0,
                 "record of " + std::to_string(length) + " bytes; at most " +
                     std::to_string(record_bytes_max_));
    }
    const auto payload_bytes = static_cast<std::size_t>(length);
    const std::size_t whole = kTfHeaderBytes + payload_bytes + kTfFooterBytes;
    if (rest.size() < whole) {
      if (!last) return {at, std::nullopt};
      if (!searching_) return ends(whole);
      ++at;
      continue;
    }
    if (!payload_holds(rest, payload_bytes)) {
      if (searching_) {
        ++at;
        continue;
      }
      return bad(at + whole, kTfHeaderBytes, "checksum of the data");
    }
    searching_ = false;
    const std::size_t rows = table.rows;
    if (auto trouble = decoder_->decode(rest.substr(kTfHeaderBytes, payload_bytes), table)) {
      table.truncate(rows);
      return bad(at + whole, kTfHeaderBytes + trouble->at, std::move(trouble->reason));
    }
    ++table.rows;
    at += whole;
  }
  if (last && passing_over_ > 0)
    return bad(
        at, 0,
        "the file ends within a record: " + std::to_string(passing_over_) + " bytes are missing",
        true);
  return {at, std::nullopt};
}

std::string tf_frame(std::string_view payload) {
  const auto put = [](std::string& to, auto value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  std::string out;
  put(out, std::uint64_t{payload.size()});
  put(out, masked(crc32c(out)));
  out += payload;
  put(out, masked(crc32c(payload)));
  return out;
}

}  // namespace dlrun::io
