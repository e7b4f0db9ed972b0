#include "web/parse.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "runtime/base/constant_time.h"
#include "web/http.h"

namespace dlrun::web {
namespace {

constexpr std::size_t kPartsMax = 64;

bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](unsigned char x, unsigned char y) {
           return std::tolower(x) == std::tolower(y);
         });
}

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<std::string> decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? hex(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex(text[i + 2]) : -1;
      if (high < 0 || low < 0)
        return fail(Errc::kInvalidArgument, "'%' must be followed by two hex digits");
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (c == '\0') return fail(Errc::kInvalidArgument, "a NUL byte in the request target");
    out.push_back(c);
  }
  return out;
}

}  // namespace

std::optional<std::string_view> Request::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (same_name(key, name)) return value;
  return std::nullopt;
}

std::size_t Request::header_count(std::string_view name) const {
  return static_cast<std::size_t>(std::count_if(
      headers.begin(), headers.end(), [&](const auto& h) { return same_name(h.first, name); }));
}

std::optional<std::string_view> Target::param(std::string_view name) const {
  for (const auto& [key, value] : query)
    if (key == name) return value;
  return std::nullopt;
}

Result<Target> parse_target(std::string_view target) {
  Target out;
  if (!target.starts_with('/'))
    return fail(Errc::kInvalidArgument, "the request target must start with '/'");
  if (const auto hash = target.find('#'); hash != std::string_view::npos)
    return fail(Errc::kInvalidArgument, "a fragment in the request target");
  std::string_view query;
  if (const auto mark = target.find('?'); mark != std::string_view::npos) {
    query = target.substr(mark + 1);
    target = target.substr(0, mark);
  }
  target.remove_prefix(1);
  for (;;) {
    const auto slash = target.find('/');
    DLRUN_ASSIGN(std::string segment, decode(target.substr(0, slash), false));
    out.segments.push_back(std::move(segment));
    if (out.segments.size() > kPartsMax)
      return fail(Errc::kInvalidArgument, "too many path segments");
    if (slash == std::string_view::npos) break;
    target.remove_prefix(slash + 1);
  }
  while (!query.empty()) {
    const auto amp = query.find('&');
    const std::string_view pair = query.substr(0, amp);
    query = amp == std::string_view::npos ? std::string_view{} : query.substr(amp + 1);
    if (pair.empty()) continue;
    const auto equals = pair.find('=');
    DLRUN_ASSIGN(std::string key, decode(pair.substr(0, equals), true));
    DLRUN_ASSIGN(
        std::string value,
        decode(equals == std::string_view::npos ? std::string_view{} : pair.substr(equals + 1),
               true));
    if (out.param(key))
      return fail(Errc::kInvalidArgument, "the parameter '" + key + "' stands twice");
    out.query.emplace_back(std::move(key), std::move(value));
    if (out.query.size() > kPartsMax) return fail(Errc::kInvalidArgument, "too many parameters");
  }
  return out;
}

Result<std::uint64_t> parse_u64(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size())
    return fail(Errc::kInvalidArgument,
                "'" + std::string(text.substr(0, 64)) + "' is not a whole number");
  return value;
}

Result<ByteRange> parse_range(std::string_view header) {
  const auto bad = [] {
    return fail(Errc::kInvalidArgument, "Range must be bytes=A-B, bytes=A- or bytes=-N");
  };
  if (!same_name(header.substr(0, 6), "bytes=")) return bad();
  header.remove_prefix(6);
  const auto dash = header.find('-');
  if (dash == std::string_view::npos) return bad();
  ByteRange out;
  if (const auto text = header.substr(0, dash); !text.empty()) {
    const auto value = parse_u64(text);
    if (!value) return bad();
    out.first = *value;
  }
  if (const auto text = header.substr(dash + 1); !text.empty()) {
    const auto value = parse_u64(text);
    if (!value) return bad();
    out.last = *value;
  }
  if (!out.first && !out.last) return bad();
  if (out.first && out.last && *out.last < *out.first) return bad();
  return out;
}

std::string host_name(std::string_view host) {
  std::string_view name, rest;
  if (host.starts_with('[')) {
    const auto close = host.find(']');
    if (close == std::string_view::npos) return {};
    name = host.substr(1, close - 1);
    rest = host.substr(close + 1);
  } else {
    const auto colon = host.find(':');
    name = host.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view{} : host.substr(colon);
  }
  if (!rest.empty()) {
    if (rest[0] != ':' || rest.size() > 6) return {};
    if (!std::all_of(rest.begin() + 1, rest.end(), [](unsigned char c) { return std::isdigit(c); }))
      return {};
  }
  std::string out(name);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return out;
}

std::string origin_host(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"})
    if (origin.starts_with(scheme)) return host_name(origin.substr(scheme.size()));
  return {};
}

bool bearer_matches(std::string_view authorization, std::string_view token) {
  if (authorization.size() < 7 || !same_name(authorization.substr(0, 7), "bearer ")) return false;
  authorization.remove_prefix(7);
  return !token.empty() && equal_constant_time(authorization, token);
}

}  // namespace dlrun::web
