#pragma once
/// runtime/cluster/core/framework/parts.h: the functions of each adapter, and what they share.
/// Private to this folder. All have the contract of Adapter::env and Adapter::files.

#include "runtime/cluster/core/framework/adapter.h"

namespace dlrun::cluster::framework {

/// The first leased port; 0 when there is none.
std::uint16_t port_of(const PlacedTask& task);
/// "10.0.0.1:20000"; an IPv6 literal in brackets, "[fd00::1]:20000".
std::string endpoint(const PlacedTask& task);

/// The addresses of a role with its tasks at each, in the order of their lowest ranks. Nodes of one
/// machine share an address.
struct Host {
  std::string address;
  std::size_t tasks = 0;
};
std::vector<Host> hosts_of(const Gang& gang, std::string_view role);

EnvList tensorflow_env(const Gang& gang, std::size_t task);
EnvList pytorch_env(const Gang& gang, std::size_t task);
EnvList xgboost_env(const Gang& gang, std::size_t task);
EnvList pslite_env(const Gang& gang, std::size_t task);
EnvList dmlc_env(const Gang& gang, std::size_t task);
EnvList lightgbm_env(const Gang& gang, std::size_t task);
std::vector<TaskFile> lightgbm_files(const Gang& gang, std::size_t task);
EnvList mpi_env(const Gang& gang, std::size_t task);
std::vector<TaskFile> mpi_files(const Gang& gang, std::size_t task);
EnvList jax_env(const Gang& gang, std::size_t task);
EnvList generic_env(const Gang& gang, std::size_t task);

}  // namespace dlrun::cluster::framework
