#include "policies/solver/stage_relaxation.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "policies/solver/linear_builder.hpp"

namespace tidemark {
namespace stage_relaxation_detail {
namespace {

using Variable = LinearBuilder::Variable;

constexpr std::size_t kWindows = 3;      // about, for each stage
constexpr int kBoundIterations = 4'000;  // iterations of one relaxation of a bound

// Bytes above the budget during each node when every node is computed once; 0 where it fits.
std::vector<std::int64_t> excess_without_repeats(const RematProblem& problem, std::int64_t budget) {
  std::vector<std::int64_t> excess(problem.size());
  std::vector<std::int64_t> freed(problem.size());  // freed after a node
  std::int64_t live = problem.fixed;
  for (NodeIndex v = 0; v < problem.size(); ++v) {
    live += problem.bytes[v];
    excess[v] = std::max<std::int64_t>(0, live + problem.workspace[v] - budget);
    freed[problem.readers[v].empty() ? v : problem.readers[v].back()] += problem.bytes[v];
    live -= freed[v];
  }
  return excess;
}

// Consecutive stages taken as one.
struct Window {
  std::size_t from, to;              // stages, both included
  std::vector<std::size_t> parts;    // windows that it consists of; none: a single stage
  std::vector<Variable> recomputed;  // by node before the first stage
};

class Program {
 public:
  Program(const RematProblem& problem, std::int64_t budget, const std::vector<NodeIndex>& ends)
      : problem_(problem),
        unit_(static_cast<double>(std::max<std::int64_t>(problem.base_cost, 1)) / problem.size()),
        budget_(budget),
        ends_(ends),
        resident_(ends.size()) {
    for (std::size_t stage = 0; stage < ends.size(); ++stage) {
      for (NodeIndex i = 0; i < first(stage); ++i)
        resident_[stage].push_back(program_.variable(0));
    }
    std::vector<std::size_t> row;  // windows of one length, by beginning
    for (std::size_t stage = 1; stage < ends.size(); ++stage) {
      add_memory(stage);
      row.push_back(add_window({.from = stage, .to = stage, .parts = {}, .recomputed = {}}));
    }
    // Windows are twice as long each time, beginning where half of the one before ends.
    for (std::size_t apart = 1; row.size() > apart; apart = 2) {
      std::vector<std::size_t> longer;
      for (std::size_t k = 0; k + apart < row.size(); k += apart) {
        longer.push_back(add_window({.from = windows_[row[k]].from,
                                     .to = windows_[row[k + apart]].to,
                                     .parts = {row[k], row[k + apart]},
                                     .recomputed = {}}));
      }
      row = std::move(longer);
    }
  }

  LinearProgram finish() { return program_.finish(); }
  [[nodiscard]] double unit() const { return unit_; }
  [[nodiscard]] const std::vector<Variable>& resident(std::size_t stage) const {
    return resident_[stage];
  }

 private:
  [[nodiscard]] NodeIndex first(std::size_t stage) const {
    return stage == 0 ? 0 : ends_[stage - 1] + 1;
  }

  std::size_t add_window(Window window) {
    for (NodeIndex i = 0; i < first(window.from); ++i) {
      const bool single = window.parts.empty();
      const double cost = single ? static_cast<double>(problem_.cost[i]) / unit_ : 0;
      window.recomputed.push_back(program_.variable(cost, problem_.once[i] ? 0 : 1));
      if (single || problem_.once[i]) continue;
      const LinearBuilder::Row somewhere = program_.at_least(0);
      for (const std::size_t part : window.parts)
        somewhere.add(windows_[part].recomputed[i], 1);
      somewhere.add(window.recomputed[i], -1);
    }
    add_inputs(window);
    add_presence(window);
    windows_.push_back(std::move(window));
    return windows_.size() - 1;
  }

  void add_inputs(const Window& window) {
    const NodeIndex begin = first(window.from);
    std::vector<bool> needed(begin);
    for (NodeIndex v = begin; v <= ends_[window.to]; ++v) {
      for (const NodeIndex u : problem_.deps[v]) {
        if (u < begin) needed[u] = true;
      }
    }
    const auto available = [&](NodeIndex u, double right) {
      const LinearBuilder::Row row = program_.at_least(right);
      row.add(window.recomputed[u], 1);
      row.add(resident_[window.from][u], 1);
      return row;
    };
    for (NodeIndex u = 0; u < begin; ++u) {
      if (needed[u]) available(u, 1);
    }
    for (NodeIndex v = 0; v < begin; ++v) {
      if (problem_.once[v]) continue;
      for (const NodeIndex u : problem_.deps[v]) {
        if (!needed[u]) available(u, 0).add(window.recomputed[v], -1);
      }
    }
  }

