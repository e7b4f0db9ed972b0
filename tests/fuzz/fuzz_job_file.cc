// Fuzz entry of the job file: the first byte picks the syntax. What parses is valid, and its JSON
// form reads back to the same job.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runtime/cluster/core/spec_check.h"
#include "runtime/jobspec/job_file.h"
#include "runtime/jobspec/json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dlrun::jobspec;
  if (size == 0) return 0;
  const auto syntax = static_cast<Syntax>(data[0] % 3);
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto spec = parse_job(text, syntax, "fuzz");
  if (!spec) {
    if (spec.error().context.empty()) std::abort();
    return 0;
  }
  if (!dlrun::cluster::problems_of(*spec).empty()) std::abort();
  const std::string json = dump(to_json(*spec));
  const auto again = parse_job(json, Syntax::kJson, "again");
  if (!again || dump(to_json(*again)) != json) std::abort();
  return 0;
}
