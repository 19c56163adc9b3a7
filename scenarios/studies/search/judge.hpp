// Holds points of a search against its goal, before and after they are simulated.
#pragma once

#include <optional>
#include <vector>

#include "hwprofiles/figures.hpp"
#include "scenarios/studies/search/search.hpp"

namespace tidemark {

// Compares a point's figures with the goal. `device`: figures of its device.
void judge(SearchPoint& point, const Goal& goal, const std::vector<Figure>& device);

// Facts about a point that has not run.
struct Prospect {
  std::vector<double> objectives;  // best that a run could reach; infinite where not known
  std::optional<Breach> breaks;    // a limit that every run breaks, and by how much at least
};
// `bound` is what no run of the point is better than, see PointRunner.
[[nodiscard]] Prospect prospect_of(const PointResult& bound, const Goal& goal,
                                   const std::vector<Figure>& device);

}  // namespace tidemark
