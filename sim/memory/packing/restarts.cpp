#include "sim/memory/packing/restarts.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>

namespace tidemark {
namespace restarts_detail {
namespace {

constexpr std::int64_t kFirstNodes = 1000;  // limit for the fixed orders
constexpr std::int64_t kLubyNodes = 500;    // limit for the others, times Luby's sequence
constexpr double kKept = 0.8;               // share of the old weights kept at each restart
constexpr double kMostNoise = 0.4;          // keys are scaled by up to (1 +- this)

// Returns a term of 1 1 2 1 1 2 4 1 1 2 ...: within a logarithm of the best restarts for any search
// (Luby et al. 1993).
std::int64_t luby(std::size_t i) {
  std::size_t span = 1;  // 2^k - 1 terms, the last of which is 2^(k-1)
  while (span < i + 1)
    span = 2 * span + 1;
  while (span != i + 1) {
    span /= 2;
    if (i >= span) i -= span;
  }
  return static_cast<std::int64_t>(span / 2 + 1);
}

}  // namespace
}  // namespace restarts_detail

Restarts::Restarts(const PackingProblem& problem, const TimeSections& sections)
    : spans_(sections.spans), weights_(static_cast<std::size_t>(sections.count)) {
  std::vector<double> live(weights_.size());
  for (std::size_t b = 0; b < spans_.size(); ++b) {
    for (int s = spans_[b].first; s < spans_[b].last; ++s) {
      live[static_cast<std::size_t>(s)] += static_cast<double>(problem.buffers[b].size.count);
    }
  }
  for (auto& key : keys_)
    key.resize(spans_.size());
  for (std::size_t b = 0; b < spans_.size(); ++b) {
    const Buffer& buffer = problem.buffers[b];
    const double width = static_cast<double>(buffer.upper) - static_cast<double>(buffer.lower);
    const auto size = static_cast<double>(buffer.size.count);
    keys_[static_cast<int>(Key::kWidth)][b] = width;
    keys_[static_cast<int>(Key::kArea)][b] = width * size;
    keys_[static_cast<int>(Key::kSize)][b] = size;
    keys_[static_cast<int>(Key::kTotal)][b] =
        *std::max_element(live.begin() + spans_[b].first, live.begin() + spans_[b].last);
  }
}

std::vector<int> Restarts::next_rank() {
  static constexpr Order kFixed[] = {{Key::kWidth, Key::kArea, Key::kTotal},
                                     {Key::kTotal, Key::kArea, Key::kWidth},
                                     {Key::kTotal, Key::kWidth, Key::kArea},
                                     {Key::kArea, Key::kTotal, Key::kWidth},
                                     {Key::kSize, Key::kArea, Key::kWidth}};
  static constexpr Order kWeighted[] = {
      {Key::kWorst, Key::kWidth, Key::kArea},  {Key::kWeight, Key::kWidth, Key::kArea},
      {Key::kWorst, Key::kArea, Key::kWidth},  {Key::kWeight, Key::kArea, Key::kWidth},
      {Key::kWorst, Key::kTotal, Key::kWidth}, {Key::kWeight, Key::kTotal, Key::kArea}};
  const std::size_t i = restarts_++;
  if (i < std::size(kFixed)) {
    node_limit_ = restarts_detail::kFirstNodes;
    return rank_by(kFixed[i], 0);
  }
  node_limit_ = restarts_detail::kLubyNodes * restarts_detail::luby(i - std::size(kFixed));
  weigh();
  const std::size_t order = random_() % std::size(kWeighted);
  return rank_by(kWeighted[order], restarts_detail::kMostNoise * uniform());
}

void Restarts::learn(const std::vector<std::int64_t>& failures, std::int64_t nodes) {
  const double scale = 1.0 / static_cast<double>(std::max<std::int64_t>(nodes, 1));
  for (std::size_t s = 0; s < weights_.size(); ++s) {
    weights_[s] = restarts_detail::kKept * weights_[s] + scale * static_cast<double>(failures[s]);
  }
}

void Restarts::weigh() {
  for (std::size_t b = 0; b < spans_.size(); ++b) {
    const auto first = weights_.begin() + spans_[b].first;
    const auto last = weights_.begin() + spans_[b].last;
    keys_[static_cast<int>(Key::kWorst)][b] = *std::max_element(first, last);
    keys_[static_cast<int>(Key::kWeight)][b] = std::accumulate(first, last, 0.0);
  }
}

std::vector<int> Restarts::rank_by(const Order& order, double noise) {
  std::vector<std::array<double, 3>> noisy(spans_.size());
  for (std::size_t b = 0; b < noisy.size(); ++b) {
    for (std::size_t k = 0; k < 3; ++k) {
      const double factor = 1 + noise * (2 * uniform() - 1);
      noisy[b][k] = keys_[static_cast<int>(order[k])][b] * factor;
    }
  }
  std::vector<int> ordered(spans_.size());
  std::iota(ordered.begin(), ordered.end(), 0);
  std::stable_sort(ordered.begin(), ordered.end(), [&](int a, int b) {
    return noisy[static_cast<std::size_t>(a)] > noisy[static_cast<std::size_t>(b)];
  });
  std::vector<int> rank(ordered.size());
  for (std::size_t place = 0; place < ordered.size(); ++place) {
    rank[static_cast<std::size_t>(ordered[place])] = static_cast<int>(place);
  }
  return rank;
}

double Restarts::uniform() {
  return static_cast<double>(random_() >> 11U) * 0x1p-53;
}

}  // namespace tidemark
