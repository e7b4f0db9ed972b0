#include "io/core/json_scan.h"

#include <algorithm>
#include <unordered_set>

#include "io/core/text.h"
#include "runtime/base/utf8.h"

namespace dlrun::io {

namespace {

constexpr std::size_t kFewKeys = 32;

bool is_digit(char c) { return static_cast<unsigned char>(c - '0') <= 9; }

void put_utf8(std::uint32_t c, std::string& out) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((c >> shift) & 0x3f)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | (c >> 6));
    tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | (c >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0 | (c >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace

std::optional<Trouble> JsonScanner::scan(std::string_view line, JsonVisitor& visitor) {
  begin_ = p_ = line.data();
  end_ = begin_ + line.size();
  visitor_ = &visitor;
  path_.clear();
  keys_.clear();
  trouble_.reset();
  skip();
  if (p_ == end_ || *p_ != '{') {
    unexpected("an object");
  } else if (object(1)) {
    skip();
    if (p_ != end_) unexpected("nothing after the object");
  }
  return std::move(trouble_);
}

bool JsonScanner::wrong(const char* at, std::string reason) {
  trouble_ = Trouble{static_cast<std::size_t>(at - begin_), std::move(reason)};
  return false;
}

bool JsonScanner::unexpected(const char* wanted) {
  return wrong(p_, std::string("expected ") + wanted + ", found " + shown(p_, end_));
}

bool JsonScanner::tell(const char* at, std::optional<std::string> why) {
  return !why || wrong(at, "field " + quoted(path_) + ": " + *why);
}

void JsonScanner::skip() {
  while (p_ != end_ && is_blank(*p_)) ++p_;
}

bool JsonScanner::object(int depth) {
  if (depth > kDepthMax) return wrong(p_, "objects nested deeper than 64");
  ++p_;  // '{'
  const std::size_t path = path_.size();
  const std::size_t keys = keys_.size();
  std::unordered_set<std::string> many;  // the keys, once they are more than a few
  skip();
  if (p_ != end_ && *p_ == '}') return ++p_, true;
  for (;;) {
    skip();
    if (p_ == end_ || *p_ != '"') return unexpected("a key");
    const char* const at = p_;
    std::string key;
    if (!string(key)) return false;
    const auto open = keys_.begin() + static_cast<std::ptrdiff_t>(keys);
    if (keys_.size() - keys == kFewKeys) many.insert(open, keys_.end());
    if (many.empty() ? std::find(open, keys_.end(), key) != keys_.end() : !many.insert(key).second)
      return wrong(at, "the key " + quoted(key) + " twice in one object");
    if (path != 0) path_ += '.';
    path_ += key;
    keys_.push_back(std::move(key));
    skip();
    if (p_ == end_ || *p_ != ':') return unexpected("':'");
    ++p_;
    if (!value(depth, false)) return false;
    path_.resize(path);
    skip();
    if (p_ != end_ && *p_ == ',') {
      ++p_;
      continue;
    }
    if (p_ == end_ || *p_ != '}') return unexpected("',' or '}'");
    ++p_;
    keys_.resize(keys);
    return true;
  }
}

bool JsonScanner::value(int depth, bool in_list) {
  skip();
  if (p_ == end_) return unexpected("a value");
  const char* const at = p_;
  JsonKind kind = JsonKind::kNumber;
  switch (*p_) {
    case '{':
      return in_list ? wrong(p_, "an object within an array") : object(depth + 1);
    case '[':
      return in_list ? wrong(p_, "an array within an array") : list();
    case '"':
      text_.clear();
      if (!string(text_)) return false;
      return tell(at, visitor_->value(path_, JsonKind::kString, text_));
    case 't':
      if (!word("true")) return false;
      kind = JsonKind::kBoolean;
      break;
    case 'f':
      if (!word("false")) return false;
      kind = JsonKind::kBoolean;
      break;
    case 'n':
      if (!word("null")) return false;
      kind = JsonKind::kNull;
      break;
    default:
      if (!number()) return false;
  }
  return tell(at, visitor_->value(path_, kind, {at, static_cast<std::size_t>(p_ - at)}));
}

bool JsonScanner::list() {
  const char* const at = p_++;
  if (!tell(at, visitor_->begin_list(path_))) return false;
  skip();
  if (p_ != end_ && *p_ == ']') {
    ++p_;
    return tell(at, visitor_->end_list(path_));
  }
  for (;;) {
    if (!value(0, true)) return false;
    skip();
    if (p_ != end_ && *p_ == ',') {
      ++p_;
      continue;
    }
    if (p_ == end_ || *p_ != ']') return unexpected("',' or ']'");
    ++p_;
    return tell(at, visitor_->end_list(path_));
  }
}

bool JsonScanner::word(std::string_view text) {
  if (std::string_view(p_, static_cast<std::size_t>(end_ - p_)).starts_with(text)) {
    p_ += text.size();
    return true;
  }
  return unexpected("a value");
}

bool JsonScanner::number() {
  const char* const at = p_;
  if (p_ != end_ && *p_ == '-') ++p_;
  if (p_ == end_ || !is_digit(*p_)) {
    p_ = at;
    return unexpected("a value");
  }
  const bool zero = *p_ == '0';
  const char* const digits = p_;
  while (p_ != end_ && is_digit(*p_)) ++p_;
  if (zero && p_ - digits > 1) return wrong(at, "a number that begins with 0");
  const auto more = [this] {
    if (p_ == end_ || !is_digit(*p_)) return unexpected("a digit");
    while (p_ != end_ && is_digit(*p_)) ++p_;
    return true;
  };
  if (p_ != end_ && *p_ == '.') {
    ++p_;
    if (!more()) return false;
  }
  if (p_ != end_ && (*p_ == 'e' || *p_ == 'E')) {
    ++p_;
    if (p_ != end_ && (*p_ == '+' || *p_ == '-')) ++p_;
    if (!more()) return false;
  }
  return true;
}

bool JsonScanner::string(std::string& out) {
  const char* const open = p_++;
  for (;;) {
    if (p_ == end_) return wrong(open, "a string without its end");
    const auto c = static_cast<unsigned char>(*p_);
    if (c == '"') return ++p_, true;
    if (c < 0x20) return wrong(p_, shown(p_, end_) + " within a string");
    if (c == '\\') {
      if (!escape(out)) return false;
    } else if (c < 0x80) {
      out += *p_++;
    } else if (!utf8(out)) {
      return false;
    }
  }
}

bool JsonScanner::escape(std::string& out) {
  const char* const at = p_++;
  if (p_ == end_) return wrong(at, "a string without its end");
  static constexpr std::string_view kNames = "\"\\/bfnrt";
  static constexpr std::string_view kBytes = "\"\\/\b\f\n\r\t";
  const char c = *p_++;
  if (const std::size_t i = kNames.find(c); i != kNames.npos) {
    out += kBytes[i];
    return true;
  }
  if (c != 'u') return wrong(at, "an escape that JSON does not know");
  std::uint32_t code = 0;
  if (!hex4(code)) return false;
  if (code >= 0xdc00 && code < 0xe000) return wrong(at, "half of a surrogate pair");
  if (code >= 0xd800 && code < 0xdc00) {
    if (end_ - p_ < 2 || p_[0] != '\\' || p_[1] != 'u')
      return wrong(at, "half of a surrogate pair");
    p_ += 2;
    std::uint32_t low = 0;
    if (!hex4(low)) return false;
    if (low < 0xdc00 || low >= 0xe000) return wrong(at, "half of a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  put_utf8(code, out);
  return true;
}

bool JsonScanner::hex4(std::uint32_t& out) {
  for (int i = 0; i < 4; ++i, ++p_) {
    if (p_ == end_) return unexpected("a hexadecimal digit");
    const char c = *p_;
    const int digit = is_digit(c)            ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return unexpected("a hexadecimal digit");
    out = out << 4 | static_cast<std::uint32_t>(digit);
  }
  return true;
}

/// One character of more than one byte.
bool JsonScanner::utf8(std::string& out) {
  const std::size_t length = utf8_length({p_, static_cast<std::size_t>(end_ - p_)});
  if (length == 0) return wrong(p_, "bytes that are not UTF-8");
  out.append(p_, length);
  p_ += length;
  return true;
}

}  // namespace dlrun::io
