// Optimizer state and parameters that live off the device, from scenario text to figures.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "scenarios/read/environment.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/results/result_document.hpp"
#include "scenarios/studies/compare.hpp"
#include "sim/result/transfers.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::scenarios_offload_policies_test {
namespace {

struct Simulated {
  std::shared_ptr<const TrainedModel> model;
  PointResult point;
  PointDetail detail;

  [[nodiscard]] TransferReport moved() const {
    return transfers(model->training, detail.compiled.program, detail.scratch, point.run);
  }
  [[nodiscard]] std::int64_t bytes_of(Role role) const {
    std::int64_t sum = 0;
    for (const Storage& storage : model->training.storages) {
      if (storage.role == role && (storage.persistent || storage.initial)) {
        sum += storage.bytes.count;
      }
    }
    return sum;
  }
  [[nodiscard]] Duration busy(Stream stream) const {
    return point.run.busy[static_cast<std::size_t>(stream)];
  }
};

// The host is fast enough that so small a model does not wait for it.
const std::string kFastHost = ", host: {dispatch: 10us}";

Simulated simulate_with(const std::string& policies, const std::string& hardware = kFastHost,
                        const std::string& training = "", const std::string& more = "") {
  const Scenario scenario = decode(fmt::format(
      "model: {{preset: gpt, layers: 6, width: 256, heads: 4, vocab: 1024, sequence: 64}}\n"
      "hardware: {{gpu: h100-sxm-80gb{}}}\n"
      "training: {{micro_batch: 2, sequence: 64, precision: bf16_mixed{}}}\n"
      "policies: [{}]\n{}",
      hardware, training, policies, more));
  Simulated s;
  s.model = std::make_shared<const TrainedModel>(build_training(scenario));
  s.point = simulate(scenario, *s.model, {.smallest_capacity = false}, &s.detail);
  return s;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the first parameters in order go to the host until they make the ratio") {
    for (const double ratio : {0.0, 0.2, 0.5, 0.9, 1.0}) {
      CAPTURE(ratio);
      const Simulated s = simulate_with(fmt::format("offload_optimizer: {{ratio: {}}}", ratio));
      const TrainingGraph& training = s.model->training;
      std::int64_t total = 0;
      for (const Parameter& parameter : training.parameters)
        total += parameter.elements.count;
      std::int64_t before = 0;
      for (const UpdatedTensor& tensor : training.updates) {
        const bool wanted = static_cast<double>(before) < ratio * static_cast<double>(total);
        CHECK((tensor.updated_by == Executor::kHost) == wanted);
        before += tensor.elements.count;
      }
      CHECK(s.point.status == PointStatus::kFits);
    }
  }

  TEST_CASE("state leaves the device: 12 bytes per parameter, whatever moves them") {
    const Simulated none = simulate_with("");
    const Simulated all = simulate_with("offload_optimizer: {}");
    const std::int64_t state = none.bytes_of(Role::kOptimizerState);
    CHECK(state >= 12 * none.point.parameter_count.count);
    CHECK(none.point.run.host.bytes.count == 0);
    CHECK(all.point.run.phase_live[0].bytes.count ==
          none.point.run.phase_live[0].bytes.count - state);
    const BytesByRole& held = all.point.host_by_role;
    CHECK(held[static_cast<std::size_t>(Role::kOptimizerState)].count == state);
    // Gradients of 2 bytes down, parameters of 2 bytes up.
    CHECK(all.moved().bytes_out.count == all.bytes_of(Role::kGradient));
    CHECK(all.moved().bytes_in.count == all.bytes_of(Role::kParameter));
    // Adam reads gradient, master and moments and writes all but the first, 28 bytes per
    // parameter, at 39.6 GB/s.
    const double seconds = static_cast<double>(all.point.parameter_count.count) * 28 / 39.6e9;
    CHECK(static_cast<double>(all.busy(Stream::kHostWorker).count()) * 1e-9 ==
          doctest::Approx(seconds).epsilon(0.01));
  }

