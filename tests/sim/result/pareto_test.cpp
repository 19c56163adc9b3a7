#include "sim/result/pareto.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include <doctest/doctest.h>

namespace tidemark::pareto_test {

TEST_SUITE("property") {
  TEST_CASE("the Pareto front is what no other run beats") {
    std::mt19937 random(5);
    for (int round = 0; round < 300; ++round) {
      std::vector<TradeOff> runs;
      for (std::size_t i = 0; i < 1 + random() % 12; ++i) {
        runs.push_back({.name = "r",
                        .memory = Bytes(static_cast<std::int64_t>(random() % 6)),
                        .seconds = static_cast<double>(random() % 6),
                        .fits = random() % 4 != 0});
      }
      const std::vector<std::size_t> front = pareto_front(runs);
      for (std::size_t i = 0; i < runs.size(); ++i) {
        const auto counts = [&](std::size_t j) { return runs[j].fits && runs[j].seconds > 0; };
        bool beaten = !counts(i);
        for (std::size_t j = 0; j < runs.size(); ++j) {
          if (!counts(j) || j == i) continue;
          const bool no_worse =
              runs[j].memory <= runs[i].memory && runs[j].seconds <= runs[i].seconds;
          const bool better = runs[j].memory < runs[i].memory || runs[j].seconds < runs[i].seconds;
          beaten = beaten || (no_worse && better);
        }
        CHECK((std::find(front.begin(), front.end(), i) != front.end()) == !beaten);
      }
    }
  }
}

}  // namespace tidemark::pareto_test
