#pragma once
/// runtime/base/planted_bugs.h: faults of our own that the simulator must find, to show that it can
/// fail. Compiled only where DLRUN_PLANTED_BUGS is defined (the simulator's second build);
/// elsewhere has() is constant false and the branches vanish. Chosen at run time by name, through
/// the settings of a core. The list: docs/planted-bugs.md.

#include <string>
#include <string_view>

namespace dlrun {

struct PlantedBugs {
#ifdef DLRUN_PLANTED_BUGS
  std::string name;  ///< "" = none
  bool has(std::string_view bug) const { return name == bug; }
#else
  static constexpr bool has(std::string_view) { return false; }
#endif
};

}  // namespace dlrun
