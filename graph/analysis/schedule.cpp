#include "graph/analysis/schedule.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace schedule_detail {
namespace {

ScheduledPart scheduled(PartKind part, int micro_batch, int chunk = 0) {
  return {.part = part,
          .micro_batch = static_cast<std::uint16_t>(micro_batch),
          .chunk = static_cast<std::uint16_t>(chunk)};
}

// Checks that each micro-batch goes through each chunk forward once and then backward once; where
// weight gradients are a part of their own, they follow once, in the order of the backwards.
void check_work(std::span<const ScheduledPart> work) {
  using Key = std::pair<int, int>;  // micro-batch and chunk
  std::map<Key, int> seen;
  std::map<int, std::vector<int>> backwards;  // by chunk: micro-batches in their order
  std::map<int, std::size_t> weights;         // by chunk: how many have their weight gradients
  for (const ScheduledPart& part : work) {
    const Key key{part.micro_batch, part.chunk};
    bool in_turn = false;
    if (part.part == PartKind::kForward) {
      in_turn = seen.emplace(key, 1).second;
    } else if (part.part == PartKind::kBackward) {
      const auto known = seen.find(key);
      in_turn = known != seen.end() && known->second++ == 1;
      backwards[part.chunk].push_back(part.micro_batch);
    } else if (part.part == PartKind::kBackwardWeight) {
      const std::vector<int>& over = backwards[part.chunk];
      const std::size_t next = weights[part.chunk]++;
      in_turn = next < over.size() && over[next] == part.micro_batch;
    }
    if (in_turn) continue;
    throw InternalError(fmt::format("a schedule runs {} of micro-batch {}, chunk {} out of turn",
                                    name_of(part.part), part.micro_batch, part.chunk));
  }
  for (const auto& [key, times] : seen) {
    if (times == 2) continue;
    throw InternalError("a schedule leaves a micro-batch without its backward");
  }
  for (const auto& [chunk, times] : weights) {
    if (times == backwards[chunk].size()) continue;
    throw InternalError("a schedule leaves a micro-batch without its weight gradients");
  }
}

// Returns, by entry, whether it is the last of its kind in its chunk.
std::vector<char> last_of(std::span<const ScheduledPart> work, PartKind kind) {
  std::vector<char> is_last(work.size(), 0);
  std::vector<std::uint16_t> seen;  // chunks, from the end
  for (std::size_t i = work.size(); i-- > 0;) {
    const ScheduledPart& part = work[i];
    if (part.part != kind) continue;
    if (std::find(seen.begin(), seen.end(), part.chunk) != seen.end()) continue;
    seen.push_back(part.chunk);
    is_last[i] = 1;
  }
  return is_last;
}

// Replaces each backward, or each of the parts with weight gradients, by the form that it has at
// its place: the first that makes gradients, one that adds to them, the last that reduces them.
void choose_forms(const TrainingGraph& graph, PartKind kind, bool gradients_exist,
                  std::span<ScheduledPart> work) {
  const bool of_weights = is_weight_backward(kind);
  const auto form = [&](PartKind backward) {
    return of_weights ? weight_part_of(backward) : backward;
  };
  // A backward that differs in nothing has one form; its weight part is then alike.
  const auto exists = [&](PartKind backward, std::uint16_t chunk) {
    return !graph.part(backward, chunk).empty() ||
           !graph.part(weight_part_of(backward), chunk).empty();
  };
  const std::vector<char> is_last = last_of(work, kind);
  std::vector<std::uint16_t> begun;  // chunks whose gradients exist
  for (std::size_t i = 0; i < work.size(); ++i) {
    ScheduledPart& part = work[i];
    if (part.part != kind) continue;
    const bool first = std::find(begun.begin(), begun.end(), part.chunk) == begun.end();
    const bool differs = exists(PartKind::kBackwardAccumulate, part.chunk);
    if ((!first || gradients_exist) && differs) part.part = form(PartKind::kBackwardAccumulate);
    const bool reduces = exists(PartKind::kBackwardReduce, part.chunk);
    if (is_last[i] != 0 && reduces) part.part = form(PartKind::kBackwardReduce);
    if (first) begun.push_back(part.chunk);
  }
}

// Replaces the forwards of a chunk behind its first one by the form that later ones have.
void choose_forward_forms(const TrainingGraph& graph, std::span<ScheduledPart> work) {
  std::vector<std::uint16_t> begun;  // chunks
  for (ScheduledPart& part : work) {
    if (part.part != PartKind::kForward) continue;
    if (std::find(begun.begin(), begun.end(), part.chunk) == begun.end()) {
      begun.push_back(part.chunk);
    } else if (!graph.part(PartKind::kForwardLater, part.chunk).empty()) {
      part.part = PartKind::kForwardLater;
    }
  }
}

// Replaces the backwards of step 0 that differ from those of later steps.
void choose_first_forms(const TrainingGraph& graph, std::vector<ScheduledPart>& parts) {
  std::vector<std::uint16_t> reduced;  // chunks, from the end
  for (std::size_t i = parts.size(); i-- > 0;) {
    ScheduledPart& part = parts[i];
    if (!is_backward(part.part)) continue;
    const bool is_last = std::find(reduced.begin(), reduced.end(), part.chunk) == reduced.end();
    if (is_last) reduced.push_back(part.chunk);
    if (is_last && !graph.part(PartKind::kBackwardReduceFirst, part.chunk).empty()) {
      part.part = PartKind::kBackwardReduceFirst;
    } else if (part.part == PartKind::kBackward &&
               !graph.part(PartKind::kBackwardFirst, part.chunk).empty()) {
      part.part = PartKind::kBackwardFirst;
    }
  }
}

// Returns the parts of a turn of a step, which is the whole step where there is but one. `work`
// names the forwards and backwards of micro-batches `first` to `last`.
std::vector<ScheduledPart> training_turn(const TrainingGraph& graph,
                                         std::span<const ScheduledPart> work, int first, int last,
                                         int step, int turn) {
  const auto chunk = static_cast<std::uint16_t>(turn);
  const bool gradients_exist = graph.gradients_persist && step > 0;
  std::vector<ScheduledPart> parts;
  parts.reserve(work.size() + 4);
  // Filling gradients with zeros needs gradients.
  if (!graph.gradients_persist || gradients_exist)
    parts.push_back(scheduled(PartKind::kZeroGrad, first, turn));
  const std::size_t before = parts.size();
  parts.insert(parts.end(), work.begin(), work.end());
  choose_forward_forms(graph, std::span(parts).subspan(before));
  for (const PartKind kind : {PartKind::kBackward, PartKind::kBackwardWeight})
    choose_forms(graph, kind, gradients_exist, std::span(parts).subspan(before));
  if (step == 0) choose_first_forms(graph, parts);
  const auto append = [&](PartKind kind) { parts.push_back(scheduled(kind, last, turn)); };
  if (!graph.part(PartKind::kBeforeOptimizer, chunk).empty()) append(PartKind::kBeforeOptimizer);
  if (step == graph.skipped_updates) append(PartKind::kOptimizerFirst);
  if (step >= graph.skipped_updates) append(PartKind::kOptimizer);
  if (!graph.part(PartKind::kAfterOptimizer, chunk).empty()) append(PartKind::kAfterOptimizer);
  append(PartKind::kEndOfStep);
  return parts;
}

// Returns the schedule whose step number n is `step_of(n)`.
template <class StepOf>
StepSchedule schedule_of_steps(const TrainingGraph& graph, int micro_batches, StepOf step_of) {
  StepSchedule schedule{.micro_batches = micro_batches};
  const int first = graph.skipped_updates;
  for (int step = 0; step < first; ++step)
    schedule.skipped_steps.push_back(step_of(step));
  schedule.first_step = step_of(first);
  schedule.later_steps = step_of(first + 1);
  return schedule;
}

// Returns the turns of a step one after another.
std::vector<ScheduledPart> step_of_turns(const TrainingGraph& graph, int step) {
  std::vector<ScheduledPart> parts;
  for (int turn = 0; turn < graph.turns; ++turn) {
    const int first = turn * graph.micro_batches;
    std::vector<ScheduledPart> work = one_after_another(graph.micro_batches);
    for (ScheduledPart& part : work)
      part = scheduled(part.part, part.micro_batch + first, turn);
    const std::vector<ScheduledPart> own =
        training_turn(graph, work, first, first + graph.micro_batches - 1, step, turn);
    parts.insert(parts.end(), own.begin(), own.end());
  }
  return parts;
}

}  // namespace
}  // namespace schedule_detail

