#pragma once
/// io/core/token_file.h: token files: nothing but token ids of u16, u32 or i32, little endian, one
/// after another -> one column "tokens" of int32.
///   sequence_length n  a record is n tokens in a row; the last, shorter one: see tail
///   sequence_length 0  a record is a document: the tokens up to and with the separator; one
///   without
///                      it at the end of the file: see tail (kPad: kept as it is)
/// Bad records: an id >= vocabulary (its sequence), a document of more than document_tokens_max.
/// Fatal: a file that ends within a token; with kFail a short tail.

#include <memory>

#include "io/core/field_spec.h"
#include "io/core/table_parser.h"
#include "runtime/base/result.h"

namespace dlrun::io {

class TokenParser final : public TableParser {
 public:
  /// kInvalidArgument: tokens_problem.
  static Result<std::unique_ptr<TokenParser>> make(TokenOptions options);
  void prepare(Table& table) const override;
  ParseProgress parse(std::string_view bytes, std::uint64_t offset, bool last,
                      Table& table) override;

 private:
  explicit TokenParser(TokenOptions options) : options_(options) {}
  std::int64_t token(std::string_view bytes, std::size_t at) const;

  const TokenOptions options_;
  bool passing_over_ = false;  ///< the rest of a document that is too long
};

}  // namespace dlrun::io
