#include "runtime/node/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "runtime/jobspec/job_file.h"
#include "runtime/jobspec/units.h"
#include "runtime/os/address.h"

namespace dlrun::node {
namespace {

tl::unexpected<Error> wrong(std::string text) {
  return fail(Errc::kInvalidArgument, std::move(text));
}

std::string shown(std::string_view value) { return "\"" + std::string(value) + "\""; }

template <class T>
std::string plain(T value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

template <class T>
bool parse_number(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

template <class T>
Setting bounded(std::string name, T* field, T low, T high, std::string type, std::string unit,
                std::string text) {
  Setting s;
  s.name = std::move(name);
  s.type = std::move(type);
  s.unit = std::move(unit);
  s.fallback = plain(*field);
  s.bounds = plain(low) + " to " + plain(high);
  s.text = std::move(text);
  s.set = [field, low, high, bounds = s.bounds, unit = s.unit](std::string_view value) -> Status {
    T parsed{};
    if (!parse_number(value, parsed) || !(parsed >= low && parsed <= high))
      return wrong("must be " + bounds + (unit.empty() ? "" : " " + unit) + ", not " +
                   shown(value));
    *field = parsed;
    return {};
  };
  return s;
}

Status put_label(std::map<std::string, std::string>& labels, std::string_view pair) {
  const auto equals = pair.find('=');
  if (equals == std::string_view::npos || equals == 0)
    return wrong("must be key=value, not " + shown(pair));
  labels[std::string(pair.substr(0, equals))] = std::string(pair.substr(equals + 1));
  return {};
}

/// An IPv6 address may have a scope: fe80::1%eth0.
bool is_literal(const std::string& address) {
  return os::is_address(address) || (address.find(':') != std::string::npos &&
                                     os::is_address(address.substr(0, address.find('%'))));
}

std::string meta(const Setting& s) {
  if (!s.takes_value) return "";
  std::string out = s.unit.empty() ? s.type : s.unit;
  std::replace(out.begin(), out.end(), ' ', '-');
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (s.type.starts_with("one of")) out = "CHOICE";
  return " " + out;
}

std::string notes(const Setting& s) {
  std::string out;
  const auto add = [&](const std::string& note) { out += (out.empty() ? "" : "; ") + note; };
  if (s.required) add("required");
  if (s.type.starts_with("one of")) add(s.type);
  if (!s.bounds.empty()) add(s.bounds + (s.unit.empty() ? "" : " " + s.unit));
  if (!s.fallback.empty()) add("default " + s.fallback);
  return out;
}

}  // namespace

Setting text_setting(std::string name, std::string* field, std::string text) {
  Setting s;
  s.name = std::move(name);
  s.type = "text";
  s.fallback = *field;
  s.text = std::move(text);
  s.set = [field](std::string_view value) -> Status {
    *field = std::string(value);
    return {};
  };
  return s;
}

Setting required_setting(std::string name, std::string* field, std::string text) {
  Setting s = text_setting(std::move(name), field, std::move(text));
  s.required = true;
  return s;
}

Setting whole_setting(std::string name, std::int64_t* field, std::int64_t low, std::int64_t high,
                      std::string unit, std::string text) {
  return bounded(std::move(name), field, low, high, "whole number", std::move(unit),
                 std::move(text));
}

Setting port_setting(std::string name, std::uint16_t* field, std::string text) {
  return bounded<std::uint16_t>(std::move(name), field, 0, 65535, "port", "", std::move(text));
}

Setting address_setting(std::string name, std::string* field, std::string text) {
  Setting s = text_setting(std::move(name), field, std::move(text));
  s.type = "address";
  s.set = [field](std::string_view value) -> Status {
    if (!is_literal(std::string(value)))
      return wrong("must be a literal address like 10.0.0.1 or fd00::1, not " + shown(value));
    *field = std::string(value);
    return {};
  };
  return s;
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  Endpoint out;
  const std::size_t colon = text.rfind(':');
  if (colon != std::string_view::npos) {
    out.address = std::string(text.substr(0, colon));
    const bool brackets =
        out.address.size() > 2 && out.address.front() == '[' && out.address.back() == ']';
    if (brackets) out.address = out.address.substr(1, out.address.size() - 2);
    const bool v6 = out.address.find(':') != std::string::npos;
    if (v6 == brackets && is_literal(out.address) && parse_number(text.substr(colon + 1), out.port))
      return out;
  }
  return wrong("must be ADDRESS:PORT like 10.0.0.1:7443 or [fd00::1]:7443, port 0 to 65535, not " +
               shown(text));
}

Setting endpoint_setting(std::string name, std::string* field, std::string text) {
  Setting s = text_setting(std::move(name), field, std::move(text));
  s.type = "ADDRESS:PORT";
  s.set = [field](std::string_view value) -> Status {
    DLRUN_TRY(parse_endpoint(value));
    *field = std::string(value);
    return {};
  };
  return s;
}

Setting number_setting(std::string name, double* field, double low, double high, std::string unit,
                       std::string text) {
  return bounded(std::move(name), field, low, high, "number", std::move(unit), std::move(text));
}

Setting bytes_setting(std::string name, std::int64_t* field, std::int64_t low, std::int64_t high,
                      std::string text) {
  Setting s;
  s.name = std::move(name);
  s.type = "size";
  s.unit = "bytes";
  s.fallback = *field == 0 ? "" : jobspec::format_size(static_cast<std::uint64_t>(*field));
  s.bounds = jobspec::format_size(static_cast<std::uint64_t>(low)) + " to " +
             jobspec::format_size(static_cast<std::uint64_t>(high));
  s.text = std::move(text);
  s.set = [field, low, high, bounds = s.bounds](std::string_view value) -> Status {
    const auto parsed = jobspec::parse_size(value);
    if (!parsed) return wrong(parsed.error().context);
    if (*parsed < low || *parsed > high)
      return wrong("must be " + bounds + ", not " + shown(value));
    *field = *parsed;
    return {};
  };
  return s;
}

Setting flag_setting(std::string name, bool* field, std::string text) {
  Setting s;
  s.name = std::move(name);
  s.type = "flag";
  s.text = std::move(text);
  s.takes_value = false;
  s.set = [field](std::string_view) -> Status {
    *field = true;
    return {};
  };
  return s;
}

Setting list_setting(std::string name, std::vector<std::string>* field, std::string text) {
  Setting s;
  s.name = std::move(name);
  s.type = "list";
  s.text = std::move(text) + "; may be given several times";
  s.set = [field](std::string_view value) -> Status {
    field->emplace_back(value);
    return {};
  };
  return s;
}

Setting labels_setting(std::string name, std::map<std::string, std::string>* field,
                       std::string text) {
  Setting s;
  s.name = std::move(name);
  s.type = "key=value";
  s.text = std::move(text) + "; several times, or with commas";
  s.set = [field](std::string_view value) -> Status {
    for (;;) {
      const auto comma = value.find(',');
      DLRUN_TRY(put_label(*field, value.substr(0, comma)));
      if (comma == std::string_view::npos) return {};
      value.remove_prefix(comma + 1);
    }
  };
  return s;
}

Setting choice_setting(std::string name, std::string* field, std::vector<std::string> choices,
                       std::string text) {
  Setting s;
  s.name = std::move(name);
  for (const std::string& choice : choices) s.type += (s.type.empty() ? "one of " : ", ") + choice;
  s.fallback = *field;
  s.text = std::move(text);
  s.set = [field, choices = std::move(choices), type = s.type](std::string_view value) -> Status {
    if (std::find(choices.begin(), choices.end(), value) == choices.end())
      return wrong("must be " + type + ", not " + shown(value));
    *field = std::string(value);
    return {};
  };
  return s;
}

Status parse_settings(const std::vector<Setting>& table, const std::vector<std::string>& args) {
  std::vector<std::string_view> given;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (!arg.starts_with("--"))
      return wrong("unexpected " + shown(arg) + ": settings are given as --name value");
    const auto equals = arg.find('=');
    const std::string name = arg.substr(2, equals == std::string::npos ? equals : equals - 2);
    const auto found =
        std::find_if(table.begin(), table.end(), [&](const Setting& s) { return s.name == name; });
    if (found == table.end()) {
      std::vector<std::string_view> known;
      for (const Setting& s : table) known.push_back(s.name);
      const std::string near = jobspec::nearest(name, known);
      return wrong("unknown setting --" + name +
                   (near.empty() ? "; --help lists them" : "; did you mean --" + near + "?"));
    }
    std::string value;
    if (found->takes_value) {
      if (equals == std::string::npos && i + 1 == args.size())
        return wrong("--" + name + " wants a value");
      value = equals == std::string::npos ? args[++i] : arg.substr(equals + 1);
    } else if (equals != std::string::npos) {
      return wrong("--" + name + " takes no value");
    }
    const bool again = std::find(given.begin(), given.end(), found->name) != given.end();
    if (again && found->type != "list" && found->type != "key=value")
      return wrong("--" + name + " is given twice");
    given.push_back(found->name);
    if (const Status ok = found->set(value); !ok)
      return wrong("--" + name + " " + ok.error().context);
  }
  for (const Setting& s : table)
    if (s.required && std::find(given.begin(), given.end(), s.name) == given.end())
      return wrong("--" + s.name + " is required: " + s.text);
  return {};
}

std::string settings_help(std::string_view program, std::string_view purpose,
                          const std::vector<Setting>& table, std::string_view examples) {
  std::string out = std::string(purpose) + "\n\nUsage: " + std::string(program) + " [SETTINGS]\n\n";
  std::size_t width = 0;
  for (const Setting& s : table) width = std::max(width, s.name.size() + meta(s).size());
  for (const Setting& s : table) {
    std::string head = "  --" + s.name + meta(s);
    head.resize(width + 6, ' ');
    const std::string note = notes(s);
    out += head + s.text + (note.empty() ? "" : " (" + note + ")") + "\n";
  }
  return out + "  --help" + std::string(width > 2 ? width - 2 : 0, ' ') + "this help\n\n" +
         "Examples:\n" + std::string(examples);
}

std::string settings_markdown(std::string_view program, const std::vector<Setting>& table) {
  const auto cell = [](const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
    return out;
  };
  std::string out =
      "## " + std::string(program) +
      "\n\n| setting | type | unit | default | bounds | what |\n|---|---|---|---|---|---|\n";
  for (const Setting& s : table)
    out += "| `--" + s.name + "` | " + cell(s.type) + " | " + s.unit + " | " +
           (s.required           ? "required"
            : s.fallback.empty() ? ""
                                 : "`" + cell(s.fallback) + "`") +
           " | " + s.bounds + " | " + cell(s.text) + " |\n";
  return out;
}

std::optional<int> take_command_line(std::string_view program, std::string_view purpose,
                                     const std::vector<Setting>& table, std::string_view examples,
                                     int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (std::find(args.begin(), args.end(), "--help") != args.end() ||
      std::find(args.begin(), args.end(), "-h") != args.end()) {
    std::fputs(settings_help(program, purpose, table, examples).c_str(), stdout);
    return 0;
  }
  const Status ok = parse_settings(table, args);
  if (ok) return std::nullopt;
  std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(program.size()), program.data(),
               ok.error().context.c_str());
  return 2;
}

}  // namespace dlrun::node
