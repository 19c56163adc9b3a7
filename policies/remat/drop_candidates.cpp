#include "policies/remat/drop_candidates.hpp"

#include <algorithm>
#include <cmath>

namespace tidemark {
namespace drop_candidates_detail {
namespace {

constexpr double kLeastCost = 1e-9;  // of a value that costs nothing: scores stay above 0

}  // namespace
}  // namespace drop_candidates_detail

DropCandidates::DropCandidates(const RematProblem& problem, const ScheduleEditor& list,
                               std::int64_t budget, std::mt19937_64& random)
    : problem_(problem), list_(list), budget_(budget), random_(random), marks_(problem.size()) {
  using drop_candidates_detail::kLeastCost;
  for (NodeIndex i = 0; i < problem.size(); ++i) {
    if (problem.bytes[i] == 0 || problem.once[i]) continue;
    droppable_.push_back({i, problem.bytes[i], 0.1 * static_cast<double>(problem.bytes[i]),
                          static_cast<double>(problem.cost[i]) + kLeastCost});
  }
  // First computations keep their order.
  std::stable_sort(droppable_.begin(), droppable_.end(),
                   [this](const Droppable& a, const Droppable& b) {
                     return list_.precedes(list_.first(a.node), list_.first(b.node));
                   });
}

void DropCandidates::find(Occ at, double noise) {
  at_ = at;
  found_.clear();
  const std::int64_t excess = list_.memory(at) - budget_;
  ++mark_;
  marks_[list_.node(at)] = mark_;
  for (const NodeIndex dep : problem_.deps[list_.node(at)])
    marks_[dep] = mark_;
  for (const Droppable& value : droppable_) {
    if (marks_[value.node] == mark_) continue;
    const Occ copy = list_.copy_before(value.node, at);
    if (copy == ScheduleEditor::kNone) break;  // those that follow come later yet
    if (!list_.precedes(at, list_.end(copy))) continue;
    const double gain = static_cast<double>(std::min(value.bytes, excess)) + value.tenth;
    found_.push_back({value.node, copy, value.cost / gain});
  }
  taken_ = std::min(found_.size(), kLikely);
  std::partial_sort(found_.begin(), found_.begin() + static_cast<std::ptrdiff_t>(taken_),
                    found_.end(), [](const auto& a, const auto& b) { return less(a, b); });
  likely_.clear();
  for (std::size_t k = 0; k < taken_; ++k) {
    const Candidate& c = found_[k];
    const auto draw = [this] { return static_cast<double>(random_() >> 11) * 0x1.0p-53; };
    const double factor = noise > 0 ? std::exp(noise * (draw() - 0.5)) : 1;
    likely_.push_back({{c.node, c.copy, c.score * factor}, c.score, factor, false});
  }
}

std::optional<DropCandidates::Candidate> DropCandidates::take() {
  while (!likely_.empty()) {
    Likely& best = *std::min_element(
        likely_.begin(), likely_.end(),
        [](const auto& a, const auto& b) { return less(a.candidate, b.candidate); });
    Candidate& c = best.candidate;
    if (best.priced) {
      const Candidate taken = c;
      best = likely_.back();
      likely_.pop_back();
      return taken;
    }
    using drop_candidates_detail::kLeastCost;
    const auto full = static_cast<double>(price(c.node, list_.reader_after(c.copy, at_)));
    const auto alone = static_cast<double>(problem_.cost[c.node]);
    best.alone *= (full + kLeastCost) / (alone + kLeastCost);
    c.score = best.alone * best.noise;
    best.priced = true;
  }
  if (taken_ < found_.size()) return found_[taken_++];
  return std::nullopt;
}

// Returns the cost of recomputing `node` right before `reader` with all that it needs and that was
// freed.
std::int64_t DropCandidates::price(NodeIndex node, Occ reader) {
  stack_.assign(1, node);
  ++mark_;
  std::int64_t sum = 0;
  while (!stack_.empty()) {
    const NodeIndex i = stack_.back();
    stack_.pop_back();
    if (marks_[i] == mark_) continue;
    marks_[i] = mark_;
    if (problem_.once[i]) return kInfinite;
    sum += problem_.cost[i];
    for (const NodeIndex dep : problem_.deps[i]) {
      const Occ end = list_.end(list_.copy_before(dep, reader));
      if (!list_.precedes(end, reader)) continue;
      // One that ended after the full place may stay, if there is room.
      if (!list_.precedes(end, at_) && list_.fits_between(end, reader, problem_.bytes[dep]))
        continue;
      stack_.push_back(dep);
    }
  }
  return sum;
}

}  // namespace tidemark
