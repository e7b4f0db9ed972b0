#pragma once
/// tests/security/temp_folder.h: a folder that lives as long as its object.

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace dlrun::security {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "dlrun-security-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ec;
    std::filesystem::remove_all(path_, ec);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace dlrun::security
