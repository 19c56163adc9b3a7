// The cheapest precision of each block against all choices.
#include "policies/adapt/precision_search.hpp"

#include <algorithm>
#include <optional>
#include <random>

#include <doctest/doctest.h>

namespace tidemark::precision_search_test {
namespace {

// A model whose blocks save bytes by themselves, and hold on to some of them together: the peak
// does not fall below what the widest block leaves.
struct Toy {
  std::vector<std::vector<double>> cost;
  std::vector<std::vector<std::int64_t>> saved;
  std::int64_t widest = 0;
  std::int64_t floor = 0;

  [[nodiscard]] Bytes peak(const std::vector<int>& option) const {
    std::int64_t bytes = widest;
    for (std::size_t b = 0; b < option.size(); ++b)
      bytes -= saved[b][static_cast<std::size_t>(option[b])];
    return Bytes(std::max(bytes, floor));
  }
};

Toy random_toy(std::mt19937& random, std::size_t blocks) {
  Toy toy;
  const auto below = [&](int limit) {
    return static_cast<int>(random() % static_cast<unsigned>(limit));
  };
  for (std::size_t b = 0; b < blocks; ++b) {
    const double products = 1 + below(8);
    const std::int64_t bytes = 10 + below(90);
    toy.cost.push_back({0, products, 16 * products});
    toy.saved.push_back({0, bytes, bytes + below(60) - 10});
    toy.widest += 2 * bytes;
  }
  toy.floor = below(static_cast<int>(toy.widest));
  return toy;
}

// The least cost of all choices within a budget.
std::optional<double> least_cost(const Toy& toy, Bytes budget) {
  std::optional<double> best;
  std::vector<int> option(toy.cost.size(), 0);
  for (;;) {
    double cost = 0;
    for (std::size_t b = 0; b < option.size(); ++b)
      cost += toy.cost[b][static_cast<std::size_t>(option[b])];
    if (toy.peak(option) <= budget && (!best || cost < *best)) best = cost;
    std::size_t b = 0;
    while (b < option.size() && ++option[b] == 3)
      option[b++] = 0;
    if (b == option.size()) return best;
  }
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("no choice within the budget is cheaper than the one that is found") {
    std::mt19937 random(7);
    for (int round = 0; round < 60; ++round) {
      const Toy toy = random_toy(random, 2 + static_cast<std::size_t>(round % 4));
      const Bytes budget(static_cast<std::int64_t>(random() % 100) * toy.widest / 100);
      const std::optional<double> best = least_cost(toy, budget);
      // One by one, and by the knapsack that larger models take: savings that add up make it exact.
      for (const std::size_t exhaustive : {std::size_t{256}, std::size_t{0}}) {
        const PrecisionChoice found = cheapest_precision(
            {.cost = toy.cost,
             .budget = budget,
             .exhaustive = exhaustive,
             .peak = [&](const std::vector<int>& option) { return toy.peak(option); }});
        CHECK(found.peak == toy.peak(found.option));
        CHECK(found.meets == (found.peak <= budget));
        if (exhaustive > 0) {
          CHECK(found.meets == best.has_value());
          if (best) CHECK(found.cost == *best);
        } else if (found.meets) {
          CHECK(found.cost >= *best);
        }
      }
    }
  }

  TEST_CASE("many blocks that are alike are lowered no more than the budget demands") {
    // 40 blocks that save 10 bytes in the second type and 14 in the third, of 1,000.
    Toy toy{.widest = 1000};
    toy.cost.assign(40, {0, 1, 16});
    toy.saved.assign(40, {0, 10, 14});
    for (const std::int64_t budget : {995, 800, 640, 600, 560, 440}) {
      const PrecisionChoice found = cheapest_precision(
          {.cost = toy.cost, .budget = Bytes(budget), .peak = [&](const std::vector<int>& option) {
             return toy.peak(option);
           }});
      // Up to 400 bytes in the cheaper type; 4 more for each block in the other.
      const std::int64_t needed = 1000 - budget;
      const double cost = needed <= 400 ? static_cast<double>((needed + 9) / 10)
                                        : 40.0 + 15.0 * static_cast<double>((needed - 400 + 3) / 4);
      CHECK(found.meets);
      CHECK(found.cost == cost);
    }
  }
}

}  // namespace tidemark::precision_search_test
