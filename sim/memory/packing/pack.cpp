#include "sim/memory/packing/pack.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/memory/packing/greedy.hpp"
#include "sim/memory/packing/height_search.hpp"
#include "sim/memory/packing/restarts.hpp"
#include "sim/memory/packing/time_sections.hpp"

namespace tidemark {
namespace pack_detail {
namespace {

// Limits above which the search would take too much memory, and a node too long, to be of use.
constexpr std::size_t kMostBuffers = 4000;
constexpr std::int64_t kMostPairs = 4'000'000;  // pairs of buffers that are live together
// Nodes per target height in the first pass of tightening; each further pass gets twice as many.
constexpr std::int64_t kFirstBudget = 20'000;
// The share of that budget for a height above the goal: such heights only matter where the goal is
// out of reach.
constexpr std::int64_t kBetween = 16;
// A pass ends when the best and what it has given up differ by less than one part in this many.
constexpr std::int64_t kCloseEnough = 1000;
// The attempt at the lower bound after the packing fits gets this many nodes, or as many as that
// packing took.
constexpr std::int64_t kAfterFit = 100'000;

// Limits of the search, for all parts together.
struct Limits {
  std::chrono::steady_clock::time_point deadline;
  std::int64_t nodes_left = 0;
  [[nodiscard]] bool over() const {
    return nodes_left <= 0 || std::chrono::steady_clock::now() >= deadline;
  }
};

// Buffers that overlap in time with those of no other part. The search counts in units of their
// sizes' common divisor: every height that a packing without holes can have is a multiple of it.
class Part {
 public:
  Part(const PackingProblem& whole, std::vector<int> members, Limits& limits)
      : members_(std::move(members)), limits_(limits) {
    for (const int b : members_) {
      problem_.buffers.push_back(whole.buffers[static_cast<std::size_t>(b)]);
      unit_ = Bytes(std::gcd(unit_.count, problem_.buffers.back().size.count));
    }
    bound_ = most_live_bytes(problem_);
    best_ = best_greedy(problem_, bound_, limits_.deadline);
  }

  [[nodiscard]] Bytes height() const { return best_.height; }
  [[nodiscard]] Bytes lower_bound() const { return bound_; }
  [[nodiscard]] std::int64_t nodes() const { return nodes_; }
  void write(Packing& whole) const {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      whole.offsets[static_cast<std::size_t>(members_[i])] = best_.offsets[i];
    }
  }

  // Spends about `budget` nodes on one height and returns what that attempt has shown.
  enum class Attempt : std::uint8_t { kLowered, kExcluded, kOpen };
  Attempt attempt(Bytes height, std::int64_t budget, bool is_goal);
  // Whether this part can be searched at all.
  [[nodiscard]] bool searchable();

