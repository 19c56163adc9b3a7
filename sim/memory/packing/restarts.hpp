// Orders for the restarts of the height search, on one independent part of a problem.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "sim/memory/packing/problem.hpp"
#include "sim/memory/packing/time_sections.hpp"

namespace tidemark {

// Restart i of a search gets limit(i) nodes and rank(i): fixed orders first, then orders in which
// the sections of time weigh most where the search has failed recently, with some noise.
class Restarts {
 public:
  Restarts(const PackingProblem& problem, const TimeSections& sections);

  [[nodiscard]] std::vector<int> next_rank();
  [[nodiscard]] std::int64_t node_limit() const { return node_limit_; }  // limit for the last rank
  void learn(const std::vector<std::int64_t>& failures, std::int64_t nodes);

 private:
  // An order sorts by one of these, decreasing.
  enum class Key : std::uint8_t {
    kWidth,  // duration
    kArea,   // duration x size
    kTotal,  // most live bytes during the buffer's life
    kSize,
    kWorst,   // largest weight of its sections
    kWeight,  // sum of the weights of its sections
  };
  static constexpr std::size_t kKeys = 6;
  using Order = Key[3];

  void weigh();
  [[nodiscard]] std::vector<int> rank_by(const Order& order, double noise);
  [[nodiscard]] double uniform();  // a random number in [0, 1)

  std::vector<SectionSpan> spans_;
  std::vector<double> weights_;      // weight of each section
  std::vector<double> keys_[kKeys];  // keys of each buffer
  std::mt19937_64 random_{1};
  std::size_t restarts_ = 0;
  std::int64_t node_limit_ = 0;
};

}  // namespace tidemark
