#pragma once
/// runtime/jobspec/json.h: JSON of what REST answers, and of job specs. Field names are those of
/// web/openapi.json.
/// Bytes: argv, env and cwd may hold any byte but NUL; a string that is not UTF-8 is written
/// {"base64": "..."}.
/// Times: RFC 3339 UTC with nanoseconds, null = not yet.
/// Units: durations in seconds, a number; sizes in bytes.
/// Threads: all const.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "runtime/base/base64.h"
#include "runtime/base/result.h"
#include "runtime/cluster/core/api.h"

namespace dlrun::jobspec {

using Json = nlohmann::ordered_json;

/// the shape of a job file; parse_job() reads it back to an equal spec
Json to_json(const cluster::JobSpec& spec);
Json to_json(const cluster::JobView& view);
Json to_json(const cluster::TaskView& view);
Json to_json(const cluster::NodeView& view);
Json to_json(const cluster::EventView& view);
Json to_json(const cluster::WhyAnswer& answer);
Json to_json(const cluster::TaskEnd& end);
Json to_json(const cluster::Health& health);

/// A string, or {"base64": ...} when `bytes` is not valid UTF-8.
Json bytes_to_json(std::string_view bytes);
/// The inverse; kInvalidArgument.
Result<std::string> bytes_from_json(const Json& value);

std::string rfc3339(WallTime time);
using dlrun::base64_decode;
using dlrun::base64_encode;

/// Never throws: invalid UTF-8 becomes U+FFFD.
std::string dump(const Json& value, int indent = -1);

}  // namespace dlrun::jobspec
