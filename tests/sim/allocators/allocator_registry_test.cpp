#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "graph/core/errors.hpp"
#include "scenarios/read/environment.hpp"
#include "sim/allocators/registry.hpp"
#include "sim/allocators/run_on.hpp"
#include "sim/engine/event_loop_run.hpp"
#include "sim/memory/ideal_allocator.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark {

namespace allocator_registry_test {

// An allocator that takes a whole multiple of each request.
class GreedyAllocator {
 public:
  GreedyAllocator(Bytes capacity, std::int64_t factor) : ideal_(capacity), factor_(factor) {}

  void reserve(std::size_t blocks) { ideal_.reserve(blocks); }
  AllocationResult allocate(AllocationId block, Bytes bytes) {
    return ideal_.allocate(block, factor_ * bytes);
  }
  AllocationResult allocate_again(AllocationId block, Bytes bytes) {
    return allocate(block, bytes);
  }
  void free(AllocationId block) { ideal_.free(block); }
  void defer_free(AllocationId block) { ideal_.defer_free(block); }
  int release_cached() { return 0; }
  [[nodiscard]] Bytes allocated() const { return ideal_.allocated(); }
  [[nodiscard]] Bytes active() const { return ideal_.active(); }
  [[nodiscard]] Bytes reserved() const { return ideal_.reserved(); }
  [[nodiscard]] Bytes inactive_split() const { return Bytes(0); }
  [[nodiscard]] Bytes address(AllocationId block) const { return ideal_.address(block); }
  [[nodiscard]] const IdealAllocator& ideal() const { return ideal_; }
  [[nodiscard]] std::int64_t factor() const { return factor_; }

 private:
  IdealAllocator ideal_;
  std::int64_t factor_;
};

OutOfMemory out_of_memory(const GreedyAllocator& allocator, Bytes requested, std::size_t blocks) {
  return tidemark::out_of_memory(allocator.ideal(), allocator.factor() * requested, blocks);
}

}  // namespace allocator_registry_test

template RunResult run(const StepProgram&, const CostTable&,
                       allocator_registry_test::GreedyAllocator&, Scratch&, const RunOptions&);

namespace allocator_registry_test {

namespace {

constexpr AllocatorTraits kGreedyTraits{.name = "greedy",
                                        .version = "greedy-1.0",
                                        .summary = "takes more than it needs",
                                        .rounding = "blocks are multiples of their requests",
                                        .has_overhead = false,
                                        .has_addresses = false,
                                        .has_segments = false};

class GreedyModel final : public AllocatorModel {
 public:
  explicit GreedyModel(std::int64_t factor) : factor_(factor) {}
  [[nodiscard]] const AllocatorTraits& traits() const override { return kGreedyTraits; }
  RunResult run(const AllocatorRun& run, OutOfMemory* failure) const override {
    return run_on(GreedyAllocator(run.capacity, factor_), run, failure);
  }
  [[nodiscard]] std::vector<RunResult> run_ranks(std::span<const AllocatorRun> ranks,
                                                 std::span<OutOfMemory> failures) const override {
    return run_ranks_on(ranks, failures, [&](const AllocatorRun& run) {
      return std::make_unique<GreedyAllocator>(run.capacity, factor_);
    });
  }

 private:
  std::int64_t factor_;
};

AllocatorEntry greedy_entry() {
  return {.traits = kGreedyTraits,
          .decode = [](const Decoder& allocator) -> std::unique_ptr<const AllocatorModel> {
            return std::make_unique<GreedyModel>(
                allocator.optional<std::int64_t>("factor", 2, at_least(1)));
          },
          .forms = {}};
}

PointResult simulate_with(const std::string& allocator, const std::string& capacity = "79GiB") {
  Environment environment = default_environment({});
  environment.allocators.add(greedy_entry());
  const std::string text =
      "{version: 1, model: {preset: gpt, layers: 2, width: 256, heads: 4, vocab: 1024, sequence: "
      "128}, hardware: {gpu: h100-sxm-80gb, hbm: {capacity: " +
      capacity + "}}, training: {micro_batch: 2, sequence: 128}, allocator: " + allocator + "}";
  const Scenario scenario = decode_scenario(parse_document(text, "s.yaml"), environment);
  return simulate(scenario, build_training(scenario), {.smallest_capacity = true});
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a scenario without an allocator gets PyTorch's; four are shipped") {
    const AllocatorRegistry registry;
    CHECK(registry.names() == std::vector<std::string_view>{"torch", "bfc", "packed", "ideal"});
    CHECK(registry.default_entry().traits.name == "torch");
    CHECK(registry.find("cnmem") == nullptr);
    for (const AllocatorEntry& entry : registry.entries()) {
      CAPTURE(entry.traits.name);
      CHECK(entry.decode(Decoder())->traits().name == entry.traits.name);
      CHECK(!entry.traits.summary.empty());
    }
  }

  TEST_CASE("an allocator is added by an entry and by nothing else") {
    const PointResult ideal = simulate_with("ideal");
    REQUIRE(ideal.status == PointStatus::kFits);
    for (const std::int64_t factor : {2, 3}) {
      CAPTURE(factor);
      const PointResult greedy =
          simulate_with("{kind: greedy, factor: " + std::to_string(factor) + "}");
      CHECK(greedy.status == PointStatus::kFits);
      CHECK(greedy.allocator.name == "greedy");
      // The program is the same, and each allocation takes that multiple of its bytes.
      CHECK(greedy.run.live.bytes == ideal.run.live.bytes);
      CHECK(greedy.run.reserved.bytes.count == factor * ideal.run.reserved.bytes.count);
      CHECK(greedy.context == Bytes(0));
      // It counts bytes, so the device needs exactly its peak.
      CHECK(greedy.smallest_capacity == greedy.run.most_reserved);
    }
    // A factor of one is the ideal allocator, to the nanosecond.
    const PointResult one = simulate_with("{kind: greedy, factor: 1}");
    CHECK(one.run.reserved.bytes == ideal.run.reserved.bytes);
    CHECK(one.run.step == ideal.run.step);
  }

  TEST_CASE("its failure, its parameters and its mistakes are reported like those of the others") {
    const PointResult failed = simulate_with("{kind: greedy, factor: 4}", "32MiB");
    REQUIRE(failed.status == PointStatus::kOutOfMemory);
    CHECK(failed.failure->rounded.count == 4 * failed.failure->requested.count);
    CHECK(failed.failure->device_free < failed.failure->rounded);
    std::vector<ParameterNote> notes;
    static_cast<void>(greedy_entry().decode(Decoder::describing(notes)));
    REQUIRE(notes.size() == 1);
    CHECK(notes[0].name == "factor");
    const auto error_of = [](const std::string& allocator) -> std::string {
      try {
        static_cast<void>(simulate_with(allocator));
      } catch (const UserError& error) {
        return error.problem();
      }
      return "none";
    };
    CHECK(error_of("{kind: greedy, size: 3}").starts_with("unknown key"));
    CHECK(error_of("greedy-2.0") ==
          "'greedy-2.0' names a version; write {kind: greedy, version: greedy-1.0}");
    CHECK(error_of("gredy").find("did you mean 'greedy'?") != std::string::npos);
    AllocatorRegistry registry;
    registry.add(greedy_entry());
    CHECK_THROWS_AS(registry.add(greedy_entry()), InternalError);
  }
}

}  // namespace allocator_registry_test
}  // namespace tidemark
