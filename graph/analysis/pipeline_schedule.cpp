#include "graph/analysis/pipeline_schedule.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace pipeline_schedule_detail {
namespace {

ScheduledPart scheduled(PartKind part, int micro_batch, int chunk) {
  return {.part = part,
          .micro_batch = static_cast<std::uint16_t>(micro_batch),
          .chunk = static_cast<std::uint16_t>(chunk)};
}

// Appends parts of chunks in the order of their micro-batches; those beyond the last micro-batch
// are left out, which is how an order for many becomes one for few.
class OrderWriter {
 public:
  OrderWriter(int chunks, int micro_batches)
      : micro_batches_(micro_batches), next_(static_cast<std::size_t>(chunks)) {}

  void forward(int chunk) { add(PartKind::kForward, chunk, 0); }
  void backward(int chunk) { add(PartKind::kBackward, chunk, 1); }
  void weights(int chunk) { add(PartKind::kBackwardWeight, chunk, 2); }
  [[nodiscard]] int forwards(int chunk) const { return next_[static_cast<std::size_t>(chunk)][0]; }
  [[nodiscard]] int backwards(int chunk) const { return next_[static_cast<std::size_t>(chunk)][1]; }
  [[nodiscard]] int weights_done(int chunk) const {
    return next_[static_cast<std::size_t>(chunk)][2];
  }
  [[nodiscard]] std::vector<ScheduledPart> work() && { return std::move(work_); }

 private:
  void add(PartKind part, int chunk, std::size_t kind) {
    const int micro_batch = next_[static_cast<std::size_t>(chunk)][kind]++;
    if (micro_batch < micro_batches_) work_.push_back(scheduled(part, micro_batch, chunk));
  }

  int micro_batches_;
  std::vector<std::array<int, 3>> next_;  // by chunk: the next micro-batch of each kind of part
  std::vector<ScheduledPart> work_;
};

// A forward of an interleaved schedule; its backward goes through the chunks the other way round.
struct ChunkForward {
  int micro_batch = 0;
  int chunk = 0;
};

// Returns the order in which micro-batches go through the chunks of a rank: a group of them through
// each chunk in turn.
std::vector<ChunkForward> grouped_forwards(int chunks, int micro_batches, int group) {
  std::vector<ChunkForward> forwards;
  for (int first = 0; first < micro_batches; first += group) {
    const int end = std::min(first + group, micro_batches);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (int m = first; m < end; ++m)
        forwards.push_back({m, chunk});
    }
  }
  return forwards;
}

}  // namespace
}  // namespace pipeline_schedule_detail

std::vector<ChunkPlace> chunk_places(int stages, int chunks, bool in_v) {
  std::vector<ChunkPlace> places;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const bool backwards = in_v && chunk % 2 != 0;
    for (int rank = 0; rank < stages; ++rank)
      places.push_back({.rank = backwards ? stages - 1 - rank : rank, .chunk = chunk});
  }
  return places;
}

bool can_interleave(int stages, int micro_batches, int group) {
  const int left = micro_batches % group;
  return stages <= group && group <= micro_batches && (left == 0 || left >= stages);
}

std::vector<ScheduledPart> interleaved_1f1b(int stages, int chunks, int stage, int micro_batches,
                                            int group) {
  const std::vector<pipeline_schedule_detail::ChunkForward> order =
      pipeline_schedule_detail::grouped_forwards(chunks, micro_batches, group);
  const int total = static_cast<int>(order.size());
  const int under_way = std::min(total, 2 * (stages - stage - 1) + (chunks - 1) * group);
  std::vector<ScheduledPart> work;
  work.reserve(order.size() * 2);
  for (int i = 0; i < total + under_way; ++i) {
    if (i < total) {
      const auto& at = order[static_cast<std::size_t>(i)];
      work.push_back(
          pipeline_schedule_detail::scheduled(PartKind::kForward, at.micro_batch, at.chunk));
    }
    if (i >= under_way) {
      const auto& at = order[static_cast<std::size_t>(i - under_way)];
      work.push_back(pipeline_schedule_detail::scheduled(PartKind::kBackward, at.micro_batch,
                                                         chunks - 1 - at.chunk));
    }
  }
  return work;
}

