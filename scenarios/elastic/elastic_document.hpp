// The result document of memory-elastic training.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "scenarios/elastic/memory_elastic.hpp"

namespace tidemark {

// Returns the steps as chosen, a point each.
[[nodiscard]] std::vector<PointResult> chosen_points(const ElasticStudy& study);

// Returns result_document() of those points, with `elastic`: {"global_batch", "ranks", "fits",
// "time", "steps": [{"step", "length", "capacity", "micro_batch", "accumulate", "fits",
// "peak_live", "device_used", "time"}], "fixed": the best fixed setting or null, "deepspeed": what
// its elasticity takes, or null, "speedup": time of the fixed setting over that of the chosen ones,
// or null}.
[[nodiscard]] nlohmann::ordered_json elastic_document(const ElasticStudy& study);

}  // namespace tidemark
