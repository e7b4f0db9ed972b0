#pragma once
/// web/metrics.h: Prometheus text exposition format 0.0.4.

#include <string>
#include <vector>

#include "web/server.h"

namespace dlrun::web {
/// Metrics with a malformed name are left out; label values are escaped.
std::string prometheus_text(const std::vector<Metric>& metrics);
}  // namespace dlrun::web