  void add_presence(const Window& window) {
    if (window.to + 1 == ends_.size()) return;
    for (NodeIndex i = 0; i < first(window.from); ++i) {
      const LinearBuilder::Row stays = program_.at_least(0);
      stays.add(resident_[window.from][i], 1);
      stays.add(window.recomputed[i], 1);
      stays.add(resident_[window.to + 1][i], -1);
    }
  }

  // Adds the row of memory while the stage before this one ends.
  void add_memory(std::size_t stage) {
    const NodeIndex end = ends_[stage - 1];
    const std::int64_t room = budget_ - problem_.footprint(end);
    // The scale is the same under every budget, so that programs differ in their right sides only.
    const std::int64_t most = problem_.footprint(problem_.largest_footprint());
    const double scale = 1 / static_cast<double>(std::max<std::int64_t>(most, 1));
    const LinearBuilder::Row row = program_.at_least(-static_cast<double>(room) * scale);
    const std::vector<NodeIndex>& inputs = problem_.deps[end];
    for (NodeIndex i = 0; i < end; ++i) {
      if (std::binary_search(inputs.begin(), inputs.end(), i)) continue;
      row.add(resident_[stage][i], -static_cast<double>(problem_.bytes[i]) * scale);
    }
  }

  const RematProblem& problem_;
  double unit_;  // costs are divided by it
  std::int64_t budget_;
  const std::vector<NodeIndex>& ends_;
  LinearBuilder program_;
  std::vector<std::vector<Variable>> resident_;  // by stage and node
  std::vector<Window> windows_;
};

// A run of nodes, both included.
struct NodeRange {
  NodeIndex first = 0;
  NodeIndex last = 0;
};

// Returns the nodes of a stage after whose computation a node is resident. It is there from the
// stage's beginning, or since the first of the stage's nodes that reads it.
NodeRange residence(NodeIndex node, const std::vector<NodeIndex>& readers, const NodeRange& stage,
                    bool was_kept, bool stays) {
  const auto from = std::lower_bound(readers.begin(), readers.end(), stage.first);
  const auto until = std::upper_bound(from, readers.end(), stage.last);
  const bool is_read = from != until;
  const NodeIndex since = node >= stage.first ? node
                          : was_kept          ? stage.first
                          : is_read           ? *from
                                              : stage.last;
  return {.first = since, .last = stays ? stage.last : is_read ? *(until - 1) : since};
}

}  // namespace
}  // namespace stage_relaxation_detail

std::vector<NodeIndex> stage_ends(const RematProblem& problem, std::int64_t budget,
                                  std::size_t entries) {
  const NodeIndex n = problem.size();
  const std::vector<std::int64_t> excess =
      stage_relaxation_detail::excess_without_repeats(problem, budget);
  // Entries of a window that begins after v: two rows of a node and one of each of its inputs.
  std::vector<std::size_t> entries_before(n);
  std::size_t sum = 0;
  for (NodeIndex v = 0; v < n; ++v)
    entries_before[v] = sum += stage_relaxation_detail::kWindows * (6 + 3 * problem.deps[v].size());
  std::size_t all = 0;
  std::vector<NodeIndex> tight;
  for (NodeIndex v = 0; v + 1 < n; ++v) {
    if (excess[v] == 0) continue;
    tight.push_back(v);
    all += entries_before[v];
  }
  std::vector<NodeIndex> ends;
  if (all <= entries) {
    ends = std::move(tight);
  } else {
    // As many runs of tight nodes as possible give one end each, the node with most in excess. A
    // run is as long as its share of entries and of excess.
    const double wanted =
        static_cast<double>(tight.size()) * static_cast<double>(entries) / static_cast<double>(all);
    const auto weight = [&](NodeIndex v) { return static_cast<double>(excess[v]); };
    double total = 0;
    for (const NodeIndex v : tight)
      total += weight(v);
    double passed = 0;
    NodeIndex best = n;  // none yet
    double next = total / wanted;
    for (const NodeIndex v : tight) {
      if (best == n || excess[v] > excess[best]) best = v;
      passed += weight(v);
      if (passed < next) continue;
      ends.push_back(best);
      best = n;
      next += total / wanted;
    }
    if (best != n) ends.push_back(best);
  }
  ends.push_back(n - 1);
  return ends;
}

StageRelaxation relax_stages(const RematProblem& problem, std::int64_t budget,
                             std::vector<NodeIndex> ends, const LinearOptions& options) {
  stage_relaxation_detail::Program program(problem, budget, ends);
  const LinearProgram rows = program.finish();
  LinearResult solved = solve(rows, options);
  const auto base = static_cast<double>(problem.base_cost);
  StageRelaxation result;
  for (std::size_t stage = 0; stage < ends.size(); ++stage) {
    std::vector<double>& entering = result.resident.emplace_back();
    for (const stage_relaxation_detail::Variable variable : program.resident(stage))
      entering.push_back(solved.x[static_cast<std::size_t>(variable)]);
  }
  result.ends = std::move(ends);
  // The guard covers the rounding of the sums.
  result.lower_bound =
      base + std::max(0.0, program.unit() * (solved.lower_bound - 1e-9 * problem.size()));
  result.objective = base + program.unit() * solved.objective;
  result.solved = std::move(solved);
  return result;
}

std::vector<CutChoice> single_stage_roundings(const RematProblem& problem, std::int64_t budget,
                                              const std::vector<NodeIndex>& ends,
                                              const std::vector<std::vector<double>>& resident) {
  std::vector<CutChoice> choices;
  for (std::size_t stage = 1; stage < ends.size(); ++stage) {
    const NodeIndex end = ends[stage - 1];
    const std::vector<double>& entering = resident[stage];
    const std::vector<NodeIndex>& inputs = problem.deps[end];
    std::vector<NodeIndex> order;  // values that could be dropped, the most resident first
    std::int64_t room = budget - problem.footprint(end);
    for (NodeIndex i = 0; i < end; ++i) {
      const std::vector<NodeIndex>& readers = problem.readers[i];
      if (readers.empty() || readers.back() <= end) continue;
      if (std::binary_search(inputs.begin(), inputs.end(), i)) continue;
      if (problem.once[i]) {
        room -= problem.bytes[i];
      } else {
        order.push_back(i);
      }
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](NodeIndex a, NodeIndex b) { return entering[a] > entering[b]; });
    CutChoice half{.node = end, .recomputed = {}};
    CutChoice fitting{.node = end, .recomputed = {}};
    for (const NodeIndex i : order) {
      if (entering[i] < 0.5) half.recomputed.push_back(i);
      room -= problem.bytes[i];
      if (room < 0) fitting.recomputed.push_back(i);
    }
    for (CutChoice* choice : {&half, &fitting}) {
      std::sort(choice->recomputed.begin(), choice->recomputed.end());
      choices.push_back(std::move(*choice));
    }
  }
  return choices;
}

