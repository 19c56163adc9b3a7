// Memory reserved beyond the live bytes, the step from which on it repeats, and the cost of failure
// and retry.
#include <algorithm>
#include <numeric>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "scenarios/read/scenario.hpp"
#include "scenarios/results/result_document.hpp"
#include "scenarios/studies/suggestions.hpp"
#include "sim/memory/torch/torch_allocator.hpp"
#include "sim/step/run_compiled.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::fragmentation_test {

namespace {

std::string scenario_with(std::string_view allocator, std::string_view capacity = "79GiB",
                          std::string_view policies = "[]", int steps = 2) {
  return fmt::format(
      "{{version: 1, model: {{preset: gpt, layers: 4, width: 256, heads: 4, vocab: 4096, sequence: "
      "256}}, hardware: {{gpu: h100-sxm-80gb, hbm: {{capacity: {}}}}}, training: {{micro_batch: 4, "
      "sequence: 256, steps: {}}}, allocator: {}, policies: {}}}",
      capacity, steps, allocator, policies);
}

PointResult simulate_text(const std::string& text, int convergence_limit = 0) {
  const Scenario scenario = decode(text);
  return simulate(scenario, build_training(scenario), {.convergence_limit = convergence_limit});
}

std::int64_t terms_of(const Fragmentation& f) {
  return f.rounding.count + f.pending_events.count + f.inactive_splits.count +
         f.free_segments.count;
}

struct Failed {
  std::string text;
  Value document;
  Scenario scenario;
  TrainedModel model;
  PointResult point;

  explicit Failed(const std::string& yaml)
      : text(yaml),
        document(parse_document(yaml, "s.yaml")),
        scenario(decode_scenario(document, environment())),
        model(build_training(scenario)),
        point(simulate(scenario, model, {})) {}

  [[nodiscard]] std::vector<Suggestion> suggestions() const {
    return suggest_changes(document, scenario, model, environment(), point);
  }
  // Returns the point when the suggestion is followed.
  [[nodiscard]] PointResult follow(const Suggestion& suggestion) const {
    const Scenario other =
        decode_scenario(point_document(document, suggestion.overrides), environment());
    return simulate(other, build_training(other), {});
  }
};

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("rounding, events, splits and free segments sum to what is reserved beyond live") {
    for (const std::string_view allocator :
         {"ideal", "packed", "bfc", "{kind: bfc, allow_growth: true}", "torch",
          "{kind: torch, expandable_segments: true}", "{kind: torch, max_split_size: 32MiB}"}) {
      for (const std::string_view policies :
           {"[]", "[checkpoint_every: {period: 1}]", "[offload_activations: {}]"}) {
        CAPTURE(allocator);
        CAPTURE(policies);
        const PointResult point = simulate_text(scenario_with(allocator, "79GiB", policies));
        REQUIRE(point.status == PointStatus::kFits);
        const Fragmentation& f = point.run.fragmentation;
        CHECK(f.reserved == point.run.reserved.bytes);
        CHECK(f.live.count > 0);
        CHECK(f.live <= point.run.live.bytes);
        CHECK(f.rounding.count >= 0);
        CHECK(f.pending_events.count >= 0);
        CHECK(f.inactive_splits.count >= 0);
        CHECK(f.free_segments.count >= 0);
        CHECK(terms_of(f) == f.reserved.count - f.live.count);
        if (allocator == "ideal")
          CHECK(f.rounding.count + f.inactive_splits.count + f.free_segments.count == 0);
      }
    }
  }

