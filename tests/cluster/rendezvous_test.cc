#include "runtime/cluster/core/rendezvous.h"

#include "tests/cluster/harness.h"

namespace dlrun::cluster {
namespace {

/// Three workers: two share a node; ports as given.
JobRecord record_of(std::vector<std::vector<std::uint16_t>> ports) {
  const JobSpec spec = spec_of(static_cast<std::uint32_t>(ports.size()));
  JobRecord record(JobSubmitted{JobId{7}, spec, "", 1, {}}, std::make_shared<const JobSpec>(spec));
  JobPlaced placed = placed_of(spec, JobId{7}, Generation{1}, Epoch{1, 1});
  for (std::size_t i = 0; i < ports.size(); ++i) {
    placed.tasks[i].slot.ports = ports[i];
    if (i > 0) placed.tasks[i].slot.node = NodeId{"shared"};
  }
  record.apply(placed);
  return record;
}

std::string value_of(const EnvList& env, const std::string& key) {
  for (const auto& [name, value] : env)
    if (name == key) return value;
  return "(unset)";
}

TEST(Rendezvous, RanksAreCountedInTheRoleAndLocalRanksOnTheNode) {
  const JobRecord record = record_of({{30001}, {30002, 30003}, {30004}});
  const EnvList env = rendezvous_of(record, 2);
  EXPECT_EQ(value_of(env, "DLRUN_JOB"), "j7");
  EXPECT_EQ(value_of(env, "RANK"), "2");
  EXPECT_EQ(value_of(env, "INDEX"), "2");
  EXPECT_EQ(value_of(env, "WORLD_SIZE"), "3");
  EXPECT_EQ(value_of(env, "LOCAL_RANK"), "1");
  EXPECT_EQ(value_of(env, "MASTER_ADDR"), "10.0.0.0");
  EXPECT_EQ(value_of(env, "MASTER_PORT"), "30001");
  EXPECT_EQ(value_of(rendezvous_of(record, 1), "DLRUN_PORTS"), "30002,30003");
  EXPECT_EQ(value_of(rendezvous_of(record, 0), "LOCAL_RANK"), "0");
}

TEST(Rendezvous, WithoutPortsNoneAreNamed) {
  const EnvList env = rendezvous_of(record_of({{}}), 0);
  EXPECT_EQ(value_of(env, "MASTER_PORT"), "(unset)");
  EXPECT_EQ(value_of(env, "DLRUN_PORTS"), "(unset)");
}

TEST(Rendezvous, AnIpv6AddressStaysBare) {
  JobRecord record = record_of({{30001}, {30002}});
  record.tasks[0].address = "fd00::7";
  EXPECT_EQ(value_of(rendezvous_of(record, 1), "MASTER_ADDR"), "fd00::7");
}

}  // namespace
}  // namespace dlrun::cluster