std::int64_t combined_bound(const RematProblem& problem, std::int64_t budget, NodeIndex cut,
                            std::int64_t known, std::chrono::steady_clock::time_point deadline,
                            std::vector<CutChoice>* choices) {
  const std::int64_t unit = cost_unit(problem);
  const std::int64_t before = known;
  for (const std::size_t entries : {20'000U, 60'000U, 180'000U}) {
    // If few stages prove nothing, many do not either.
    if (entries == 180'000 && known == before) break;
    std::vector<NodeIndex> ends = stage_ends(problem, budget, entries);
    const auto at = std::lower_bound(ends.begin(), ends.end(), cut);
    if (*at != cut) ends.insert(at, cut);
    const StageRelaxation relaxed =
        relax_stages(problem, budget, std::move(ends),
                     {.tolerance = 1e-4,
                      .iterations = stage_relaxation_detail::kBoundIterations,
                      .deadline = deadline});
    const double extra = relaxed.lower_bound - static_cast<double>(problem.base_cost);
    const auto units =
        static_cast<std::int64_t>(std::ceil(extra / static_cast<double>(unit) * (1 - 1e-9) - 1e-6));
    known = std::max(known, problem.base_cost + units * unit);
    if (choices != nullptr) {
      std::vector<CutChoice> more =
          single_stage_roundings(problem, budget, relaxed.ends, relaxed.resident);
      std::move(more.begin(), more.end(), std::back_inserter(*choices));
    }
    if (std::chrono::steady_clock::now() > deadline) break;
  }
  return known;
}

std::vector<std::vector<bool>> spread_over_nodes(const RematProblem& problem,
                                                 const std::vector<NodeIndex>& ends,
                                                 const std::vector<std::vector<bool>>& kept) {
  const NodeIndex n = problem.size();
  std::vector<std::vector<bool>> resident(n, std::vector<bool>(n));  // by stage of one node
  NodeIndex first = 0;
  for (std::size_t stage = 0; stage < ends.size(); ++stage) {
    const NodeIndex end = ends[stage];
    for (NodeIndex i = 0; i <= end; ++i) {
      const bool was_kept = i < first && kept[stage].at(i);
      const bool stays = stage + 1 < ends.size() && kept[stage + 1][i];
      const auto [since, last] = stage_relaxation_detail::residence(
          i, problem.readers[i], {.first = first, .last = end}, was_kept, stays);
      for (NodeIndex t = since; t < last; ++t)
        resident[t + 1][i] = true;
      if (stays && end + 1 < n) resident[end + 1][i] = true;
      if (was_kept) resident[first][i] = true;
    }
    first = end + 1;
  }
  return resident;
}

}  // namespace tidemark
