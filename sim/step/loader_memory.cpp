#include "sim/step/loader_memory.hpp"

#include <fmt/format.h>

#include "sim/step/failure_report.hpp"

namespace tidemark {

void add_loader_memory(PointResult& point) {
  if (!point.loader) return;
  const Bytes kept = point.loader->host();
  point.host_by_role[static_cast<std::size_t>(Role::kLoader)] += kept;
  point.run.host.bytes += kept;
  point.run.host_taken.bytes += kept;
  const Bytes taken = point.run.host_taken.bytes;
  if (point.status != PointStatus::kFits || taken <= point.host_capacity) return;
  point.status = PointStatus::kOutOfMemory;
  point.run.status = RunStatus::kOutOfHostMemory;
  point.failure = failure_because(fmt::format(
      "the data loader keeps {} of host memory and the step takes {}; there are {}",
      format_bytes(kept), format_bytes(taken - kept), format_bytes(point.host_capacity)));
  point.failure->short_of = taken - point.host_capacity;
}

}  // namespace tidemark
