#pragma once
/// runtime/wire/job_codec.h: jobs, tasks and nodes <-> job.capnp. For codecs only (it includes
/// capnp); call inside wire::from_bytes().
/// Errors: kCorrupt for an enum out of range.

#include "runtime/cluster/core/api.h"
#include "runtime/wire/common_codec.h"
#include "runtime/wire/job.capnp.h"

namespace dlrun::wire {

void put(capnp::List<schema::Label>::Builder to, const sched::Labels& from);
void put(capnp::List<std::uint16_t>::Builder to, const std::vector<std::uint16_t>& from);
void put(schema::Resources::Builder to, const sched::Resources& from);
void put(schema::PlacedSlot::Builder to, const sched::Slot& from);
void put(schema::NodeCapacity::Builder to, const sched::NodeCapacity& from);
void put(capnp::List<schema::OutputSpec>::Builder to, const std::vector<cluster::OutputSpec>& from);
void put(capnp::List<schema::Rlimit>::Builder to, const cluster::Rlimits& from);
void put(schema::JobSpec::Builder to, const cluster::JobSpec& from);
void put(schema::TaskEnd::Builder to, const cluster::TaskEnd& from);
void put(schema::JobView::Builder to, const cluster::JobView& from);

sched::Labels get(capnp::List<schema::Label>::Reader from);
std::vector<std::uint16_t> get(capnp::List<std::uint16_t>::Reader from);
sched::Resources get(schema::Resources::Reader from);
sched::Slot get(schema::PlacedSlot::Reader from);
sched::NodeCapacity get(schema::NodeCapacity::Reader from);
std::vector<cluster::OutputSpec> get(capnp::List<schema::OutputSpec>::Reader from);
cluster::Rlimits get(capnp::List<schema::Rlimit>::Reader from);
Result<cluster::JobSpec> get(schema::JobSpec::Reader from);
Result<cluster::TaskEnd> get(schema::TaskEnd::Reader from);
Result<cluster::JobView> get(schema::JobView::Reader from);

Result<cluster::Cause> get_cause(std::uint8_t value);
Result<cluster::JobState> get_job_state(std::uint8_t value);

}  // namespace dlrun::wire
