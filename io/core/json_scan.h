#pragma once
/// io/core/json_scan.h: one JSON object of a line, by RFC 8259 to the letter -> calls, without a
/// tree: for each value its path ("user.id": keys of nested objects joined with dots), its kind and
/// its text. Arrays hold scalars of one level.
/// Refused: bytes that are not UTF-8, control bytes within strings, lone surrogates, numbers that
/// JSON does not know (+1, 01, .5, 1., nan), a key twice in one object, arrays within arrays,
/// objects within arrays, depth over 64.

#include <string>
#include <string_view>
#include <vector>

#include "io/core/table_parser.h"

namespace dlrun::io {

enum class JsonKind { kNull, kBoolean, kNumber, kString };

class JsonVisitor {
 public:
  virtual ~JsonVisitor() = default;
  /// Strings come unescaped, numbers as they stand. The reason, when it is not what is wanted.
  virtual std::optional<std::string> value(std::string_view path, JsonKind kind,
                                           std::string_view text) = 0;
  virtual std::optional<std::string> begin_list(std::string_view path) = 0;
  virtual std::optional<std::string> end_list(std::string_view path) = 0;
};

class JsonScanner {
 public:
  /// Exactly one object and blanks around it. After trouble the visitor has seen a part.
  std::optional<Trouble> scan(std::string_view line, JsonVisitor& visitor);

 private:
  static constexpr int kDepthMax = 64;
  bool object(int depth);
  bool value(int depth, bool in_list);
  bool list();
  bool string(std::string& out);
  bool escape(std::string& out);
  bool utf8(std::string& out);
  bool hex4(std::uint32_t& out);
  bool number();
  bool word(std::string_view text);
  bool tell(const char* at, std::optional<std::string> why);
  bool wrong(const char* at, std::string reason);
  bool unexpected(const char* wanted);
  void skip();

  const char* begin_ = nullptr;
  const char* p_ = nullptr;
  const char* end_ = nullptr;
  JsonVisitor* visitor_ = nullptr;
  std::string path_;
  std::string text_;
  std::vector<std::string> keys_;  ///< of the objects that are open
  std::optional<Trouble> trouble_;
};

}  // namespace dlrun::io
