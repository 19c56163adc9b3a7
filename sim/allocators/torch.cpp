// The allocator `torch`.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "sim/allocators/entries.hpp"
#include "sim/allocators/make_calls_on.hpp"
#include "sim/allocators/run_on.hpp"
#include "sim/engine/event_loop_run.hpp"
#include "sim/memory/torch/torch_allocator.hpp"
#include "sim/memory/torch/torch_recorder.hpp"

namespace tidemark {

template RunResult run(const StepProgram&, const CostTable&, TorchAllocator&, Scratch&,
                       const RunOptions&);
template std::vector<RunResult> run(std::span<const Rank<TorchAllocator>>);
template RunResult run(const StepProgram&, const CostTable&, TorchRecorder&, Scratch&,
                       const RunOptions&);

namespace torch_detail {
namespace {

constexpr AllocatorTraits kTorchTraits{
    .name = "torch",
    .version = kTorchAllocatorVersion,
    .summary =
        "PyTorch 2.4's caching allocator: rounding, pools, splitting, segments, retries "
        "(default)",
    .rounding = "blocks are multiples of 512 bytes, and not always split",
    .keeps_torch_history = true};

// Entries about blocks come in the order of the timeline's points; a free that nothing delays is
// two entries and one point. Entries about segments belong to the call after them.
AddressLayout layout_of(const TorchRecorder& recorder, const MemoryTimeline& timeline) {
  AddressLayout layout;
  SegmentHistory segments(layout);
  std::size_t point = 0;
  AllocationId freed;  // freed by the entry before
  for (const TorchTraceEntry& entry : recorder.entries()) {
    switch (entry.action) {
      case TorchTraceAction::kSegmentAlloc:
      case TorchTraceAction::kSegmentMap:
        segments.open(entry.address, entry.size, point);
        break;
      case TorchTraceAction::kSegmentFree:
      case TorchTraceAction::kSegmentUnmap:
        segments.close(entry.address, entry.size, point);
        break;
      case TorchTraceAction::kOutOfMemory:
        break;
      default: {
        const bool completes =
            entry.action == TorchTraceAction::kFreeCompleted && entry.allocation == freed;
        if (completes) break;
        std::size_t found = point;
        while (found < timeline.points.size() &&
               timeline.points[found].allocation != entry.allocation)
          ++found;
        // Under eviction a block may be given back without a point of the timeline: the next one is
        // that of its next allocation.
        const bool allocates = entry.action == TorchTraceAction::kAlloc;
        const bool there =
            found < timeline.points.size() && (timeline.points[found].sign > 0) == allocates;
        if (!there) {
          if (!allocates) break;
          throw InternalError("the allocator's trace and the timeline are not of the same run");
        }
        if (allocates) layout.addresses.push_back(entry.address);
        point = found + 1;
      }
    }
    freed = entry.action == TorchTraceAction::kFreeRequested ? entry.allocation : AllocationId();
  }
  segments.finish(timeline.points.size());
  return layout;
}

class TorchModel final : public AllocatorModel {
 public:
  explicit TorchModel(const TorchAllocatorOptions& options) : options_(options) {}