  TEST_CASE("gradients that stream to the host are fetched and returned once per micro-batch") {
    const std::string streams = "offload_optimizer: {gradients: backward}";
    for (const int micro_batches : {1, 2, 5}) {
      CAPTURE(micro_batches);
      const Simulated s =
          simulate_with(streams, "", fmt::format(", accumulate: {}", micro_batches));
      const std::int64_t gradients = s.bytes_of(Role::kGradient);
      // ZeRO-Offload: down once per micro-batch; up before each addition, and the parameters.
      CHECK(s.moved().bytes_out.count == gradients * micro_batches);
      CHECK(s.moved().bytes_in.count ==
            gradients * (micro_batches - 1) + s.bytes_of(Role::kParameter));
      const Simulated stay = simulate_with("offload_optimizer: {}");
      CHECK(s.point.run.phase_live[2].bytes < stay.point.run.phase_live[2].bytes);
    }
  }

  TEST_CASE("overlap hides copies behind updates and changes neither bytes nor work") {
    const Simulated apart = simulate_with("offload_optimizer: {overlap: false}");
    const Simulated overlapped = simulate_with("offload_optimizer: {overlap: true}");
    CHECK(overlapped.moved().bytes_out.count == apart.moved().bytes_out.count);
    CHECK(overlapped.moved().bytes_in.count == apart.moved().bytes_in.count);
    CHECK(hidden_share(overlapped.point.run) > hidden_share(apart.point.run));
  }

  TEST_CASE("NVMe state passes through a few page-locked buffers, read ahead and written behind") {
    const std::string host = ", host: {dispatch: 10us, optimizer_bandwidth: 4GB/s}";
    const std::string nvme = "offload_optimizer: {tier: nvme, sub_group: 300000";
    const Simulated ahead = simulate_with(nvme + "}", host);
    const Simulated serial = simulate_with(nvme + ", overlap: false}", host);
    const Simulated whole = simulate_with("offload_optimizer: {}", host);
    CHECK(ahead.point.run.nvme.bytes.count == ahead.bytes_of(Role::kOptimizerState));
    CHECK(ahead.point.run.host.bytes < whole.point.run.host.bytes);
    CHECK(serial.point.run.host.bytes <= ahead.point.run.host.bytes);
    CHECK(ahead.point.run.step < serial.point.run.step);
    CHECK(ahead.busy(Stream::kNvmeRead) == serial.busy(Stream::kNvmeRead));
    CHECK(ahead.busy(Stream::kNvmeRead) > Duration(0));
    CHECK(whole.busy(Stream::kNvmeRead) == Duration(0));
  }

  TEST_CASE("parameters visit the device, earlier with a longer prefetch") {
    const std::string small = "offload_parameters: {min_elements: 1000, prefetch: ";
    const std::string state = "offload_optimizer: {gradients: backward}, ";
    const Simulated stay = simulate_with(state);
    const Simulated late = simulate_with(state + small + "0}");
    const Simulated early = simulate_with(state + small + "2}");
    const auto parameters = [](const Simulated& s) {
      return s.point.peak.by_role[static_cast<std::size_t>(Role::kParameter)].count;
    };
    CHECK(parameters(late) < parameters(stay) / 2);
    CHECK(parameters(late) <= parameters(early));
    CHECK(early.point.run.exposed_transfer < late.point.run.exposed_transfer);
    CHECK(early.point.run.step < late.point.run.step);
    // Parameters that the host has updated need not come back at the end of the step: they are
    // fetched for forward and again for backward, unless they were kept in between.
    constexpr std::int64_t kTied = 1024 * 256 * 2;  // wte has a third use, as the head
    CHECK(late.moved().bytes_in.count <= 2 * late.bytes_of(Role::kParameter) + kTied);
    CHECK(late.moved().bytes_in.count > late.bytes_of(Role::kParameter));
  }