std::vector<ScheduledPart> zero_bubble_h1(int stages, int stage, int micro_batches) {
  pipeline_schedule_detail::OrderWriter order(1, micro_batches);
  for (int i = 0; i < std::min(micro_batches, stages - stage - 1); ++i)
    order.forward(0);
  while (order.forwards(0) < micro_batches) {
    order.forward(0);
    order.backward(0);
    if (order.backwards(0) - order.weights_done(0) > stage) order.weights(0);
  }
  // The gaps between the last backwards are as long as the weight gradients of one micro-batch.
  while (order.backwards(0) < micro_batches) {
    order.backward(0);
    order.weights(0);
  }
  while (order.weights_done(0) < micro_batches)
    order.weights(0);
  return std::move(order).work();
}

std::vector<ScheduledPart> zero_bubble_v(int stages, int stage, int micro_batches) {
  // With fewer micro-batches than fill the pipeline, those that are missing leave gaps.
  const int filled = std::max(2 * stages - 1, micro_batches);
  pipeline_schedule_detail::OrderWriter order(2, micro_batches);
  const auto finish_second = [&] {
    order.forward(1);
    order.backward(1);
    order.weights(1);
  };
  for (int i = 0; i < 2 * (stages - stage) - 1; ++i)
    order.forward(0);
  for (int i = 0; i < stage; ++i) {
    order.forward(1);
    order.forward(0);
  }
  for (int i = 0; i < stages - stage; ++i)
    finish_second();
  while (order.forwards(1) < order.forwards(0) || order.forwards(0) < filled) {
    if (order.forwards(0) < filled) order.forward(0);
    order.backward(0);
    order.weights(0);
    finish_second();
  }
  for (int i = 0; i < stage; ++i) {
    order.backward(0);
    order.backward(1);
  }
  for (int i = 0; i < stages - stage; ++i) {
    order.backward(0);
    order.weights(0);
  }
  for (const int chunk : {1, 0}) {
    while (order.weights_done(chunk) < filled)
      order.weights(chunk);
  }
  return std::move(order).work();
}

std::vector<ScheduledPart> pipeline_schedule(PipelineOrder order, int stages, int chunks, int stage,
                                             int micro_batches, int group) {
  switch (order) {
    case PipelineOrder::kGpipe:
      return gpipe(micro_batches);
    case PipelineOrder::k1F1B:
      return one_forward_one_backward(stages, stage, micro_batches);
    case PipelineOrder::kInterleaved:
      return interleaved_1f1b(stages, chunks, stage, micro_batches, group);
    case PipelineOrder::kZeroBubbleH1:
      return zero_bubble_h1(stages, stage, micro_batches);
    case PipelineOrder::kZeroBubbleV:
      return zero_bubble_v(stages, stage, micro_batches);
  }
  throw InternalError("an order of a pipeline that is not known");
}

std::string order_text(std::span<const ScheduledPart> work, bool with_chunks) {
  std::string text;
  for (const ScheduledPart& part : work) {
    if (!text.empty()) text += ' ';
    text += fmt::format("{}{}", letter_of(stage_work_of(part.part).value()), part.micro_batch);
    if (with_chunks) text += fmt::format(".{}", part.chunk);
  }
  return text;
}

int most_in_flight(std::span<const ScheduledPart> work) {
  int most = 0;
  int now = 0;
  const bool evaluates = std::none_of(
      work.begin(), work.end(), [](const ScheduledPart& part) { return is_backward(part.part); });
  for (const ScheduledPart& part : work) {
    if (part.part == PartKind::kForward) ++now;
    most = std::max(most, now);
    if (is_backward(part.part) || evaluates) --now;
  }
  return most;
}

}  // namespace tidemark
