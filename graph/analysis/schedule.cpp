#include "graph/analysis/schedule.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace schedule_detail {
namespace {

ScheduledPart scheduled(PartKind part, int micro_batch) {
  return {.part = part, .micro_batch = static_cast<std::uint16_t>(micro_batch)};
}

// Checks that each micro-batch goes through each chunk forward once and then backward once.
void check_work(std::span<const ScheduledPart> work) {
  enum class Seen { kForward, kBoth };
  std::map<std::pair<int, int>, Seen> seen;  // by micro-batch and chunk
  std::size_t complete = 0;
  for (const ScheduledPart& part : work) {
    const std::pair<int, int> key{part.micro_batch, part.chunk};
    const auto known = seen.find(key);
    const bool forward = part.part == PartKind::kForward && known == seen.end();
    const bool backward =
        part.part == PartKind::kBackward && known != seen.end() && known->second == Seen::kForward;
    if (!forward && !backward) {
      throw InternalError(fmt::format("a schedule runs {} of micro-batch {}, chunk {} out of turn",
                                      name_of(part.part), part.micro_batch, part.chunk));
    }
    seen[key] = forward ? Seen::kForward : Seen::kBoth;
    if (backward) ++complete;
  }
  if (complete != seen.size()) {
    throw InternalError("a schedule leaves a micro-batch without its backward");
  }
}

// Returns, by entry, whether it is the last backward of its chunk in the step.
std::vector<char> last_backwards(std::span<const ScheduledPart> work) {
  std::vector<char> is_last(work.size(), 0);
  std::vector<std::uint16_t> seen;  // chunks, from the end
  for (std::size_t i = work.size(); i-- > 0;) {
    const ScheduledPart& part = work[i];
    if (part.part != PartKind::kBackward) continue;
    if (std::find(seen.begin(), seen.end(), part.chunk) != seen.end()) continue;
    seen.push_back(part.chunk);
    is_last[i] = 1;
  }
  return is_last;
}

std::vector<ScheduledPart> training_step(const TrainingGraph& graph,
                                         std::span<const ScheduledPart> work, int last, int step) {
  const bool gradients_exist = graph.gradients_persist && step > 0;
  std::vector<ScheduledPart> parts;
  parts.reserve(work.size() + 4);
  // Filling gradients with zeros needs gradients.
  if (!graph.gradients_persist || gradients_exist)
    parts.push_back(scheduled(PartKind::kZeroGrad, 0));
  std::vector<std::uint16_t> begun;  // chunks whose gradients exist
  const std::vector<char> is_last = last_backwards(work);
  for (std::size_t i = 0; i < work.size(); ++i) {
    ScheduledPart part = work[i];
    if (part.part == PartKind::kBackward) {
      const bool first = std::find(begun.begin(), begun.end(), part.chunk) == begun.end();
      const bool differs = !graph.part(PartKind::kBackwardAccumulate, part.chunk).empty();
      if ((!first || gradients_exist) && differs) part.part = PartKind::kBackwardAccumulate;
      const bool reduces = !graph.part(PartKind::kBackwardReduce, part.chunk).empty();
      if (is_last[i] != 0 && reduces) part.part = PartKind::kBackwardReduce;
      if (first) begun.push_back(part.chunk);
    }
    parts.push_back(part);
  }
  if (step == 0) parts.push_back(scheduled(PartKind::kOptimizerFirst, last));
  parts.push_back(scheduled(PartKind::kOptimizer, last));
  if (!graph.part(PartKind::kAfterOptimizer).empty())
    parts.push_back(scheduled(PartKind::kAfterOptimizer, last));
  parts.push_back(scheduled(PartKind::kEndOfStep, last));
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
  return {.first_step = schedule_detail::training_step(graph, work, last, 0),
          .later_steps = schedule_detail::training_step(graph, work, last, 1),
          .micro_batches = last + 1};
}

StepSchedule training_schedule(const TrainingGraph& graph) {
  return training_schedule(graph, one_after_another(graph.micro_batches));
}

StepSchedule forward_schedule(const TrainingGraph& graph) {
  std::vector<ScheduledPart> parts;
  parts.reserve(static_cast<std::size_t>(graph.micro_batches) + 1);
  for (int m = 0; m < graph.micro_batches; ++m)
    parts.push_back(schedule_detail::scheduled(PartKind::kForward, m));
  parts.push_back(schedule_detail::scheduled(PartKind::kEndOfStep, graph.micro_batches - 1));
  return {.first_step = parts, .later_steps = parts, .micro_batches = graph.micro_batches};
}

}  // namespace tidemark