  TEST_CASE("a delayed update runs during the next step's forward and backward") {
    const std::string more = ", steps: 3";
    for (const char* rest : {"", ", ratio: 0.5", ", gradients: backward", ", tier: nvme"}) {
      CAPTURE(rest);
      const auto with = [&](const std::string& delayed, const std::string& host) {
        return simulate_with(fmt::format("offload_optimizer: {{delayed: {}{}}}", delayed, rest),
                             host, more);
      };
      // An update of a tenth of a millisecond hides; the new parameters arrive all the same.
      const std::string fast =
          ", host: {dispatch: 10us, optimizer_bandwidth: 2TB/s, dram_bandwidth: 2TB/s}";
      const Simulated hidden = with("true", fast);
      CHECK(hidden.point.run.exposed[static_cast<std::size_t>(Stream::kHostWorker)] == Duration(0));
      CHECK(hidden.point.run.step < with("false", fast).point.run.step);
      CHECK(hidden.moved().bytes_out.count == with("false", fast).moved().bytes_out.count);
      CHECK(hidden.moved().bytes_in.count == with("false", fast).moved().bytes_in.count);
      // One that takes longer than a step is the step.
      const std::string slow = ", host: {dispatch: 10us, optimizer_bandwidth: 1GB/s}";
      const Simulated waits = with("true", slow);
      CHECK(waits.point.run.step >= waits.busy(Stream::kHostWorker));
      CHECK(waits.point.run.step < with("false", slow).point.run.step);
    }
    // The weights that the host works on are its own: two bytes per parameter.
    const Simulated own = simulate_with("offload_optimizer: {delayed: true}");
    const Simulated none = simulate_with("offload_optimizer: {}");
    const auto state = static_cast<std::size_t>(Role::kOptimizerState);
    CHECK((own.point.host_by_role[state] - none.point.host_by_role[state]).count ==
          none.bytes_of(Role::kParameter));
  }

