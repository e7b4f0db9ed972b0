#pragma once
/// ps/pslite/settings.h: DMLC_* and their kin to MemberOptions, with what the machine says about
/// addresses. docs/pslite.md lists the variables.
/// Errors: kInvalidArgument, with the name of the variable; kNotFound: a host or an interface.

#include <functional>
#include <optional>
#include <string>

#include "ps/pslite/member.h"

namespace dlrun::pslite {

struct Wish {
  std::optional<Role> role;  ///< in place of DMLC_ROLE
  int rank = kNobody;
};
/// nullptr: not set.
using Lookup = std::function<const char*(const char* name)>;

struct Settings {
  MemberOptions member;
  int verbose = 0;
  Duration request_within = std::chrono::hours(1);
};
/// Does not look at the network yet.
Result<Settings> read_settings(const Lookup& lookup, const Wish& wish);
/// Resolves names and finds addresses, which may take as long as the system's resolver: `root`,
/// `bind`, `name`, `host_mark`.
Status find_places(const Lookup& lookup, MemberOptions& member);

}  // namespace dlrun::pslite
