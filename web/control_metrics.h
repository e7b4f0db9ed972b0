#pragma once
/// web/control_metrics.h: what /metrics says of jobs and nodes, from the control plane's own
/// answers. docs/rest.md lists the names.

#include <vector>

#include "web/server.h"

namespace dlrun::web {

/// Null: the control plane did not answer; dlrun_control_up is then 0 and the rest is left out.
void add_control_metrics(const cluster::Health* health, const cluster::NodeList* nodes,
                         std::vector<Metric>& all);

}  // namespace dlrun::web
