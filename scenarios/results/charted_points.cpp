#include "scenarios/results/charted_points.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

#include "sim/result/pareto.hpp"

namespace tidemark {
namespace charted_points_detail {
namespace {

constexpr std::array<WorkUnit, 3> kUnits{WorkUnit::kStep, WorkUnit::kSample,
                                         WorkUnit::kThousandTokens};

// Returns `count` of the values, from the first to the last.
std::vector<std::size_t> spread(const std::vector<std::size_t>& values, std::size_t count) {
  if (values.size() <= count) return values;
  std::vector<std::size_t> chosen;
  for (std::size_t k = 0; k < count; ++k)
    chosen.push_back(values[count == 1 ? 0 : k * (values.size() - 1) / (count - 1)]);
  return chosen;
}

}  // namespace
}  // namespace charted_points_detail

std::vector<std::size_t> charted_points(std::span<const PointResult> points, std::size_t most) {
  constexpr std::size_t kWorst = 2;  // the slowest, and the one with most memory
  struct Known {
    std::size_t index = 0;
    Bytes memory;
    double seconds = 0;
  };
  const WorkUnit unit = compared_unit(points);
  std::vector<Known> known;
  std::set<std::size_t> chosen;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].status == PointStatus::kError) continue;
    if (chosen.size() < most) chosen.insert(i);  // those that come first, if nothing else does
    const std::optional<double> seconds = seconds_per(unit, points[i]);
    if (seconds) known.push_back({i, points[i].device_needed(), *seconds});
  }
  if (chosen.size() < most || known.empty() || most <= kWorst)
    return {chosen.begin(), chosen.end()};
  const std::set<std::size_t> first = std::move(chosen);
  chosen.clear();
  const auto insert_most = [&](const auto& less) {
    chosen.insert(std::max_element(known.begin(), known.end(), less)->index);
  };
  insert_most([](const Known& a, const Known& b) { return a.seconds < b.seconds; });
  insert_most([](const Known& a, const Known& b) { return a.memory < b.memory; });
  std::vector<TradeOff> runs;
  runs.reserve(known.size());
  for (const Known& k : known) {
    runs.push_back({.name = {},
                    .memory = k.memory,
                    .seconds = k.seconds,
                    .fits = points[k.index].status == PointStatus::kFits});
  }
  std::vector<std::size_t> front;
  for (const std::size_t r : pareto_front(runs)) {
    // Equal runs follow each other, and the first stands for them.
    if (front.empty() || points[front.back()].device_needed() != known[r].memory)
      front.push_back(known[r].index);
  }
  for (const std::size_t i : charted_points_detail::spread(front, most - chosen.size()))
    chosen.insert(i);
  for (const std::size_t i : first) {
    if (chosen.size() < most) chosen.insert(i);
  }
  return {chosen.begin(), chosen.end()};
}

std::vector<std::size_t> ChartCandidates::add(std::size_t index, const PointResult& point) {
  if (point.status == PointStatus::kError) return {};
  const auto replace_if = [&](std::vector<Candidate>& one, const Candidate& other, auto value) {
    const bool more = one.empty() || value(other) > value(one.front()) ||
                      (value(other) == value(one.front()) && index < one.front().index);
    if (more) one = {other};
  };
  for (const WorkUnit unit : charted_points_detail::kUnits) {
    const std::optional<double> seconds = seconds_per(unit, point);
    if (!seconds) continue;
    const Candidate own{index, point.device_needed(), *seconds};
    const auto u = static_cast<std::size_t>(unit);
    replace_if(slowest_[u], own, [](const Candidate& c) { return c.seconds; });
    replace_if(largest_, own, [](const Candidate& c) { return c.memory; });
    if (point.status != PointStatus::kFits) continue;
    // Of equal points the first beats the others.
    const auto beats = [](const Candidate& a, const Candidate& b) {
      if (a.memory > b.memory || a.seconds > b.seconds) return false;
      return a.memory < b.memory || a.seconds < b.seconds || a.index < b.index;
    };
    std::vector<Candidate>& front = fronts_[u];
    if (std::any_of(front.begin(), front.end(),
                    [&](const Candidate& other) { return beats(other, own); }))
      continue;
    std::erase_if(front, [&](const Candidate& other) { return beats(own, other); });
    front.push_back(own);
  }
  first_.insert(index);
  if (first_.size() > most_) first_.erase(std::prev(first_.end()));

  std::set<std::size_t> candidates = first_;
  const auto take = [&](const std::vector<Candidate>& list) {
    for (const Candidate& candidate : list)
      candidates.insert(candidate.index);
  };
  for (std::size_t u = 0; u < fronts_.size(); ++u) {
    take(fronts_[u]);
    take(slowest_[u]);
  }
  take(largest_);
  std::vector<std::size_t> replaced;
  std::set_difference(candidates_.begin(), candidates_.end(), candidates.begin(), candidates.end(),
                      std::back_inserter(replaced));
  candidates_ = std::move(candidates);
  return replaced;
}

}  // namespace tidemark
