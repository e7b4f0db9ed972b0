#include "runtime/task/task_client.h"

namespace dlrun::task {
namespace {

int nibble(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Result<cluster::Token> parse_token(std::string_view hex) {
  cluster::Token token{};
  if (hex.size() != 2 * token.size()) {
    return fail(Errc::kInvalidArgument,
                "a token is 64 hex digits, not " + std::to_string(hex.size()) + " characters");
  }
  for (std::size_t i = 0; i < token.size(); ++i) {
    const int high = nibble(hex[2 * i]), low = nibble(hex[2 * i + 1]);
    if (high < 0 || low < 0) return fail(Errc::kInvalidArgument, "a token is 64 hex digits");
    token[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return token;
}

std::string to_hex(const cluster::Token& token) {
  std::string hex;
  for (const std::uint8_t b : token) {
    hex.push_back("0123456789abcdef"[b >> 4]);
    hex.push_back("0123456789abcdef"[b & 15]);
  }
  return hex;
}

Result<ClientOptions> client_options(std::string_view socket_path, std::string_view token_hex,
                                     PeerKind kind) {
  if (socket_path.empty()) {
    return fail(Errc::kInvalidArgument,
                "DLRUN_SOCKET is not set: this process was not started by dlrun");
  }
  auto token = parse_token(token_hex);
  if (!token) return fail_as("DLRUN_TOKEN", token);
  ClientOptions options;
  options.socket_path = std::string(socket_path);
  options.token = *token;
  options.kind = kind;
  return options;
}

}  // namespace dlrun::task
