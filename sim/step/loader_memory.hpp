// The host memory of a data loader, as part of what a step keeps on the host.
#pragma once

#include "sim/step/point_result.hpp"

namespace tidemark {

// Adds what the loader keeps on the host to the point's host memory, under its own role. A point
// that fits without it and exceeds the host with it does not fit.
void add_loader_memory(PointResult& point);

}  // namespace tidemark
