// The terms of a step's time: the kernels of its last step by their kind and by module.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/result/time_breakdown.hpp"
#include "sim/step/simulate.hpp"

namespace tidemark {

// Kernels of the compute stream that are counted together.
struct TimeTerm {
  std::string name;       // "linear.weight_gradient"; or "h.*.mlp", "loss", "optimizer"
  std::size_t count = 0;  // kernels
  // Time in each phase without what is recomputed, and the time to recompute.
  Duration forward{};
  Duration backward{};
  Duration optimizer{};
  Duration recompute{};
  KernelSum work;  // operations, bytes, and the time by what the kernels wait for
  [[nodiscard]] Duration total() const { return forward + backward + optimizer + recompute; }
};

struct TimeTerms {
  std::vector<TimeTerm> by_operator;  // longest first, as the others
  std::vector<TimeTerm> by_module;
  std::vector<TimeTerm> by_pattern;  // modules that repeat together: "h.*.mlp"
  Duration busy{};                   // sum of each list
  Duration step{};                   // time of the step, the compute stream's waits included
};
[[nodiscard]] TimeTerms time_terms(const PointResult& point, const PointDetail& detail);

}  // namespace tidemark