  [[nodiscard]] const AllocatorTraits& traits() const override { return kTorchTraits; }
  RunResult run(const AllocatorRun& run, OutOfMemory* failure) const override {
    if (options_.cuda_graph) {  // further steps are replays of what the last one captures
      return run_on(TorchAllocator(run.capacity, options_, run.process_overhead), run, failure);
    }
    return run_and_keep<TorchAllocator>(run, failure, run.capacity, options_, run.process_overhead);
  }
  [[nodiscard]] std::vector<RunResult> run_ranks(std::span<const AllocatorRun> ranks,
                                                 std::span<OutOfMemory> failures) const override {
    return run_ranks_on(ranks, failures, [&](const AllocatorRun& run) {
      return std::make_unique<TorchAllocator>(run.capacity, options_, run.process_overhead);
    });
  }
  // A CUDA graph is captured in the last step only.
  [[nodiscard]] std::optional<CalledSteps> make_calls(const CallRun& on) const override {
    if (options_.cuda_graph) return std::nullopt;
    return make_calls_on(TorchAllocator(on.capacity, options_, on.process_overhead), on);
  }
  [[nodiscard]] bool needs_what_it_reserves() const override {
    return !options_.memory_fraction && !options_.expandable_segments;
  }
  [[nodiscard]] double memory_fraction() const override {
    return options_.memory_fraction.value_or(1);
  }
  // PyTorch's fraction is a share of the whole device.
  [[nodiscard]] Bytes allowed(Bytes capacity, Bytes process_overhead) const override {
    const double allowed = memory_fraction() * static_cast<double>(capacity.count);
    return std::min(capacity - process_overhead, Bytes(static_cast<std::int64_t>(allowed)));
  }
  [[nodiscard]] std::vector<AllocatorChange> changes() const override;
  [[nodiscard]] bool expands_segments() const override { return options_.expandable_segments; }
  // CUDACachingAllocator::malloc collects garbage only once set_per_process_memory_fraction ran.
  [[nodiscard]] std::string_view remark() const override {
    const bool idle = options_.garbage_collection_threshold > 0 && !options_.memory_fraction;
    return idle ? "garbage_collection_threshold does nothing without memory_fraction: PyTorch "
                  "collects only where set_per_process_memory_fraction was called"
                : std::string_view();
  }
  [[nodiscard]] bool captures_last_step() const override { return options_.cuda_graph; }
  [[nodiscard]] AddressLayout layout(const AllocatorRun& run,
                                     const MemoryTimeline& timeline) const override {
    return layout_of(*run_recorded(run), timeline);
  }
  [[nodiscard]] std::unique_ptr<const TorchRecorder> run_recorded(
      const AllocatorRun& run) const override {
    auto recorder = std::make_unique<TorchRecorder>(run.capacity, options_, run.process_overhead);
    recorder->reserve(run.program.allocations.size());
    use_pools(*recorder, run.program);
    static_cast<void>(tidemark::run(run.program, run.costs, *recorder, run.scratch, run.options));
    return recorder;
  }

 private:
  TorchAllocatorOptions options_;
};

AllocatorSetting setting(std::string key, std::string value) {
  return {.key = std::move(key),
          .value = {.kind = Value::Kind::kScalar, .scalar = std::move(value)}};
}

std::vector<AllocatorChange> TorchModel::changes() const {
  std::vector<AllocatorChange> changes;
  const auto add = [&](std::string text, std::vector<AllocatorSetting> settings,
                       std::string_view option) {
    changes.push_back(
        {std::move(text), std::move(settings), fmt::format("PYTORCH_CUDA_ALLOC_CONF={}", option)});
  };
  if (!options_.expandable_segments) {
    add("expandable_segments", {setting("expandable_segments", "true")},
        "expandable_segments:True");
  }
  for (const int mebibytes : {512, 128, 32}) {
    if (options_.max_split_size <= mebibytes * kMiB) continue;
    add(fmt::format("max_split_size {} MiB", mebibytes),
        {setting("max_split_size", fmt::format("{}MiB", mebibytes))},
        fmt::format("max_split_size_mb:{}", mebibytes));
  }
  if (options_.roundup_power2_divisions == RoundupDivisions{}) {
    add("roundup_power2_divisions 8", {setting("roundup_power2_divisions", "8")},
        "roundup_power2_divisions:8");
  }
  if (options_.garbage_collection_threshold == 0) {
    std::vector<AllocatorSetting> collects{setting("garbage_collection_threshold", "0.8")};
    // PyTorch collects only under a memory fraction.
    if (!options_.memory_fraction) collects.push_back(setting("memory_fraction", "1.0"));
    add("garbage_collection_threshold 0.8", std::move(collects),
        "garbage_collection_threshold:0.8");
  }
  return changes;
}

}  // namespace
}  // namespace torch_detail

AllocatorEntry torch_allocator_entry() {
  return {.traits = torch_detail::kTorchTraits,
          .decode = [](const Decoder& allocator) -> std::unique_ptr<const AllocatorModel> {
            return std::make_unique<torch_detail::TorchModel>(decode_torch_options(allocator));
          },
          .forms = {
              {"conf",
               "as PYTORCH_CUDA_ALLOC_CONF: \"max_split_size_mb:128,expandable_segments:True\"; a "
               "key beside it wins over the same option in it"},
              {"roundup_power2_divisions", kRoundupForms}}};
}

}  // namespace tidemark
