#include "runtime/shim/spec.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

namespace dlrun::shim {
namespace {

constexpr std::pair<std::string_view, std::uint32_t> kRlimits[] = {
    {"core", RLIMIT_CORE},     {"fsize", RLIMIT_FSIZE}, {"memlock", RLIMIT_MEMLOCK},
    {"nofile", RLIMIT_NOFILE}, {"nproc", RLIMIT_NPROC}, {"stack", RLIMIT_STACK}};

enum class Kind : std::uint32_t { kSpec = 1, kExit = 2, kTree = 3, kReport = 4, kCommand = 5 };
constexpr std::uint32_t kMagic = 0x31534c44;  // "DLS1"
constexpr std::uint16_t kEndTag = 0xffff;

std::uint32_t crc32(std::string_view bytes) {
  static constexpr auto kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = (c & 1) != 0 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
      table[i] = c;
    }
    return table;
  }();
  std::uint32_t crc = ~0u;
  for (const char b : bytes) crc = kTable[(crc ^ static_cast<std::uint8_t>(b)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

void put_int(std::string& out, std::uint64_t v, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(v >> (8 * i)));
}

std::uint64_t get_int(std::string_view bytes) {
  std::uint64_t v = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) v = v << 8 | static_cast<std::uint8_t>(bytes[i]);
  return v;
}

class Writer {
 public:
  explicit Writer(Kind kind) {
    put_int(out_, kMagic, 4);
    put_int(out_, static_cast<std::uint32_t>(kind), 4);
  }
  void bytes(std::uint16_t tag, std::string_view value) {
    put_int(out_, tag, 2);
    put_int(out_, 0, 2);
    put_int(out_, value.size(), 4);
    out_.append(value);
  }
  void number(std::uint16_t tag, std::uint64_t value) {
    std::string v;
    put_int(v, value, 8);
    bytes(tag, v);
  }
  std::string finish() {
    std::string crc;
    put_int(crc, crc32(out_), 4);
    bytes(kEndTag, crc);
    return std::move(out_);
  }

 private:
  std::string out_;
};

/// A field's value, read strictly: a number is 8 bytes.
struct Field {
  std::uint16_t tag;
  std::string_view value;
  bool is_number() const { return value.size() == 8; }
  std::uint64_t number() const { return get_int(value); }
  std::string text() const { return std::string(value); }
};

/// Calls visit(field), which returns false for a malformed value; unknown tags are its business (it
/// returns true).
template <class Visit>
Status read_fields(std::string_view bytes, Kind kind, const char* what, Visit&& visit) {
  const auto corrupt = [&](const std::string& why) {
    return fail(Errc::kCorrupt, std::string(what) + ": " + why);
  };
  if (bytes.size() < 8) return corrupt("cut off in its head");
  if (get_int(bytes.substr(0, 4)) != kMagic) return corrupt("not a file of the shim");
  const std::uint64_t got = get_int(bytes.substr(4, 4));
  if (got != static_cast<std::uint32_t>(kind)) {
    return fail(Errc::kUnsupported, std::string(what) + ": record of kind " + std::to_string(got));
  }
  std::size_t at = 8;
  for (;;) {
    if (bytes.size() - at < 8) return corrupt("cut off at byte " + std::to_string(at));
    const auto tag = static_cast<std::uint16_t>(get_int(bytes.substr(at, 2)));
    const std::uint64_t size = get_int(bytes.substr(at + 4, 4));
    if (size > bytes.size() - at - 8) return corrupt("field " + std::to_string(tag) + " cut off");
    const std::string_view value = bytes.substr(at + 8, size);
    if (tag == kEndTag) {
      if (size != 4 || get_int(bytes.substr(at + 2, 2)) != 0 ||
          get_int(value) != crc32(bytes.substr(0, at)))
        return corrupt("checksum differs");
      if (at + 8 + size != bytes.size()) return corrupt("bytes after its end");
      return {};
    }
    if (!visit(Field{tag, value})) return corrupt("field " + std::to_string(tag) + " is malformed");
    at += 8 + size;
  }
}

bool set_number(std::uint64_t& to, const Field& f) {
  to = f.is_number() ? f.number() : 0;
  return f.is_number();
}
template <class T>
bool set_int(T& to, const Field& f) {
  to = static_cast<T>(f.number());
  return f.is_number();
}
bool set_bool(bool& to, const Field& f) {
  to = f.number() != 0;
  return f.is_number();
}
template <class E>
bool set_enum(E& to, const Field& f, E last) {
  if (!f.is_number() || f.number() > static_cast<std::uint64_t>(last)) return false;
  to = static_cast<E>(f.number());
  return true;
}
bool no_nul(std::string_view s) { return s.find('\0') == std::string_view::npos; }

}  // namespace

std::optional<std::uint32_t> rlimit_of(std::string_view name) {
  for (const auto& [known, resource] : kRlimits)
    if (name == known) return resource;
  return std::nullopt;
}

std::string rlimit_name(std::uint32_t resource) {
  for (const auto& [name, known] : kRlimits)
    if (resource == known) return std::string(name);
  return std::to_string(resource);
}

std::string encode(const Spec& s) {
  Writer w(Kind::kSpec);
  for (const auto& a : s.argv) w.bytes(1, a);
  for (const auto& e : s.env) w.bytes(2, e);
  w.bytes(3, s.cwd);
  for (const Rlimit& r : s.rlimits) {
    std::string v;
    put_int(v, r.resource, 8);
    put_int(v, r.soft, 8);
    put_int(v, r.hard, 8);
    w.bytes(4, v);
  }
  w.number(5, s.memory_bytes);
  w.number(6, s.time_limit_ms);
  w.number(7, s.grace_ms);
  w.number(8, s.leftover_grace_ms);
  w.number(9, s.give_up_ms);
  w.number(10, s.log_segment_bytes);
  w.number(11, s.log_retained_bytes);
  w.number(12, s.mark);
  w.number(13, s.no_new_privs ? 1 : 0);
  w.number(14, s.use_cgroup ? 1 : 0);
  return w.finish();
}