std::vector<ScheduledPart> one_after_another(int micro_batches) {
  std::vector<ScheduledPart> work;
  work.reserve(static_cast<std::size_t>(micro_batches) * 2);
  for (int m = 0; m < micro_batches; ++m) {
    work.push_back(schedule_detail::scheduled(PartKind::kForward, m));
    work.push_back(schedule_detail::scheduled(PartKind::kBackward, m));
  }
  return work;
}

std::vector<ScheduledPart> gpipe(int micro_batches) {
  std::vector<ScheduledPart> work;
  work.reserve(static_cast<std::size_t>(micro_batches) * 2);
  for (PartKind part : {PartKind::kForward, PartKind::kBackward}) {
    for (int m = 0; m < micro_batches; ++m)
      work.push_back(schedule_detail::scheduled(part, m));
  }
  return work;
}

std::vector<ScheduledPart> one_forward_one_backward(int stages, int stage, int micro_batches) {
  const int under_way = std::min(micro_batches, stages - stage - 1);
  std::vector<ScheduledPart> work;
  work.reserve(static_cast<std::size_t>(micro_batches) * 2);
  for (int m = 0; m < micro_batches + under_way; ++m) {
    if (m < micro_batches) work.push_back(schedule_detail::scheduled(PartKind::kForward, m));
    if (m >= under_way)
      work.push_back(schedule_detail::scheduled(PartKind::kBackward, m - under_way));
  }
  return work;
}

