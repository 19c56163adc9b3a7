// The allocator `packed`.
#include "sim/allocators/entries.hpp"
#include "sim/allocators/run_on.hpp"
#include "sim/engine/event_loop_run.hpp"
#include "sim/memory/packing/packed_allocator.hpp"

namespace tidemark {

template RunResult run(const StepProgram&, const CostTable&, PackedAllocator&, Scratch&,
                       const RunOptions&);
template std::vector<RunResult> run(std::span<const Rank<PackedAllocator>>);

namespace packed_detail {
namespace {

constexpr AllocatorTraits kPackedTraits{
    .name = "packed",
    .version = {},
    .summary =
        "addresses planned for the whole step ahead of time; no rounding beyond 512 bytes, "
        "no cache",
    .rounding = "places are multiples of 512 bytes",
    .has_segments = false,
    .plans_ahead = true};

class PackedModel final : public AllocatorModel {
 public:
  [[nodiscard]] const AllocatorTraits& traits() const override { return kPackedTraits; }
  RunResult run(const AllocatorRun& run, OutOfMemory* failure) const override {
    return run_on(PackedAllocator(run.placement, at_least_none(run.capacity)), run, failure);
  }
  [[nodiscard]] std::vector<RunResult> run_ranks(std::span<const AllocatorRun> ranks,
                                                 std::span<OutOfMemory> failures) const override {
    return run_ranks_on(ranks, failures, [](const AllocatorRun& run) {
      return std::make_unique<PackedAllocator>(run.placement, at_least_none(run.capacity));
    });
  }
  [[nodiscard]] PackedPlacement place(const StepProgram& program) const override {
    return place_program(program);
  }
  // Returns one region, as high as the plan.
  [[nodiscard]] AddressLayout layout(const AllocatorRun& run,
                                     const MemoryTimeline& timeline) const override {
    AddressLayout layout;
    for (const TimelinePoint& point : timeline.points) {
      if (point.sign > 0) layout.addresses.push_back(run.placement.address[point.allocation]);
    }
    layout.segments.push_back({.address = {},
                               .bytes = run.placement.height,
                               .since = 0,
                               .until = timeline.points.size()});
    return layout;
  }
};

}  // namespace
}  // namespace packed_detail

AllocatorEntry packed_allocator_entry() {
  return {.traits = packed_detail::kPackedTraits,
          .decode = [](const Decoder& /*allocator*/) -> std::unique_ptr<const AllocatorModel> {
            return std::make_unique<packed_detail::PackedModel>();
          },
          .forms = {}};
}

}  // namespace tidemark
