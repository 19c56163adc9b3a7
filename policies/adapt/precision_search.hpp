// Searches for the cheapest choice of one option per block that meets a budget.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "graph/core/units.hpp"

namespace tidemark {

// Option 0 of each block is the widest type and costs nothing; later ones are narrower and cost
// more. Blocks with equal costs are alike.
struct PrecisionProblem {
  std::vector<std::vector<double>> cost;  // cost of each option of each block
  Bytes budget;
  // Up to so many choices are evaluated one by one, cheapest first: then the choice is the best.
  std::size_t exhaustive = 256;
  // Returns the peak of a choice.
  std::function<Bytes(const std::vector<int>&)> peak;
};

struct PrecisionChoice {
  std::vector<int> option;  // chosen option of each block
  double cost = 0;
  Bytes peak;
  bool meets = false;  // false: the choice of the least peak that was seen
  int evaluations = 0;
};

// Larger problems: each kind of block is lowered once by itself; a knapsack over what that saved
// proposes choices, cheapest first, which are evaluated until one meets the budget; blocks of it
// are raised again while it still does.
[[nodiscard]] PrecisionChoice cheapest_precision(const PrecisionProblem& problem);

}  // namespace tidemark