StepSchedule training_schedule(const TrainingGraph& graph, std::span<const ScheduledPart> work) {
  schedule_detail::check_work(work);
  int last = 0;
  for (const ScheduledPart& part : work)
    last = std::max<int>(last, part.micro_batch);
  return schedule_detail::schedule_of_steps(graph, last + 1, [&](int step) {
    return schedule_detail::training_turn(graph, work, 0, last, step, 0);
  });
}

StepSchedule training_schedule(const TrainingGraph& graph) {
  if (graph.turns > 1) {
    return schedule_detail::schedule_of_steps(
        graph, graph.turns * graph.micro_batches,
        [&](int step) { return schedule_detail::step_of_turns(graph, step); });
  }
  return training_schedule(graph, one_after_another(graph.micro_batches));
}

StepSchedule forward_schedule(const TrainingGraph& graph) {
  return forward_schedule(graph, one_after_another(graph.micro_batches));
}

StepSchedule forward_schedule(const TrainingGraph& graph, std::span<const ScheduledPart> work) {
  std::vector<ScheduledPart> parts;
  parts.reserve(work.size() + 1);
  for (const ScheduledPart& part : work) {
    if (part.part == PartKind::kForward) parts.push_back(part);
  }
  parts.push_back(schedule_detail::scheduled(PartKind::kEndOfStep, graph.micro_batches - 1));
  return {.first_step = parts,
          .later_steps = parts,
          .micro_batches = graph.micro_batches,
          .skipped_steps = {}};
}

}  // namespace tidemark
