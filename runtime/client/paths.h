#pragma once
/// runtime/client/paths.h: where libdlrun.so and the Python package lie beside a `dlrun`
/// executable, and the environment that lets a task find them. One rule for an install and for a
/// build tree, since the build tree has the shape of an install:
///   P/bin/dlrun   P/lib/dlrun/libdlrun.so   P/lib/dlrun/python/dlrun/__init__.py
/// Pure: touches no file.
/// Threads: any.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dlrun::client {

struct ClientPaths {
  std::string library;     ///< goes into DLRUN_LIB
  std::string python_dir;  ///< goes in front of PYTHONPATH
};

/// `executable`: absolute path of the running `dlrun` with symbolic links resolved (readlink of
/// /proc/self/exe).
inline ClientPaths client_paths(std::string_view executable) {
  auto up = [](std::string_view path) {
    const auto slash = path.rfind('/');
    return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
  };
  const std::string lib = std::string(up(up(executable))) + "/lib/dlrun";
  return {lib + "/libdlrun.so", lib + "/python"};
}

/// Puts DLRUN_LIB and PYTHONPATH into a task's environment. A PYTHONPATH that is there keeps its
/// entries, after ours.
inline void add_client_env(const ClientPaths& paths,
                           std::vector<std::pair<std::string, std::string>>& env) {
  bool library = false, python = false;
  for (auto& [name, value] : env) {
    if (name == "DLRUN_LIB") {
      value = paths.library;
      library = true;
    } else if (name == "PYTHONPATH") {
      value = value.empty() ? paths.python_dir : paths.python_dir + ":" + value;
      python = true;
    }
  }
  if (!library) env.emplace_back("DLRUN_LIB", paths.library);
  if (!python) env.emplace_back("PYTHONPATH", paths.python_dir);
}

}  // namespace dlrun::client
