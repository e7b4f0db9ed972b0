#pragma once
/// tests/house/layering.h: which folder may include which, read from the #include lines of the
/// sources. The rules are docs/architecture.md's, as a table: a folder has a height and may include
/// what lies lower; a core may include runtime/base and message headers only; scheduler, ps and io
/// meet only through message headers.

#include <map>
#include <string>
#include <vector>

namespace dlrun::house {

/// Path relative to the root of the checkout -> text.
using Sources = std::map<std::string, std::string>;

/// One sentence per breach: "ps/core/x.cc:3 includes runtime/wire/y.h: a core includes ...". Sorted
/// by path.
std::vector<std::string> layering_breaches(const Sources& sources);

/// The .h, .cc and .cu files below the project's source folders.
Sources read_sources(const std::string& root);

}  // namespace dlrun::house
