#include "io/core/record_io.h"

#include "io/core/little.h"

namespace dlrun::io {

namespace {

enum Kind : std::uint32_t { kWhole = 0, kFirst = 1, kMiddle = 2, kLast = 3 };
constexpr std::size_t kHeaderBytes = 8;
constexpr std::uint32_t kLengthMask = (1u << 29) - 1;

constexpr std::size_t padded(std::size_t n) { return (n + 3) & ~std::size_t{3}; }

bool starts_record(std::string_view bytes) {
  return little<std::uint32_t>(bytes) == kRecordIoMagic &&
         little<std::uint32_t>(bytes, 4) >> 29 <= kFirst;
}

}  // namespace

RecordIoParser::RecordIoParser(std::unique_ptr<PayloadDecoder> decoder,
                               std::uint64_t record_bytes_max)
    : decoder_(std::move(decoder)), record_bytes_max_(record_bytes_max) {}

ParseProgress RecordIoParser::parse(std::string_view bytes, std::uint64_t offset, bool last,
                                    Table& table) {
  std::size_t at = 0;
  const auto bad = [&](std::size_t next, std::size_t place, std::string reason,
                       bool fatal = false) {
    return ParseProgress{next, BadRecord{offset + at, place + 1, std::move(reason), fatal}};
  };
  while (at < bytes.size()) {
    const std::string_view rest = bytes.substr(at);
    if (searching_) {
      std::size_t skip = static_cast<std::size_t>((4 - (offset + at) % 4) % 4);
      while (skip + kHeaderBytes <= rest.size() && !starts_record(rest.substr(skip))) skip += 4;
      if (skip + kHeaderBytes <= rest.size())
        searching_ = false;
      else if (last)
        skip = rest.size();
      else if (skip > rest.size())
        skip = 0;
      at += skip;
      if (searching_) return {at, std::nullopt};
      continue;
    }
    joined_.clear();
    std::string_view payload;
    std::size_t p = 0;
    for (bool more = true; more;) {
      const auto ends = [&](std::size_t wanted) {
        if (!last) return ParseProgress{at, std::nullopt};
        return bad(bytes.size(), rest.size(),
                   "the file ends within a record: " + std::to_string(wanted - rest.size()) +
                       " bytes are missing",
                   true);
      };
      if (rest.size() - p < kHeaderBytes) return ends(p + kHeaderBytes);
      const auto word = little<std::uint32_t>(rest, p + 4);
      const std::uint32_t kind = word >> 29;
      const std::size_t length = word & kLengthMask;
      const bool fits_in = p == 0 ? kind <= kFirst : kind == kMiddle || kind == kLast;
      const char* why = nullptr;
      if (little<std::uint32_t>(rest, p) != kRecordIoMagic)
        why = "not the magic number";
      else if (!fits_in)
        why = p == 0 ? "a later part of a record without its first"
                     : "a record without its last part";
      if (why != nullptr) {
        searching_ = true;
        return bad(at + (p == 0 ? 1 : p), p, why);
      }
      if (joined_.size() + length > record_bytes_max_) {
        searching_ = true;
        return bad(at + p + kHeaderBytes, 0,
                   "record of more than " + std::to_string(record_bytes_max_) + " bytes");
      }
      const std::size_t next = p + kHeaderBytes + padded(length);
      if (rest.size() < next) return ends(next);
      payload = rest.substr(p + kHeaderBytes, length);
      if (rest.substr(p + kHeaderBytes + length, next - p - kHeaderBytes - length)
              .find_first_not_of('\0') != std::string_view::npos) {
        searching_ = true;
        return bad(at + next, p + kHeaderBytes + length, "padding that is not zero");
      }
      if (kind != kWhole) {
        joined_ += payload;
        if (kind != kLast)
          joined_.append(reinterpret_cast<const char*>(&kRecordIoMagic), sizeof kRecordIoMagic);
        payload = joined_;
      }
      more = kind == kFirst || kind == kMiddle;
      p = next;
    }
    const std::size_t rows = table.rows;
    if (auto trouble = decoder_->decode(payload, table)) {
      table.truncate(rows);
      return bad(at + p, kHeaderBytes + trouble->at, std::move(trouble->reason));
    }
    ++table.rows;
    at += p;
  }
  return {at, std::nullopt};
}

std::string record_io_frame(std::string_view payload) {
  std::string out;
  const auto put = [&out](std::uint32_t value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const auto part = [&](std::uint32_t kind, std::string_view bytes) {
    put(kRecordIoMagic);
    put(kind << 29 | static_cast<std::uint32_t>(bytes.size()));
    out += bytes;
    out.append(padded(bytes.size()) - bytes.size(), '\0');
  };
  std::size_t begin = 0;
  for (std::size_t i = 0; i + 4 <= payload.size(); i += 4) {
    if (little<std::uint32_t>(payload, i) != kRecordIoMagic) continue;
    part(begin == 0 ? kFirst : kMiddle, payload.substr(begin, i - begin));
    begin = i + 4;
  }
  part(begin == 0 ? kWhole : kLast, payload.substr(begin));
  return out;
}

}  // namespace dlrun::io
