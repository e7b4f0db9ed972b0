#include "runtime/jobspec/job_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/jobspec/document.h"
#include "runtime/jobspec/job_reader.h"

namespace dlrun::jobspec {

Result<Syntax> syntax_of(std::string_view path) {
  if (path.ends_with(".toml")) return Syntax::kToml;
  if (path.ends_with(".yaml") || path.ends_with(".yml")) return Syntax::kYaml;
  if (path.ends_with(".json")) return Syntax::kJson;
  return fail(Errc::kInvalidArgument,
              fmt::format("{}: a job file ends in .toml, .yaml, .yml or .json", path));
}

Result<cluster::JobSpec> parse_job(std::string_view text, Syntax syntax, std::string_view file) {
  DLRUN_ASSIGN(const Node root, parse_document(text, syntax, file));
  return JobReader(file).read(root);
}

Result<cluster::JobSpec> load_job_file(const std::string& path) {
  DLRUN_ASSIGN(const Syntax syntax, syntax_of(path));
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail_errno("job file " + path);
  std::string text;
  Status status;
  struct stat info {};
  if (::fstat(fd, &info) == 0 && S_ISDIR(info.st_mode))
    status = fail_errno("job file " + path, EISDIR);
  char buffer[16384];
  while (status) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) status = fail_errno("job file " + path);
    if (n <= 0) break;
    text.append(buffer, static_cast<std::size_t>(n));
    if (text.size() > kJobBytesMax) break;  // parse_document refuses it
  }
  ::close(fd);
  if (!status) return tl::unexpected(status.error());
  return parse_job(text, syntax, path);
}

}  // namespace dlrun::jobspec
