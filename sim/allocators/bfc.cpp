// The allocator `bfc`.
#include "graph/core/errors.hpp"
#include "sim/allocators/entries.hpp"
#include "sim/allocators/make_calls_on.hpp"
#include "sim/allocators/run_on.hpp"
#include "sim/engine/event_loop_run.hpp"
#include "sim/memory/bfc_allocator.hpp"

namespace tidemark {

template RunResult run(const StepProgram&, const CostTable&, BfcAllocator&, Scratch&,
                       const RunOptions&);
template std::vector<RunResult> run(std::span<const Rank<BfcAllocator>>);

namespace bfc_detail {
namespace {

constexpr AllocatorTraits kBfcTraits{
    .name = "bfc",
    .version = {},
    .summary = "best fit with coalescing, as TensorFlow and XLA",
    .rounding = "blocks are multiples of 256 bytes, and not always split",
    .grows_by_doubling = true};

// Returns the regions by address, from their first chunk to their last.
std::map<Bytes, Bytes> regions_of(const BfcAllocator& allocator) {
  std::map<Bytes, Bytes> regions;
  allocator.for_each_chunk([&](const BfcChunk& chunk) {
    if (chunk.previous != nullptr) return;
    Bytes bytes;
    for (const BfcChunk* part = &chunk; part != nullptr; part = part->next)
      bytes += part->size;
    regions.emplace(chunk.address, bytes);
  });
  return regions;
}

class BfcModel final : public AllocatorModel {
 public:
  explicit BfcModel(const BfcOptions& options) : options_(options) {}

  [[nodiscard]] const AllocatorTraits& traits() const override { return kBfcTraits; }
  RunResult run(const AllocatorRun& run, OutOfMemory* failure) const override {
    return run_and_keep<BfcAllocator>(run, failure, at_least_none(run.capacity),
                                      options_for(run.capacity));
  }
  [[nodiscard]] std::optional<CalledSteps> make_calls(const CallRun& on) const override {
    return make_calls_on(BfcAllocator(at_least_none(on.capacity), options_for(on.capacity)), on);
  }
  [[nodiscard]] std::vector<RunResult> run_ranks(std::span<const AllocatorRun> ranks,
                                                 std::span<OutOfMemory> failures) const override {
    return run_ranks_on(ranks, failures, [&](const AllocatorRun& run) {
      return std::make_unique<BfcAllocator>(at_least_none(run.capacity), options_for(run.capacity));
    });
  }
  // The first region may take the whole device.
  [[nodiscard]] bool needs_what_it_reserves() const override { return false; }
  [[nodiscard]] double memory_fraction() const override { return options_.memory_fraction; }
  // TensorFlow's fraction is a share of what the context leaves.
  [[nodiscard]] Bytes allowed(Bytes capacity, Bytes process_overhead) const override {
    const Bytes left = capacity - process_overhead;
    const double allowed = options_.memory_fraction * static_cast<double>(left.count);
    return std::min(left, Bytes(static_cast<std::int64_t>(allowed)));
  }
  [[nodiscard]] AddressLayout layout(const AllocatorRun& run,
                                     const MemoryTimeline& timeline) const override;

 private:
  // Without a limit there is no whole to take at first, so regions grow.
  [[nodiscard]] BfcOptions options_for(Bytes capacity) const {
    BfcOptions options = options_;
    options.allow_growth = options.allow_growth || capacity >= kUnlimited;
    return options;
  }

  BfcOptions options_;
};

// The points of a timeline are the calls that the allocator got, in their order. A fresh allocator
// that gets the same calls therefore places allocations where the run's own did.
AddressLayout BfcModel::layout(const AllocatorRun& run, const MemoryTimeline& timeline) const {
  AddressLayout layout;
  const std::vector<TimelinePoint>& points = timeline.points;
  // A free that waits for streams is followed by a point of sign 0.
  std::vector<bool> waits(points.size());
  IdVector<AllocationId, bool> returns(run.program.allocations.size());
  for (std::size_t i = points.size(); i-- > 0;) {
    if (points[i].sign < 0) waits[i] = returns[points[i].allocation];
    returns[points[i].allocation] = points[i].sign == 0;
  }
  BfcAllocator allocator(at_least_none(run.capacity), options_for(run.capacity));
  allocator.reserve(run.program.allocations.size());
  SegmentHistory segments(layout);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const AllocationId allocation = points[i].allocation;
    const Bytes reserved = allocator.reserved();
    if (points[i].sign < 0 && waits[i]) {
      allocator.defer_free(allocation);
    } else if (points[i].sign <= 0) {
      allocator.free(allocation);
    } else if (!allocator.allocate(allocation, run.program.allocations[allocation].bytes).ok) {
      throw InternalError("the timeline is not of a run with this allocator");
    } else {
      layout.addresses.push_back(allocator.address(allocation));
    }
    if (allocator.reserved() == reserved) continue;
    const std::map<Bytes, Bytes> regions = regions_of(allocator);
    const std::map<Bytes, AddressSegment> before = segments.open_segments();
    for (const auto& [address, segment] : before) {
      if (!regions.contains(address)) segments.close(address, segment.bytes, i);
    }
    for (const auto& [address, bytes] : regions) {
      if (!before.contains(address)) segments.open(address, bytes, i);
    }
  }
  segments.finish(points.size());
  return layout;
}

}  // namespace
}  // namespace bfc_detail

AllocatorEntry bfc_allocator_entry() {
  return {.traits = bfc_detail::kBfcTraits,
          .decode = [](const Decoder& allocator) -> std::unique_ptr<const AllocatorModel> {
            return std::make_unique<bfc_detail::BfcModel>(decode_bfc_options(allocator));
          },
          .forms = {}};
}

}  // namespace tidemark