Result<Spec> decode_spec(std::string_view bytes) {
  Spec s;
  DLRUN_TRY(read_fields(bytes, Kind::kSpec, "spec", [&](const Field& f) {
    switch (f.tag) {
      case 1:
        s.argv.push_back(f.text());
        return no_nul(f.value);
      case 2:
        s.env.push_back(f.text());
        return no_nul(f.value);
      case 3:
        s.cwd = f.text();
        return no_nul(f.value);
      case 4:
        if (f.value.size() != 24) return false;
        s.rlimits.push_back({static_cast<std::uint32_t>(get_int(f.value.substr(0, 8))),
                             get_int(f.value.substr(8, 8)), get_int(f.value.substr(16, 8))});
        return true;
      case 5:
        return set_number(s.memory_bytes, f);
      case 6:
        return set_number(s.time_limit_ms, f);
      case 7:
        return set_number(s.grace_ms, f);
      case 8:
        return set_number(s.leftover_grace_ms, f);
      case 9:
        return set_number(s.give_up_ms, f);
      case 10:
        return set_number(s.log_segment_bytes, f);
      case 11:
        return set_number(s.log_retained_bytes, f);
      case 12:
        return set_number(s.mark, f);
      case 13:
        return set_bool(s.no_new_privs, f);
      case 14:
        return set_bool(s.use_cgroup, f);
      default:
        return true;
    }
  }));
  return s;
}

std::string encode(const Exit& e) {
  Writer w(Kind::kExit);
  w.number(1, static_cast<std::uint64_t>(e.cause));
  w.number(2, static_cast<std::uint64_t>(static_cast<std::int64_t>(e.code)));
  w.number(3, static_cast<std::uint64_t>(static_cast<std::int64_t>(e.signal)));
  w.number(4, e.peak_bytes);
  w.number(5, e.limit_bytes);
  w.bytes(6, e.detail);
  return w.finish();
}

Result<Exit> decode_exit(std::string_view bytes) {
  Exit e;
  DLRUN_TRY(read_fields(bytes, Kind::kExit, "exit", [&](const Field& f) {
    switch (f.tag) {
      case 1:
        return set_enum(e.cause, f, EndCause::kStopped);
      case 2:
        return set_int(e.code, f);
      case 3:
        return set_int(e.signal, f);
      case 4:
        return set_number(e.peak_bytes, f);
      case 5:
        return set_number(e.limit_bytes, f);
      case 6:
        e.detail = f.text();
        return true;
      default:
        return true;
    }
  }));
  return e;
}

std::string encode(const Tree& t) {
  Writer w(Kind::kTree);
  w.number(1, t.mark);
  for (const auto& c : t.cgroups) w.bytes(2, c);
  w.bytes(3, t.isolation);
  w.bytes(4, t.boot_id);
  w.number(5, static_cast<std::uint64_t>(t.shim_pid));
  return w.finish();
}

Result<Tree> decode_tree(std::string_view bytes) {
  Tree t;
  DLRUN_TRY(read_fields(bytes, Kind::kTree, "tree", [&](const Field& f) {
    switch (f.tag) {
      case 1:
        return set_number(t.mark, f);
      case 2:
        t.cgroups.push_back(f.text());
        return no_nul(f.value);
      case 3:
        t.isolation = f.text();
        return true;
      case 4:
        t.boot_id = f.text();
        return true;
      case 5:
        return set_int(t.shim_pid, f);
      default:
        return true;
    }
  }));
  return t;
}

std::string encode(const Report& r) {
  Writer w(Kind::kReport);
  w.number(1, static_cast<std::uint64_t>(r.phase));
  w.number(2, static_cast<std::uint64_t>(r.pid));
  w.number(3, static_cast<std::uint64_t>(r.shim_pid));
  w.bytes(4, r.isolation);
  w.bytes(5, encode(r.exit));
  w.bytes(6, r.warning);
  return w.finish();
}

Result<Report> decode_report(std::string_view bytes) {
  Report r;
  DLRUN_TRY(read_fields(bytes, Kind::kReport, "report", [&](const Field& f) {
    switch (f.tag) {
      case 1:
        return set_enum(r.phase, f, Phase::kEnded);
      case 2:
        return set_int(r.pid, f);
      case 3:
        return set_int(r.shim_pid, f);
      case 4:
        r.isolation = f.text();
        return true;
      case 5: {
        auto exit = decode_exit(f.value);
        if (exit) r.exit = std::move(*exit);
        return exit.has_value();
      }
      case 6:
        r.warning = f.text();
        return true;
      default:
        return true;
    }
  }));
  return r;
}

std::string encode(const Command& c) {
  Writer w(Kind::kCommand);
  w.number(1, static_cast<std::uint64_t>(c.kind));
  w.number(2, c.grace_ms);
  w.number(3, static_cast<std::uint64_t>(c.cause));
  return w.finish();
}

Result<Command> decode_command(std::string_view bytes) {
  Command c;
  DLRUN_TRY(read_fields(bytes, Kind::kCommand, "command", [&](const Field& f) {
    switch (f.tag) {
      case 1:
        return set_enum(c.kind, f, Command::Kind::kKill);
      case 2:
        return set_number(c.grace_ms, f);
      case 3:
        return set_enum(c.cause, f, EndCause::kStopped);
      default:
        return true;
    }
  }));
  return c;
}

}  // namespace dlrun::shim
