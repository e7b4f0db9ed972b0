#include "runtime/node/cluster_file.h"

#include <nlohmann/json.hpp>

#include "runtime/security/secret.h"

namespace dlrun::node {
namespace {

using nlohmann::json;

/// null when the file is not there.
Result<json> read_json(const std::string& path) {
  const Result<std::string> text = security::read_file(path);
  if (!text && text.error().code == Errc::kNotFound) return json();
  if (!text) return tl::unexpected(text.error());
  json out = json::parse(*text, nullptr, false);
  if (!out.is_object()) return fail(Errc::kCorrupt, path + " is not a JSON object");
  return out;
}

Status write_json(const std::string& path, const json& value) {
  return security::write_private_file(
      path, value.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

std::uint16_t port_of(const json& file, const char* key) {
  const auto it = file.find(key);
  return it != file.end() && it->is_number_unsigned() && it->get<std::uint64_t>() <= 65535
             ? it->get<std::uint16_t>()
             : 0;
}
std::string text_of(const json& file, const char* key) {
  const auto it = file.find(key);
  return it != file.end() && it->is_string() ? it->get<std::string>() : std::string();
}

}  // namespace

Status write_cluster_file(const std::string& path, const ClusterFile& f) {
  return write_json(path, {{"rest", f.rest},
                           {"token_file", f.token_file},
                           {"cluster", f.cluster},
                           {"join", f.join},
                           {"ca_file", f.ca_file},
                           {"ca_fingerprint", f.ca_fingerprint},
                           {"join_token_file", f.join_token_file},
                           {"join_line", f.join_line},
                           {"pid", f.pid}});
}

Result<Ports> read_ports(const std::string& path) {
  DLRUN_ASSIGN(const json file, read_json(path));
  if (file.is_null()) return Ports{};
  return Ports{port_of(file, "cluster"), port_of(file, "join"), port_of(file, "rest"),
               port_of(file, "logs")};
}

Status write_ports(const std::string& path, const Ports& ports) {
  return write_json(path, {{"cluster", ports.cluster},
                           {"join", ports.join},
                           {"rest", ports.rest},
                           {"logs", ports.logs}});
}

Result<std::optional<CoordinatorFile>> read_coordinator_file(const std::string& path) {
  DLRUN_ASSIGN(const json file, read_json(path));
  if (file.is_null()) return std::optional<CoordinatorFile>();
  CoordinatorFile out{text_of(file, "host"), port_of(file, "cluster_port"),
                      port_of(file, "join_port"), text_of(file, "ca_fingerprint")};
  if (out.host.empty() || out.cluster_port == 0)
    return fail(Errc::kCorrupt, path + " names no coordinator");
  return std::optional<CoordinatorFile>(std::move(out));
}

Status write_coordinator_file(const std::string& path, const CoordinatorFile& f) {
  return write_json(path, {{"host", f.host},
                           {"cluster_port", f.cluster_port},
                           {"join_port", f.join_port},
                           {"ca_fingerprint", f.ca_fingerprint}});
}

std::string host_port(const std::string& host, std::uint16_t port) {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace dlrun::node