  TEST_CASE("what is called inactive split and free segments is so in the segments themselves") {
    for (const std::string_view option : {"", "expandable_segments:True", "max_split_size_mb:32"}) {
      CAPTURE(option);
      TorchAllocator allocator(kGiB, parse_alloc_conf(option));
      constexpr std::size_t kBlocks = 400;
      allocator.reserve(kBlocks);
      std::vector<char> live(kBlocks, 0);
      std::uint32_t random = 1;
      const auto next = [&] { return (random = random * 1664525U + 1013904223U) >> 8U; };
      for (int i = 0; i < 4000; ++i) {
        const AllocationId block(std::size_t{next() % kBlocks});
        if (live[block.index()] != 0) {
          allocator.free(block);
          live[block.index()] = 0;
        } else {
          const Bytes bytes(1 + next() % (next() % 4 == 0 ? 24U << 20U : 3U << 20U));
          live[block.index()] = allocator.allocate(block, bytes).ok ? 1 : 0;
        }
        if (i % 50 != 0) continue;
        Bytes releasable;
        Bytes free;
        for (const TorchSegment& segment : allocator.core().segments()) {
          const Bytes page = (segment.large ? 20 : 2) * kMiB;
          for (const TorchBlock* piece : segment.blocks) {
            if (!piece->is_idle()) continue;
            free += piece->size;
            if (piece->is_expandable()) {
              const Bytes first =
                  (piece->address - piece->range + page - Bytes(1)) / page * page + piece->range;
              const Bytes last = (piece->end() - piece->range) / page * page + piece->range;
              releasable += std::max(last - first, Bytes(0));
            } else if (segment.blocks.size() == 1) {
              releasable += piece->size;
            }
          }
        }
        REQUIRE(free == allocator.reserved() - allocator.active());
        REQUIRE(allocator.inactive_split() == free - releasable);
      }
      // A release frees exactly the releasable memory.
      const Bytes kept = allocator.active() + allocator.inactive_split();
      allocator.release_cached();
      CHECK(allocator.reserved() == kept);
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("reserved has converged at the first step that all later ones repeat") {
    CHECK(converged_step({}) == std::nullopt);
    CHECK(converged_step({{Bytes(5), Bytes(5)}}) == std::nullopt);
    CHECK(converged_step({{Bytes(5), Bytes(5)}, {Bytes(5), Bytes(5)}}) == 0);
    CHECK(converged_step({{Bytes(5), Bytes(5)}, {Bytes(6), Bytes(6)}}) == std::nullopt);
    CHECK(converged_step({{Bytes(5), Bytes(5)},
                          {Bytes(6), Bytes(6)},
                          {Bytes(6), Bytes(6)},
                          {Bytes(6), Bytes(6)}}) == 1);
    CHECK(converged_step({{Bytes(5), Bytes(5)},
                          {Bytes(6), Bytes(5)},
                          {Bytes(6), Bytes(6)},
                          {Bytes(6), Bytes(6)}}) == 2);  // the same peak, another end
  }

  TEST_CASE("steps are added until what is reserved repeats, up to a limit") {
    const std::string text = scenario_with("torch", "79GiB", "[]", 1);
    const PointResult one = simulate_text(text);
    CHECK(one.convergence.step == std::nullopt);
    CHECK(one.convergence.steps.size() == 1);
    const PointResult more = simulate_text(text, 8);
    REQUIRE(more.convergence.step);
    CHECK(more.convergence.steps.size() <= 8);
    const auto from = static_cast<std::size_t>(*more.convergence.step);
    // Against a run of as many steps as the configuration may have.
    const PointResult long_run = simulate_text(scenario_with("torch", "79GiB", "[]", 16));
    REQUIRE(long_run.convergence.steps.size() == 16);
    for (std::size_t s = 0; s < 16; ++s) {
      const std::size_t same = std::min(s, more.convergence.steps.size() - 1);
      CHECK(long_run.convergence.steps[s] == more.convergence.steps[same]);
      CHECK((long_run.convergence.steps[s] == long_run.convergence.steps[15]) == (s >= from));
    }
    // The point itself is that of the configured steps.
    CHECK(more.run.reserved.bytes == one.run.reserved.bytes);
  }

  TEST_CASE("a failure names the request, the segment, what is free and who keeps it") {
    const PointResult roomy = simulate_text(scenario_with("torch"));
    const std::int64_t capacity = roomy.smallest_capacity.count - 4 * kMiB.count;
    const Failed failed(scenario_with("torch", std::to_string(capacity)));
    REQUIRE(failed.point.status == PointStatus::kOutOfMemory);
    const Failure& f = *failed.point.failure;
    CHECK(f.requested.count > 0);
    CHECK(f.rounded.count == (f.requested.count + 511) / 512 * 512);
    CHECK(f.segment >= f.rounded);
    CHECK(f.segment > f.device_free);
    CHECK(f.largest_free < f.rounded);
    std::int64_t free = 0;
    for (const PartlyFreeSegment& segment : f.partly_free) {
      free += segment.free.count;
      CHECK(segment.largest_free <= segment.free);
      CHECK(segment.free < segment.size);
      CHECK(segment.in_use_count >= segment.in_use.size());
      REQUIRE_FALSE(segment.in_use.empty());
      std::int64_t in_use = 0;
      for (const TensorInUse& tensor : segment.in_use)
        in_use += tensor.bytes.count;
      CHECK(in_use <= segment.size.count - segment.free.count);
      CHECK_FALSE(segment.in_use.front().tensor.empty());
    }
    CHECK(free == f.free_in_segments.count);  // everything cached has been given back before
    CHECK(std::is_sorted(f.partly_free.begin(), f.partly_free.end(),
                         [](const auto& a, const auto& b) { return a.free > b.free; }));
    // PyTorch's own words with the same figures.
    CHECK(f.message.starts_with(fmt::format(
        "CUDA out of memory. Tried to allocate {}. GPU 0 has a "
        "total capacity of {} of which {} is free. ",
        torch_size(f.segment), torch_size(Bytes(capacity)), torch_size(f.device_free))));
    const Bytes unallocated = f.free_in_segments;  // no events are pending any more
    CHECK(f.message.find(fmt::format("and {} is reserved by PyTorch but unallocated",
                                     torch_size(unallocated))) != std::string::npos);
    CHECK(f.reason.starts_with("out of device memory in step"));
  }

  TEST_CASE("every suggestion that fits does so when its settings are made") {
    const PointResult roomy = simulate_text(scenario_with("torch"));
    int bisected = 0;
    for (const std::int64_t percent : {99, 90, 70, 50}) {
      const std::int64_t capacity =
          roomy.context.count +
          (roomy.smallest_capacity.count - roomy.context.count) * percent / 100;
      const Failed failed(scenario_with("torch", std::to_string(capacity)));
      REQUIRE(failed.point.status == PointStatus::kOutOfMemory);
      const std::vector<Suggestion> tried = failed.suggestions();
      REQUIRE_FALSE(tried.empty());
      CAPTURE(percent);
      const bool live_fits =
          failed.point.run.most_live.count + failed.point.context.count <= capacity;
      CHECK(std::any_of(tried.begin(), tried.end(), [](const Suggestion& suggestion) {
              return suggestion.overrides.front().key.starts_with("allocator.");
            }) == live_fits);
      CHECK(std::is_partitioned(tried.begin(), tried.end(),
                                [](const Suggestion& suggestion) { return suggestion.fits; }));
      for (const Suggestion& suggestion : tried) {
        CAPTURE(suggestion.change);
        const PointResult point = failed.follow(suggestion);
        CHECK(suggestion.fits == (point.status == PointStatus::kFits));
        CHECK(suggestion.step == point.run.step);
        CHECK(suggestion.peak_reserved == point.run.reserved.bytes);
        if (!suggestion.fits) continue;
        CHECK(suggestion.device_used <= Bytes(capacity));
        const Suggestion* best = best_that_fits(tried);
        REQUIRE(best != nullptr);
        if (best->changes_numbers == suggestion.changes_numbers)
          CHECK(best->samples_per_second >= suggestion.samples_per_second);
        CHECK((!best->changes_numbers || suggestion.changes_numbers));
        // The fewest blocks: with one less it does not fit.
        const std::string least = "checkpoint(first ";
        if (!suggestion.change.starts_with(least)) continue;
        const int blocks = std::stoi(suggestion.change.substr(least.size()));
        Value less = failed.document;
        apply_override(
            less, parse_override(
                      blocks > 1 ? fmt::format("policies=[checkpoint: {{first: {}}}]", blocks - 1)
                                 : "policies=[]"));
        const Scenario fewer = decode_scenario(less, environment());
        CHECK(simulate(fewer, build_training(fewer), {}).status == PointStatus::kOutOfMemory);
        ++bisected;
      }
    }
    CHECK(bisected > 0);
    CHECK(best_that_fits({}) == nullptr);
  }

  TEST_CASE("figures of a point that does not fit are those of a run with unlimited memory") {
    const PointResult roomy = simulate_text(scenario_with("torch"), 8);
    const std::int64_t capacity = roomy.context.count + roomy.run.most_live.count - kMiB.count;
    const PointResult failed = simulate_text(scenario_with("torch", std::to_string(capacity)), 8);
    REQUIRE(roomy.status == PointStatus::kFits);
    REQUIRE(failed.status == PointStatus::kOutOfMemory);
    CHECK(failed.run.live.bytes == roomy.run.live.bytes);
    CHECK(failed.run.reserved.bytes == roomy.run.reserved.bytes);
    CHECK(failed.run.step == roomy.run.step);
    CHECK(failed.run.fragmentation.reserved == roomy.run.fragmentation.reserved);
    CHECK(terms_of(failed.run.fragmentation) == terms_of(roomy.run.fragmentation));
    CHECK(failed.convergence.step == roomy.convergence.step);
    REQUIRE(failed.convergence.steps.size() == roomy.convergence.steps.size());
    for (std::size_t i = 0; i < roomy.convergence.steps.size(); ++i)
      CHECK(failed.convergence.steps[i].peak == roomy.convergence.steps[i].peak);
    // The run on the device: a request that failed after a retry of its own.
    CHECK(failed.run.ooms == 1);
    CHECK(failed.run.retries >= 1);
    CHECK(roomy.run.ooms == 0);
    CHECK(failed.samples_per_second == 0);
    const auto document = result_document(std::span(&failed, 1));
    const auto& point = document["points"][0];
    CHECK(point["failure"]["retries"] == failed.run.retries);
    CHECK(point["memory"]["device_used"] == roomy.context.count + roomy.run.reserved.bytes.count);
  }

  TEST_CASE("several ranks leave their devices less: NCCL's buffers beside the context") {
    std::string text = scenario_with("torch");
    const PointResult one = simulate_text(text);
    text.insert(text.find("gpu: h100"), "count: 2, ");
    const PointResult two = simulate_text(text);
    CHECK(two.context.count == one.context.count + 1480 * kMiB.count);
    // The buckets of their gradients count, too.
    CHECK(two.run.live.bytes.count == one.run.live.bytes.count + two.gradients.count);
    // Free memory between fragments takes up some of the buckets.
    CHECK(two.smallest_capacity.count > one.smallest_capacity.count + 1480 * kMiB.count);
    CHECK(two.smallest_capacity.count <=
          one.smallest_capacity.count + 1480 * kMiB.count + two.gradients.count + 2 * kMiB.count);
  }

  TEST_CASE("the micro-batch that is suggested is the largest divisor of the samples that fits") {
    const auto with_batch = [](std::int64_t batch, const std::string& capacity) {
      return fmt::format(
          "{{version: 1, model: {{preset: gpt, layers: 2, width: 64, heads: 4, vocab: 64, "
          "sequence: "
          "128}}, hardware: {{gpu: h100-sxm-80gb, hbm: {{capacity: {}}}}}, training: "
          "{{micro_batch: "
          "{}, sequence: 128}}, allocator: {{kind: torch, expandable_segments: true}}, policies: "
          "[checkpoint_every: {{period: 1}}, offload_activations: {{}}]}}",
          capacity, batch);
    };
    // 12 samples: 6, 4, 3, 2 and 1 divide them; 5 would need less than 6, but leaves some over.
    const std::int64_t capacity = simulate_text(with_batch(5, "79GiB")).smallest_capacity.count;
    const Failed failed(with_batch(12, std::to_string(capacity)));
    REQUIRE(failed.point.status == PointStatus::kOutOfMemory);
    const std::vector<Suggestion> tried = failed.suggestions();
    REQUIRE_FALSE(tried.empty());
    CHECK(best_that_fits(tried)->change == "micro_batch 4, accumulate 3");
  }

  TEST_CASE(
      "what bfc needs is the smallest capacity, not the regions that double without a limit") {
    const Failed failed(scenario_with("bfc", "600MiB"));
    REQUIRE(failed.point.status == PointStatus::kOutOfMemory);
    const std::vector<Suggestion> tried = failed.suggestions();
    REQUIRE_FALSE(tried.empty());
    for (const Suggestion& suggestion : tried) {
      CAPTURE(suggestion.change);
      const PointResult point = failed.follow(suggestion);
      CHECK(suggestion.fits == (point.status == PointStatus::kFits));
      if (!suggestion.fits) CHECK(suggestion.device_used == point.smallest_capacity);
    }
  }

  TEST_CASE("a point fits only if later steps fit, too") {
    const std::string file = test::source_path("scenarios/basics/fragmentation.yaml");
    Value document = load_scenario(file);
    std::erase_if(document.entries, [](const Value::Entry& entry) { return entry.key == "sweep"; });
    const Scenario two = decode_scenario(document, environment());
    const PointResult failing = simulate(two, build_training(two), {});
    REQUIRE(failing.status == PointStatus::kOutOfMemory);
    CHECK(failing.failure->step == 1);
    apply_override(document, parse_override("training.steps=1"));
    const Scenario one = decode_scenario(document, environment());
    const PointResult point = simulate(one, build_training(one), {.convergence_limit = 8});
    CHECK(point.status == PointStatus::kOutOfMemory);
    CHECK(point.convergence.step == std::nullopt);
    CHECK(point.convergence.fails_in == 1);
    REQUIRE(point.failure);
    CHECK(point.failure->step == 1);
    CHECK(point.samples_per_second == 0);  // as of any point that does not fit
    CHECK(point.failure->requested == failing.failure->requested);
    CHECK(point.failure->op == failing.failure->op);
    CHECK(point.run.reserved.bytes == failing.run.reserved.bytes);
    // The configured step alone fits, which says nothing about training.
    CHECK(simulate(one, build_training(one), {}).status == PointStatus::kFits);
    // A device of the least capacity that the result names runs all steps.
    const auto with_capacity = [&](Bytes capacity) {
      Value changed = document;
      apply_override(changed,
                     parse_override(fmt::format("hardware.hbm.capacity={}B", capacity.count)));
      const Scenario scenario = decode_scenario(changed, environment());
      return simulate(scenario, build_training(scenario), {.convergence_limit = 8}).status;
    };
    CHECK(with_capacity(point.smallest_capacity) == PointStatus::kFits);
    CHECK(with_capacity(point.smallest_capacity - Bytes(kMiB.count)) == PointStatus::kOutOfMemory);
    // Expandable segments are the suggestion.
    const std::vector<Suggestion> tried =
        suggest_changes(document, two, build_training(two), environment(), failing);
    REQUIRE_FALSE(tried.empty());
    CHECK(tried.front().change == "expandable_segments");
  }

  TEST_CASE("what earlier steps have cached goes back before a step is captured as a CUDA graph") {
    const PointResult eager = simulate_text(scenario_with("torch"), 8);
    const PointResult graph = simulate_text(scenario_with("{kind: torch, cuda_graph: true}"), 8);
    CHECK(graph.run.live.bytes == eager.run.live.bytes);
    // Whole free segments are released; a private pool cannot use the free rest of others.
    CHECK(graph.run.reserved.bytes.count < 2 * eager.run.reserved.bytes.count);
    CHECK(graph.run.reserved.bytes >= graph.run.active.bytes);
    CHECK(graph.convergence.step == 1);  // which is replayed from then on
    CHECK(terms_of(graph.run.fragmentation) ==
          graph.run.reserved.bytes.count - graph.run.fragmentation.live.count);
    // A single step has no cache to be kept from, whole segments of its own apart.
    const PointResult alone =
        simulate_text(scenario_with("{kind: torch, cuda_graph: true}", "79GiB", "[]", 1));
    CHECK(alone.run.reserved.bytes.count ==
          simulate_text(scenario_with("torch", "79GiB", "[]", 1)).run.reserved.bytes.count);
  }

  TEST_CASE("a step that is captured takes again what the step before it has given back") {
    StepProgram program;
    for (int i = 0; i < 2; ++i) {
      Allocation block;
      block.bytes = Bytes(22 * kMiB.count);
      program.allocations.push_back(block);
    }
    const auto add = [&](Opcode opcode, std::uint32_t subject) {
      program.opcode.push_back(opcode);
      program.stream.push_back(0);
      program.subject.push_back(subject);
      program.position.push_back(Position(subject));
      program.first_edge.push_back(0);
      program.first_use.push_back(0);
      if (opcode == Opcode::kAllocate) ++program.allocate_instructions;
    };
    for (const std::uint32_t step : {0U, 1U}) {
      add(Opcode::kAllocate, step);
      add(Opcode::kFree, step);
      program.slot.push_back({.phase = Phase::kForward, .last_step = step == 1});
    }
    program.first_edge.push_back(0);
    program.first_use.push_back(0);
    TorchAllocatorOptions options;
    options.cuda_graph = true;
    TorchAllocator allocator{Bytes(64 * kMiB.count), options};
    allocator.reserve(program.allocations.size());
    Scratch scratch;
    scratch.prepare(program, true);
    const RunResult result = run(program, CostTable(), allocator, scratch, {.host_capacity = kGiB});
    CHECK(result.status == RunStatus::kCompleted);
    CHECK(result.reserved.bytes.count == 22 * kMiB.count);
    CHECK(allocator.core().statistics().num_device_alloc == 2);
  }

  TEST_CASE("where a memory fraction is the limit it is named, and lifting it comes first") {
    for (const std::string_view kind : {"torch", "bfc"}) {
      CAPTURE(kind);
      const Failed failed(scenario_with(fmt::format("{{kind: {}, memory_fraction: 0.001}}", kind)));
      REQUIRE(failed.point.status == PointStatus::kOutOfMemory);
      const Failure& f = *failed.point.failure;
      REQUIRE(f.allowed);
      CHECK(f.allowed->count <= failed.point.capacity.count / 1000);
      CHECK(f.device_free.count > 78 * kGiB.count);
      CHECK(f.reason.find("allowed by memory_fraction") != std::string::npos);
      const std::vector<Suggestion> tried = failed.suggestions();
      REQUIRE(tried.size() == 1);
      CHECK(tried.front().change == "memory_fraction 1");
      CHECK(tried.front().fits);
    }
  }

  TEST_CASE("a device of any size that can be written runs, with every allocator") {
    for (const std::string_view capacity : {"1024PiB", "1023PiB", "8191TiB"}) {
      for (const std::string_view allocator :
           {"ideal", "packed", "bfc", "torch", "{kind: torch, expandable_segments: true}"}) {
        CAPTURE(capacity);
        CAPTURE(allocator);
        CHECK(simulate_text(scenario_with(allocator, capacity)).status == PointStatus::kFits);
      }
    }
  }

  TEST_CASE("a device smaller than the context is reported, without negative figures") {
    for (const std::string_view allocator : {"torch", "bfc", "packed"}) {
      CAPTURE(allocator);
      const Failed failed(scenario_with(allocator, "32MiB"));
      REQUIRE(failed.point.status == PointStatus::kOutOfMemory);
      const Failure& f = *failed.point.failure;
      CHECK(f.reason.find("the context of the framework alone") != std::string::npos);
      CHECK(f.device_free.count == 0);
      CHECK(failed.suggestions().empty());
    }
  }

  TEST_CASE("a retry costs a synchronisation, what it gives back and what it takes") {
    // a and b, of 9 MiB, share a segment of 20 MiB and leave it; c needs one of 22 MiB, for which a
    // device of 30 MiB has room only once the first has been given back.
    StepProgram program;
    const auto add = [&](Opcode opcode, std::uint32_t subject) {
      program.opcode.push_back(opcode);
      program.stream.push_back(0);
      program.subject.push_back(subject);
      program.position.push_back(Position(0U));
      program.first_edge.push_back(0);
      program.first_use.push_back(0);
      if (opcode == Opcode::kAllocate) ++program.allocate_instructions;
    };
    for (const int mebibytes : {9, 9, 22}) {
      Allocation block;
      block.bytes = Bytes(mebibytes * kMiB.count);
      program.allocations.push_back(block);
    }
    program.first_edge.push_back(0);
    program.first_use.push_back(0);
    program.slot.push_back({.phase = Phase::kForward, .last_step = true});
    for (const std::uint32_t block : {0U, 1U, 2U}) {
      add(Opcode::kAllocate, block);
      if (block == 1) {
        add(Opcode::kFree, 0);
        add(Opcode::kFree, 1);
      }
    }
    add(Opcode::kLaunch, 0);
    CostTable costs;
    costs.device.push_back(Duration(1000));
    costs.dispatch.push_back(Duration(10));
    costs.synchronize = Duration(7);
    costs.device_malloc = Duration(300);
    costs.device_free = Duration(50'000);
    const auto time_with = [&](std::int64_t mebibytes) {
      TorchAllocator allocator{Bytes(mebibytes * kMiB.count)};
      allocator.reserve(program.allocations.size());
      Scratch scratch;
      scratch.prepare(program, true);
      const RunResult result = run(program, costs, allocator, scratch, {.host_capacity = kGiB});
      REQUIRE(result.status == RunStatus::kCompleted);
      return std::pair(result.total.count(), result.retries);
    };
    // With room: segments of 20 and 22 MiB are taken, then the launch.
    CHECK(time_with(64) == std::pair<std::int64_t, std::int64_t>(2 * 300 + 10 + 1000, 0));
    // Without: a failed cudaMalloc, a wait for the device, one cudaFree, a second cudaMalloc.
    CHECK(time_with(30) ==
          std::pair<std::int64_t, std::int64_t>(3 * 300 + 7 + 50'000 + 10 + 1000, 1));
  }
}

}  // namespace tidemark::fragmentation_test
