// The allocator `ideal`.
#include "sim/allocators/entries.hpp"
#include "sim/allocators/make_calls_on.hpp"
#include "sim/allocators/run_on.hpp"
#include "sim/engine/event_loop_run.hpp"
#include "sim/memory/ideal_allocator.hpp"

namespace tidemark {

template RunResult run(const StepProgram&, const CostTable&, IdealAllocator&, Scratch&,
                       const RunOptions&);
template std::vector<RunResult> run(std::span<const Rank<IdealAllocator>>);

namespace ideal_detail {
namespace {

constexpr AllocatorTraits kIdealTraits{
    .name = "ideal",
    .version = {},
    .summary =
        "live bytes only: no rounding, no fragmentation, no CUDA context; the least that "
        "any needs",
    .rounding = {},
    .has_overhead = false,
    .has_addresses = false,
    .has_segments = false};

class IdealModel final : public AllocatorModel {
 public:
  [[nodiscard]] const AllocatorTraits& traits() const override { return kIdealTraits; }
  RunResult run(const AllocatorRun& run, OutOfMemory* failure) const override {
    return run_and_keep<IdealAllocator>(run, failure, at_least_none(run.capacity));
  }
  [[nodiscard]] std::optional<CalledSteps> make_calls(const CallRun& on) const override {
    return make_calls_on(IdealAllocator(at_least_none(on.capacity)), on);
  }
  [[nodiscard]] std::vector<RunResult> run_ranks(std::span<const AllocatorRun> ranks,
                                                 std::span<OutOfMemory> failures) const override {
    return run_ranks_on(ranks, failures, [](const AllocatorRun& run) {
      return std::make_unique<IdealAllocator>(at_least_none(run.capacity));
    });
  }
};

}  // namespace
}  // namespace ideal_detail

const AllocatorTraits& ideal_traits() {
  return ideal_detail::kIdealTraits;
}

AllocatorEntry ideal_allocator_entry() {
  return {.traits = ideal_detail::kIdealTraits,
          .decode = [](const Decoder& /*allocator*/) -> std::unique_ptr<const AllocatorModel> {
            return std::make_unique<ideal_detail::IdealModel>();
          },
          .forms = {}};
}

}  // namespace tidemark
