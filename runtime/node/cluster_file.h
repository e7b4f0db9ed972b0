#pragma once
/// runtime/node/cluster_file.h: the small JSON files of the data folders.
///   coordinator: cluster.json (for the launcher and for people), ports.json (the same ports after
///                a restart)
///   agent:       coordinator.json (where it joined)
/// All 0600, replaced by rename.
/// Errors: kCorrupt names the file.

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/result.h"

namespace dlrun::node {

struct ClusterFile {
  std::string rest;        ///< URL
  std::string token_file;  ///< REST bearer token
  std::string cluster;     ///< HOST:PORT where agents register
  std::string join;        ///< HOST:PORT where machines join
  std::string ca_file;     ///< whom a REST client beyond loopback trusts
  std::string ca_fingerprint;
  std::string join_token_file;
  std::string join_line;  ///< to be typed on the next machine
  std::int64_t pid = 0;
};
Status write_cluster_file(const std::string& path, const ClusterFile& file);

struct Ports {
  std::uint16_t cluster = 0, join = 0, rest = 0, logs = 0;
};
/// All 0 when the file is not there.
Result<Ports> read_ports(const std::string& path);
Status write_ports(const std::string& path, const Ports& ports);

struct CoordinatorFile {
  std::string host;
  std::uint16_t cluster_port = 0;
  std::uint16_t join_port = 0;
  std::string ca_fingerprint;
};
Result<std::optional<CoordinatorFile>> read_coordinator_file(const std::string& path);
Status write_coordinator_file(const std::string& path, const CoordinatorFile& file);

/// "host:port", IPv6 in brackets.
std::string host_port(const std::string& host, std::uint16_t port);

}  // namespace dlrun::node