  TEST_CASE("parameters are fetched by DeepSpeed's limits in elements") {
    const std::string state = "offload_optimizer: {gradients: backward}, ";
    const auto with = [&](const std::string& limits) {
      return simulate_with(state + "offload_parameters: {min_elements: 1000, " + limits + "}");
    };
    const auto live = [](const Simulated& s) {
      return s.point.peak.by_role[static_cast<std::size_t>(Role::kParameter)].count;
    };
    const Simulated none = with("prefetch_bucket_size: 0, max_reuse_distance: 0");
    const Simulated late =
        simulate_with(state + "offload_parameters: {min_elements: 1000, prefetch: 0}");
    const Simulated bucket = with("prefetch_bucket_size: 500000, max_reuse_distance: 0");
    // Without a bucket every module waits for its own parameters, which it asks for at its entry.
    CHECK(none.point.run.exposed_transfer <= late.point.run.exposed_transfer);
    CHECK(bucket.point.run.exposed_transfer < none.point.run.exposed_transfer / 2);
    CHECK(live(none) < live(bucket));
    // Live parameters stay below the limit, or are what one module needs: the embedding and the
    // tied head, 1024 x 256 elements, are the largest.
    const Simulated limited = with(
        "prefetch_bucket_size: 5000000, max_live_parameters: 600000, "
        "max_reuse_distance: 0");
    CHECK(live(limited) <= 2 * (600'000 + 1024 * 256) + 40'000);
    CHECK(live(limited) < live(with("prefetch_bucket_size: 5000000")));
    // A long reuse distance keeps everything between forward and backward: each comes once.
    const Simulated kept = with("max_reuse_distance: 1000000000");
    CHECK(kept.moved().bytes_in.count < none.moved().bytes_in.count);
    const std::string problem =
        error_of([&] { static_cast<void>(with("prefetch: 1, max_live_parameters: 5")); });
    CHECK(problem.find("counts layers") != std::string::npos);
  }

  TEST_CASE("FlashNeuron writes to NVMe what it selects, through the host") {
    const std::int64_t kept = simulate_with("").point.run.live.bytes.count;
    const std::string budget = fmt::format("{{budget: {}, min_bytes: 1KiB", kept * 9 / 10);
    const Simulated disk = simulate_with("flashneuron: " + budget + "}");
    const Simulated host = simulate_with("flashneuron: " + budget + ", tier: host}");
    CHECK(disk.point.run.nvme.bytes.count > 0);
    CHECK(disk.busy(Stream::kNvmeWrite) > Duration(0));
    CHECK(host.point.run.nvme.bytes.count == 0);
    CHECK(host.point.policies[0].offloaded >= disk.point.policies[0].offloaded);
  }

  TEST_CASE("host memory and NVMe that are too small say by how much, and what holds them") {
    const Simulated host = simulate_with("offload_optimizer: {}", ", host: {memory: 40MiB}");
    CHECK(host.point.status == PointStatus::kOutOfMemory);
    CHECK(host.point.run.status == RunStatus::kOutOfHostMemory);
    REQUIRE(host.point.failure.has_value());
    const Failure& failure = *host.point.failure;
    CHECK(failure.short_of.count == host.point.run.most_host.count - 40 * kMiB.count);
    CHECK(failure.reason.find("out of host memory") != std::string::npos);
    CHECK(failure.reason.find("optimizer_state") != std::string::npos);
    CHECK(failure.reason.find(": at most " + format_bytes(failure.short_of) + " are missing") !=
          std::string::npos);
    // With exactly the host memory that the run reports, it fits.
    const std::string enough =
        fmt::format(", host: {{memory: {}}}", host.point.run.most_host.count);
    CHECK(simulate_with("offload_optimizer: {}", enough).point.status == PointStatus::kFits);
    const Simulated nvme =
        simulate_with("offload_optimizer: {tier: nvme}", ", nvme: {capacity: 20MiB}");
    CHECK(nvme.point.run.status == RunStatus::kOutOfNvme);
    CHECK(nvme.point.failure->short_of.count ==
          nvme.bytes_of(Role::kOptimizerState) - 20 * kMiB.count);
  }

  TEST_CASE("ranks behind one host slow each other down") {
    const auto ran = [](const std::string& hardware) {
      return simulate_with("offload_optimizer: {}", hardware).point.run;
    };
    const auto step = [&](const std::string& hardware) { return ran(hardware).step; };
    // All-reduces do not touch the optimizer on the host.
    const auto updates = [&](const std::string& hardware) {
      return ran(hardware).busy[static_cast<std::size_t>(Stream::kHostWorker)];
    };
    const std::string narrow = ", host: {dram_bandwidth: 160GB/s}";
    CHECK(updates(narrow + ", count: 2") == updates(narrow));  // 80 GB/s each are enough
    CHECK(step(narrow + ", count: 4") > step(narrow + ", count: 2"));
    CHECK(step(narrow + ", count: 8") > step(narrow + ", count: 4"));
    CHECK(updates(narrow + ", count: 16") == updates(narrow + ", count: 8"));  // a second host
  }

  TEST_CASE("two placements of the same state: the first stands, the second is contested") {
    const Simulated both =
        simulate_with("offload_optimizer: {ratio: 0.5}, offload_optimizer: {tier: nvme}");
    const auto& [first, second] = std::pair(both.point.policies[0], both.point.policies[1]);
    CHECK(first.contested == 0);
    CHECK(second.contested == first.decided);
    CHECK(second.decided > 0);
    CHECK(both.point.run.nvme.bytes.count > 0);
    const Simulated parameters = simulate_with(
        "offload_parameters: {min_elements: 1000}, "
        "offload_parameters: {min_elements: 1000, tier: nvme, prefetch: 0}");
    CHECK(parameters.point.run.nvme.bytes.count == 0);
    CHECK(parameters.point.policies[1].contested > 0);
  }

  TEST_CASE("PyTorch's page-locked allocator takes powers of two") {
    const Simulated exact = simulate_with("offload_optimizer: {}");
    const Simulated torch =
        simulate_with("offload_optimizer: {}", "", "", "host_allocator: torch\n");
    CHECK(exact.point.run.host_taken.bytes == exact.point.run.host.bytes);
    CHECK(torch.point.run.host_taken.bytes > torch.point.run.host.bytes);
    // Page-locking takes the host's time where a buffer is not reused.
    CHECK(torch.point.run.total > exact.point.run.total);
    CHECK(refusal_with("host_allocator: huge\n").find("host_allocator") != std::string::npos);
  }

  TEST_CASE("off-device bytes are reported by role to the byte, copies under way included") {
    for (const char* policies :
         {"offload_optimizer: {}", "offload_optimizer: {tier: nvme, sub_group: 100000}",
          "offload_parameters: {tier: nvme}", "offload_activations: {min_bytes: 1KiB}"}) {
      CAPTURE(policies);
      const PointResult point = simulate_with(policies, "", ", accumulate: 3").point;
      CHECK(point.run.host.bytes.count > 0);
      CHECK(sum_of(point.host_by_role) == point.run.host.bytes);
    }
  }

  TEST_CASE("the host runs ahead of the device by its launch queue, not by a whole step") {
    const auto host_bytes = [](int micro_batches) {
      return simulate_with("offload_activations: {min_bytes: 1KiB}",
                           ", links: {d2h: {alone: 0.1GB/s, duplex: 0.1GB/s}}",
                           fmt::format(", accumulate: {}", micro_batches))
          .point.run.host.bytes.count;
    };
    const std::int64_t one = host_bytes(1);
    CHECK(host_bytes(32) < 12 * one);
    CHECK(host_bytes(32) == host_bytes(16));
  }

  TEST_CASE("the next forward begins while NVMe still writes this step's state") {
    const Simulated s = simulate_with("offload_optimizer: {tier: nvme}", "", ", steps: 2");
    const Duration forward = s.point.run.phase[static_cast<std::size_t>(Phase::kForward)];
    CHECK(s.busy(Stream::kNvmeWrite) > 2 * forward);
  }

  TEST_CASE("a budget that a step does not keep to is a result that says by how much") {
    for (const char* policy : {"belady", "capuchin", "karma", "flashneuron", "hybrid"}) {
      CAPTURE(policy);
      const PointResult missed = simulate_with(fmt::format("{}: {{budget: 1MiB}}", policy)).point;
      CHECK(missed.status == PointStatus::kInfeasible);
      CHECK(missed.run.status == RunStatus::kCompleted);
      REQUIRE(missed.failure.has_value());
      const std::string& reason = missed.failure->reason;
      CHECK(reason.find(fmt::format("{}: the budget of 1 MiB is missed by", policy)) == 0);
      CHECK(reason.find(format_bytes(missed.run.live.bytes)) != std::string::npos);
    }
    const std::int64_t kept = simulate_with("").point.run.live.bytes.count;
    const PointResult given = simulate_with(fmt::format("belady: {{budget: {}}}", kept)).point;
    const auto document = result_document(std::span(&given, 1));
    CHECK(document["points"][0]["policies"][0]["budget"] == kept);
    CHECK(document["points"][0]["policies"][0]["simulated_peak"] == kept);
    const auto status = [](std::int64_t budget) {
      return simulate_with(fmt::format("belady: {{budget: {}}}", budget)).point.status;
    };
    CHECK(status(kept) == PointStatus::kFits);
  }

  TEST_CASE("what lives on the host takes nothing of a budget of live bytes") {
    for (const char* placed :
         {"offload_optimizer: {gradients: backward}, ",
          "offload_optimizer: {}, offload_parameters: {min_elements: 1000}, "}) {
      const std::int64_t live = simulate_with(placed).point.run.live.bytes.count;
      for (const char* policy : {"belady", "capuchin", "karma", "hybrid", "superneurons"}) {
        CAPTURE(placed);
        CAPTURE(policy);
        const PointResult fits =
            simulate_with(fmt::format("{}{}: {{budget: {}}}", placed, policy, live)).point;
        CHECK(fits.status == PointStatus::kFits);
        CHECK(fits.policies.back().offloaded == Bytes(0));
      }
      const PointResult less =
          simulate_with(fmt::format("{}belady: {{budget: {}}}", placed, live - 1)).point;
      CHECK(less.policies.back().decided > 0);
    }
  }

  TEST_CASE("windows and distances beyond the model move nothing, or all of it") {
    const PointResult wide = simulate_with("stronghold: {window: 2147483647}").point;
    CHECK(wide.status == PointStatus::kFits);
    CHECK(wide.policies[0].decided == 0);
    const std::string far = "offload_activations: {min_bytes: 1KiB, prefetch: ";
    CHECK(simulate_with(far + "2147483647}").point.run.live.bytes.count ==
          simulate_with(far + "6}").point.run.live.bytes.count);
  }

  TEST_CASE("inputs of residual blocks leave in every step, though blocks add to them in place") {
    const Scenario scenario = decode(
        "model: resnet18\nhardware: h100-sxm-80gb\n"
        "training: {micro_batch: 2, precision: fp32, accumulate: 2}\n"
        "policies: [checkpoint_every, offload_checkpoints: {variant: simple, min_bytes: 1KiB}]\n");
    const TrainedModel model = build_training(scenario);
    const PointResult point = simulate(scenario, model, {.smallest_capacity = false});
    REQUIRE(point.status == PointStatus::kFits);
    // The eight blocks have three maps of 64 x 56^2 values, two of 128 x 28^2, two of 256 x 14^2,
    // one of 512 x 7^2; of 2 samples in 4 bytes, in both micro-batches.
    constexpr std::int64_t kValues =
        3 * 64 * 56 * 56 + 2 * 128 * 28 * 28 + 2 * 256 * 14 * 14 + 512 * 7 * 7;
    CHECK(point.policies[1].offloaded.count == kValues * 2 * 4 * 2);
  }

  TEST_CASE("an optimizer without an implementation on the CPU is refused by name") {
    const std::string problem = error_of(
        [] { static_cast<void>(simulate_with("offload_optimizer: {}", "", ", optimizer: muon")); });
    CHECK(problem.find("muon has no implementation on the CPU") != std::string::npos);
  }

  TEST_CASE("Capuchin recomputes once the link is full of swaps, and is faster for it") {
    // The link moves a layer's saved tensors in several times the layer's compute: the first swaps
    // are hidden, those behind them wait.
    for (const std::string_view budget : {"82%", "88%"}) {
      CAPTURE(std::string(budget));
      const Comparison comparison = compare(
          parse_document(
              fmt::format("{{model: {{preset: gpt2, layers: 6}}, hardware: a100-sxm-40gb, "
                          "training: {{micro_batch: 4, sequence: 1024}}, compare: {{policies: "
                          "[[capuchin: {{recompute: false}}], [capuchin]], budgets: [{}]}}}}",
                          budget),
              "s.yaml"),
          default_environment(), 1);
      REQUIRE(comparison.points.size() == 2);
      const PointResult& swaps = comparison.points[0].result;
      const PointResult& both = comparison.points[1].result;
      REQUIRE(swaps.status == PointStatus::kFits);
      REQUIRE(both.status == PointStatus::kFits);
      CHECK(swaps.policies[0].recomputed_operators == 0);
      CHECK(both.policies[0].recomputed_operators > 0);
      CHECK(2 * both.run.exposed_transfer < swaps.run.exposed_transfer);
      CHECK(4 * both.run.step < 3 * swaps.run.step);
    }
  }
}

}  // namespace tidemark::scenarios_offload_policies_test