 private:
  std::vector<int> members_;
  Limits& limits_;
  PackingProblem problem_;
  Bytes unit_;
  Bytes bound_;
  Packing best_;
  std::int64_t nodes_ = 0;
  std::unique_ptr<HeightSearch> search_;
  // of its own: what fails at one height teaches little about others
  std::unique_ptr<Restarts> to_goal_;
  std::unique_ptr<Restarts> between_;
};

bool Part::searchable() {
  if (search_) return true;
  if (problem_.buffers.size() > kMostBuffers) return false;
  const TimeSections sections = time_sections(problem_);
  std::int64_t pairs = 0;
  for (const SectionSpan& span : sections.spans)
    pairs += span.last - span.first;
  if (pairs > kMostPairs) return false;
  std::vector<std::int64_t> sizes;
  for (const Buffer& b : problem_.buffers)
    sizes.push_back(b.size / unit_);
  search_ = std::make_unique<HeightSearch>(sections.spans, std::move(sizes), sections.count,
                                           [this] { return limits_.over(); });
  to_goal_ = std::make_unique<Restarts>(problem_, sections);
  between_ = std::make_unique<Restarts>(problem_, sections);
  return true;
}

Part::Attempt Part::attempt(Bytes height, std::int64_t budget, bool is_goal) {
  const std::int64_t target = height / unit_;
  if (target * unit_ < bound_) return Attempt::kExcluded;
  Restarts& restarts = is_goal ? *to_goal_ : *between_;
  while (budget > 0 && !limits_.over()) {
    const std::vector<int> rank = restarts.next_rank();
    const std::int64_t limit = std::min({restarts.node_limit(), budget, limits_.nodes_left});
    const SearchOutcome outcome = search_->run(target, rank, limit);
    restarts.learn(search_->failures(), search_->nodes());
    nodes_ += search_->nodes();
    budget -= search_->nodes();
    limits_.nodes_left -= search_->nodes();
    if (outcome == SearchOutcome::kFound) {
      for (std::size_t i = 0; i < best_.offsets.size(); ++i)
        best_.offsets[i] = search_->offsets()[i] * unit_;
      best_.height = height_of(problem_, best_.offsets);
      return Attempt::kLowered;
    }
    if (outcome == SearchOutcome::kImpossible) {
      bound_ = (target + 1) * unit_;
      return Attempt::kExcluded;
    }
  }
  return Attempt::kOpen;
}

// Lowers a part until it is no higher than `goal` or the limits are reached. Each pass has twice
// the budget of the one before: it first tries the goal itself, then heights between it and the
// best, by bisection.
void lower_part(Part& part, Bytes goal, const Limits& limits) {
  const auto done = [&] {
    return part.height() <= std::max(goal, part.lower_bound()) || limits.over();
  };
  if (done() || !part.searchable()) return;
  for (std::int64_t budget = kFirstBudget; !done(); budget *= 2) {
    Bytes target = std::max(goal, part.lower_bound());
    bool is_goal = true;
    Bytes open = target - Bytes(1);  // the highest one that this pass has given up
    while (true) {
      const Part::Attempt result =
          part.attempt(target, is_goal ? budget : budget / kBetween, is_goal);
      is_goal = false;
      if (done()) return;
      if (result != Part::Attempt::kLowered) open = target;
      target = open + (part.height() - open) / 2;
      const bool close = part.height() - target < part.height() / kCloseEnough;
      if (target <= open || (close && result == Part::Attempt::kOpen)) break;
    }
  }
}

PackResult result_of(const PackingProblem& problem, const std::vector<Part>& parts) {
  PackResult result;
  result.packing.offsets.assign(problem.buffers.size(), Bytes(0));
  for (const Part& part : parts) {
    part.write(result.packing);
    result.packing.height = std::max(result.packing.height, part.height());
    result.lower_bound = std::max(result.lower_bound, part.lower_bound());
    result.nodes += part.nodes();
  }
  return result;
}

}  // namespace
}  // namespace pack_detail

PackResult pack(const PackingProblem& problem, const PackOptions& options) {
  pack_detail::Limits limits{.deadline = std::chrono::steady_clock::now() + options.time_limit,
                             .nodes_left = options.node_limit};
  const TimeSections sections = time_sections(problem);
  std::vector<int> sized;  // buffers of no bytes are left out: they lie anywhere
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    if (problem.buffers[i].size > Bytes(0)) sized.push_back(static_cast<int>(i));
  }
  std::vector<pack_detail::Part> parts;
  Bytes bound;  // bound of the whole: a part may be as high as another has to be
  auto components = independent_components(sections.spans, sized);
  parts.reserve(components.size());  // needed: the search of a part refers to it
  for (auto& members : components) {
    parts.emplace_back(problem, std::move(members), limits);
    bound = std::max(bound, parts.back().lower_bound());
  }
  const auto lower_all = [&](Bytes goal) {
    for (pack_detail::Part& part : parts)
      pack_detail::lower_part(part, goal, limits);
  };
  if (!options.capacity) {
    lower_all(bound);
    return pack_detail::result_of(problem, parts);
  }
  if (*options.capacity >= bound) lower_all(*options.capacity);
  const std::int64_t used = options.node_limit - limits.nodes_left;
  limits.nodes_left = std::min(limits.nodes_left, std::max(pack_detail::kAfterFit, used));
  lower_all(bound);
  return pack_detail::result_of(problem, parts);
}

}  // namespace tidemark
