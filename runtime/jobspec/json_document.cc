#include <cctype>

#include "runtime/base/utf8.h"
#include "runtime/jobspec/document.h"

namespace dlrun::jobspec {
namespace {

/// Recursive descent, at most kDepthMax deep. After the first error `error_` is set and everything
/// unwinds.
class JsonParser {
 public:
  JsonParser(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  Result<Node> parse() {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
    Node root;
    if (!value(root, 0)) return fail(Errc::kInvalidArgument, error_);
    space();
    if (at_ < text_.size()) {
      wrong("text after the end of the document");
      return fail(Errc::kInvalidArgument, error_);
    }
    return root;
  }

 private:
  bool wrong(std::string_view why) {
    if (error_.empty()) error_ = at_place(file_, mark(), why);
    return false;
  }

  Mark mark() {
    // Only ever moves forward: linear in all.
    for (; counted_ < at_ && counted_ < text_.size(); ++counted_) {
      const auto c = static_cast<unsigned char>(text_[counted_]);
      if (c == '\n') {
        ++line_;
        column_ = 1;
      } else if ((c & 0xC0) != 0x80) {
        ++column_;
      }
    }
    return {line_, column_};
  }

  void space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }
  bool eat(char c) {
    if (at_ < text_.size() && text_[at_] == c) return ++at_, true;
    return false;
  }

  bool value(Node& out, int depth) {
    space();
    out.at = mark();
    if (++nodes_ > kNodesMax) return wrong("too many values");
    if (depth > kDepthMax) return wrong("nested too deeply");
    if (at_ >= text_.size()) return wrong("a value is missing at the end of the text");
    switch (text_[at_]) {
      case '{':
        return table(out, depth);
      case '[':
        return list(out, depth);
      case '"':
        out.kind = Node::Kind::kString;
        return string(out.text);
      case 't':
        return word(out, "true", Node::Kind::kBool);
      case 'f':
        return word(out, "false", Node::Kind::kBool);
      case 'n':
        return word(out, "null", Node::Kind::kNull);
      default:
        return number(out);
    }
  }

  bool word(Node& out, std::string_view expected, Node::Kind kind) {
    if (text_.substr(at_, expected.size()) != expected) return wrong("not a JSON value");
    at_ += expected.size();
    out.kind = kind;
    out.text = expected;
    return true;
  }

  bool digits() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ > begin;
  }

  bool number(Node& out) {
    const std::size_t begin = at_;
    out.kind = Node::Kind::kInt;
    eat('-');
    if (eat('0')) {
      if (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9')
        return wrong("a number may not start with 0");
    } else if (!digits()) {
      return wrong("not a JSON value");
    }
    if (eat('.')) {
      out.kind = Node::Kind::kFloat;
      if (!digits()) return wrong("a digit is missing after '.'");
    }
    if (eat('e') || eat('E')) {
      out.kind = Node::Kind::kFloat;
      if (!eat('+')) eat('-');
      if (!digits()) return wrong("a digit is missing in the exponent");
    }
    if (at_ - begin > 64) return wrong("a number of more than 64 characters");
    out.text = text_.substr(begin, at_ - begin);
    return true;
  }

  bool hex4(std::uint32_t& out) {
    out = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      if (at_ >= text_.size() || !std::isxdigit(static_cast<unsigned char>(text_[at_])))
        return wrong("\\u wants four hex digits");
      const char c = text_[at_];
      out = out * 16 + static_cast<std::uint32_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return true;
  }

  static void append_utf8(std::string& out, std::uint32_t c) {
    const auto put = [&](std::uint32_t b) { out.push_back(static_cast<char>(b)); };
    if (c < 0x80) {
      put(c);
    } else if (c < 0x800) {
      put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
      put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
    } else {
      put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)),
          put(0x80 | (c & 0x3F));
    }
  }

  bool string(std::string& out) {
    const std::size_t quote = at_++;
    const std::size_t plain_begin = at_;
    for (;;) {
      if (at_ >= text_.size()) {
        at_ = quote;
        return wrong("a string that never ends");
      }
      const auto c = static_cast<unsigned char>(text_[at_]);
      if (c == '"') break;
      if (c < 0x20) return wrong("a control character in a string: write it as \\u00XX");
      if (c != '\\') {
        out.push_back(static_cast<char>(c));
        ++at_;
        continue;
      }
      ++at_;
      const char e = at_ < text_.size() ? text_[at_++] : '\0';
      switch (e) {
        case '"':
        case '\\':
        case '/':
          out.push_back(e);
          break;
        case 'b':
          out.push_back('\b');
          break;
        case 'f':
          out.push_back('\f');
          break;
        case 'n':
          out.push_back('\n');
          break;
        case 'r':
          out.push_back('\r');
          break;
        case 't':
          out.push_back('\t');
          break;
        case 'u': {
          std::uint32_t code = 0;
          if (!hex4(code)) return false;
          if (code >= 0xDC00 && code < 0xE000) return wrong("half of a surrogate pair");
          if (code >= 0xD800 && code < 0xDC00) {
            std::uint32_t low = 0;
            if (!eat('\\') || !eat('u')) return wrong("half of a surrogate pair");
            if (!hex4(low)) return false;
            if (low < 0xDC00 || low >= 0xE000) return wrong("half of a surrogate pair");
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
          }
          append_utf8(out, code);
          break;
        }
        default:
          return wrong("unknown escape in a string");
      }
    }
    if (!is_utf8(text_.substr(plain_begin, at_ - plain_begin))) {
      at_ = quote;
      return wrong("a string that is not UTF-8; other bytes are written {\"base64\": \"...\"}");
    }
    ++at_;
    return true;
  }

  bool list(Node& out, int depth) {
    out.kind = Node::Kind::kList;
    ++at_;
    space();
    if (eat(']')) return true;
    do {
      if (!value(out.items.emplace_back(), depth + 1)) return false;
      space();
    } while (eat(','));
    return eat(']') || wrong("',' or ']' expected");
  }

  bool table(Node& out, int depth) {
    out.kind = Node::Kind::kTable;
    ++at_;
    space();
    if (eat('}')) return true;
    do {
      space();
      Node::Member& member = out.members.emplace_back();
      member.at = mark();
      if (at_ >= text_.size() || text_[at_] != '"') return wrong("a key in double quotes expected");
      if (!string(member.key)) return false;
      space();
      if (!eat(':')) return wrong("':' expected");
      if (!value(member.value, depth + 1)) return false;
      space();
    } while (eat(','));
    return eat('}') || wrong("',' or '}' expected");
  }

  std::string_view text_, file_;
  std::string error_;
  std::size_t at_ = 0, counted_ = 0, nodes_ = 0;
  std::uint32_t line_ = 1, column_ = 1;
};

}  // namespace

Result<Node> parse_json_document(std::string_view text, std::string_view file) {
  return JsonParser(text, file).parse();
}

}  // namespace dlrun::jobspec
