#pragma once
/// runtime/node/settings.h: one table per daemon of what can be set: name, type, unit, default,
/// bounds and text. It reads the command line, says what is wrong with it, prints --help and makes
/// docs/settings.md, so that none of them can differ from the others.
///
///   std::vector<Setting> table(Flags& flags)        rows bound to the fields; a field's value is
///                                                   the default
///     -> parse_settings()  argv into the fields     -> settings_markdown()  docs/settings.md
///
/// Errors: kInvalidArgument names the setting, its bounds and what was given.
/// Threads: plain functions.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace dlrun::node {

struct Setting {
  std::string name;  ///< without "--"
  std::string type;  ///< text | whole number | number | bytes | flag | list | one of a, b
  std::string unit;
  std::string fallback;  ///< as it would be given; "" = none
  std::string bounds;    ///< for people: "20 to 60000"
  std::string text;
  bool required = false;
  bool takes_value = true;
  std::function<Status(std::string_view value)> set;  ///< with what is wrong, without the name
};

// Rows. A field keeps its value unless the setting is given.
Setting text_setting(std::string name, std::string* field, std::string text);
Setting required_setting(std::string name, std::string* field, std::string text);
Setting whole_setting(std::string name, std::int64_t* field, std::int64_t low, std::int64_t high,
                      std::string unit, std::string text);
Setting port_setting(std::string name, std::uint16_t* field, std::string text);
Setting address_setting(std::string name, std::string* field,
                        std::string text);  ///< IPv4 or IPv6, no name
Setting endpoint_setting(std::string name, std::string* field,
                         std::string text);  ///< ADDRESS:PORT, [IPv6]:PORT
Setting number_setting(std::string name, double* field, double low, double high, std::string unit,
                       std::string text);
Setting bytes_setting(std::string name, std::int64_t* field, std::int64_t low, std::int64_t high,
                      std::string text);  ///< 2GiB, 512MB, or bytes
Setting flag_setting(std::string name, bool* field, std::string text);
Setting list_setting(std::string name, std::vector<std::string>* field,
                     std::string text);  ///< may be given several times
Setting labels_setting(std::string name, std::map<std::string, std::string>* field,
                       std::string text);  ///< key=value, also with commas
Setting choice_setting(std::string name, std::string* field, std::vector<std::string> choices,
                       std::string text);

struct Endpoint {
  std::string address;  ///< literal, IPv6 without brackets
  std::uint16_t port = 0;
};
/// kInvalidArgument: a name, an address that is none, a port that is missing or beyond 65535.
Result<Endpoint> parse_endpoint(std::string_view text);

/// `--name value` and `--name=value`; a flag stands alone. An unknown name is an error that names
/// the nearest.
Status parse_settings(const std::vector<Setting>& table, const std::vector<std::string>& args);
/// For `--help`. `examples`: command lines, each with its end of line.
std::string settings_help(std::string_view program, std::string_view purpose,
                          const std::vector<Setting>& table, std::string_view examples);
/// A heading and one row per setting.
std::string settings_markdown(std::string_view program, const std::vector<Setting>& table);

/// What a daemon's main does with its argv: --help to stdout (exit code 0), a wrong line to stderr
/// (2), else nullopt.
std::optional<int> take_command_line(std::string_view program, std::string_view purpose,
                                     const std::vector<Setting>& table, std::string_view examples,
                                     int argc, char** argv);

/// docs/settings.md, whole.
std::string settings_document();

}  // namespace dlrun::node
