// FSDP, ZeRO and Megatron's distributed optimizer: what one rank holds and when, against formulas
// that are written down here once more.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/scenarios/linear_chains.hpp"

namespace tidemark::sharding_test {
namespace {

using test::chain;
using test::elements;
using test::Widths;

PointResult simulated(const Widths& widths, int count, const std::string& policies,
                      const std::string& training, const std::string& optimizer = "adamw") {
  return test::simulate_fitting(test::chain_text(
      chain(widths), fmt::format("count: {}, node: 1024", count), policies,
      fmt::format("optimizer: {{name: {}, implementation: loop}}, {}", optimizer, training)));
}

std::int64_t up(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}

struct Held {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t states = 0;
  friend bool operator==(const Held&, const Held&) = default;
};

Held held(const PointResult& point) {
  return {point.parameters.count, point.gradients.count, point.optimizer_state.count};
}

// Rows of the first axis: every rank stores as many as the first one owns.
Held fsdp2(const Widths& w, int ranks) {
  Held sum;
  for (std::size_t i = 1; i < w.size(); ++i) {
    for (const std::int64_t row : {w[i - 1], std::int64_t{1}}) {
      const std::int64_t stored = up(w[i], ranks) / ranks * row;
      const std::int64_t owned = std::min(w[i], up(w[i], ranks) / ranks) * row;
      sum.parameters += 4 * stored;
      sum.gradients += 4 * stored;
      sum.states += 8 * owned;
    }
  }
  return sum;
}

Held fsdp1(const Widths& w, int ranks, bool aligned) {
  Held sum;
  for (std::size_t i = 1; i < w.size(); ++i) {
    std::int64_t total = w[i] * w[i - 1];
    if (aligned) total = up(total, 8);
    total += w[i];
    const std::int64_t shard = up(total, ranks) / ranks;
    sum.parameters += 4 * shard;
    sum.gradients += 4 * shard;
    sum.states += 8 * shard;
  }
  return sum;
}

Held zero3(const Widths& w, int ranks) {
  std::int64_t parts = 0;
  for (std::size_t i = 1; i < w.size(); ++i)
    parts += up(w[i] * w[i - 1], ranks) / ranks + up(w[i], ranks) / ranks;
  return {2 * parts, 2 * parts, 12 * parts};
}

Held megatron(const Widths& w, int ranks) {
  std::int64_t at = 0;
  for (std::size_t i = w.size(); i-- > 1;) {
    at = up(at, 64) + w[i];  // the bias is registered behind the weight
    at = up(at, 64) + w[i] * w[i - 1];
  }
  at = up(at, std::lcm(ranks, 128));
  return {2 * at, 4 * at, 12 * (at / ranks)};
}

constexpr const char* kFsdp = "precision: fp32";
constexpr const char* kMixed = "precision: bf16_mixed";
constexpr const char* kMegatron = "precision: bf16_mixed, gradient_dtype: fp32";

Widths random_widths(std::mt19937& random) {
  std::uniform_int_distribution<std::int64_t> width(1, 90);
  Widths widths;
  for (int i = 0; i < 5; ++i)
    widths.push_back(width(random));
  return widths;
}

// FSDP2's buffers over a step of equal units without activations to speak of, replayed by the rules
// of fully_shard: returns the highest sum of gathered parameters, buffers and gradients.
std::int64_t fsdp2_peak(const std::vector<std::int64_t>& units, int ranks) {
  std::int64_t live = 0;
  std::int64_t peak = 0;
  const auto add = [&](std::int64_t bytes) { peak = std::max(peak, live += bytes); };
  const auto shard = [&](std::size_t u) { return units[u] / ranks; };
  for (std::size_t u = 0; u < units.size(); ++u) {  // forward
    add(2 * shard(u));
    add(2 * units[u]);
    add(-2 * shard(u));
    if (u > 0) add(-2 * units[u - 1]);
    add(2 * units[u]);
    add(-2 * units[u]);
  }
  add(-2 * units.back());
  const std::size_t last = units.size() - 1;
  add(2 * shard(last));
  add(2 * units[last]);
  add(-2 * shard(last));
  for (std::size_t u = units.size(); u-- > 0;) {  // backward
    add(2 * units[u]);
    add(-2 * units[u]);
    if (u > 0) {
      add(2 * shard(u - 1));
      add(2 * units[u - 1]);
      add(-2 * shard(u - 1));
    }
    add(2 * units[u]);   // gradients
    add(-2 * units[u]);  // parameters
    if (u < last) add(-4 * units[u + 1]);
    add(4 * units[u]);
    add(-2 * units[u]);
    add(4 * shard(u));
  }
  return peak;
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("muon leaves flat parts of matrices to AdamW, as the warning says") {
    const Widths widths{64, 128, 256, 64};
    const auto on_four = [&](const std::string& policies, const std::string& optimizer) {
      return simulated(widths, 4, policies, "precision: bf16_mixed", optimizer);
    };
    for (const std::string policy :
         {"zero: {stage: 3, persistent_below: 0}", "fsdp: {version: 1}"}) {
      CAPTURE(policy);
      const PointResult muon = on_four(policy, "muon");
      CHECK(held(muon).states == held(on_four(policy, "adamw")).states);
      REQUIRE(muon.warnings.size() == 1);
      CHECK(muon.warnings.front().find("AdamW updates those") != std::string::npos);
    }
    // Rows of a matrix are a matrix; replicas have whole ones.
    for (const std::string policy : {"", "fsdp: {version: 2}"}) {
      CAPTURE(policy);
      const PointResult muon = on_four(policy, "muon");
      CHECK(held(muon).states < held(on_four(policy, "adamw")).states);
      CHECK(muon.warnings.empty());
    }
  }

  TEST_CASE("N ranks that update a part each move what replicas move on one of them") {
    constexpr int kRanks = 4;
    const Widths widths{64, 128, 256, 64};
    const auto moved = [&](const std::string& policies, const std::string& implementation) {
      const std::string text = fmt::format(
          "{{model: {}, hardware: {{gpu: h100-sxm-80gb, count: {}}}, training: {{micro_batch: 2, "
          "loss: mse, precision: bf16_mixed, optimizer: {{name: adam, implementation: {}}}}}, "
          "policies: [{}]}}",
          chain(widths), kRanks, implementation, policies);
      const PointResult point =
          simulate_points(parse_document(text, "s.yaml"), environment(), 1, {}).front();
      REQUIRE_MESSAGE(point.status == PointStatus::kFits, point.error);
      double bytes = 0;
      for (const auto& [op_class, sum] : point.breakdown.by_class) {
        if (op_class == OperatorClass::kOptimizer) bytes = static_cast<double>(sum.bytes.count);
      }
      return bytes;
    };
    for (const std::string implementation : {"loop", "foreach", "fused"}) {
      CAPTURE(implementation);
      const double whole = moved("", implementation);
      CHECK(whole > 0);
      for (const std::string policy :
           {"zero: {stage: 1}", "zero: {stage: 2}", "zero: {stage: 3, persistent_below: 0}",
            "zero: {stage: 3, persistent_below: 0, sub_group: 5000}"}) {
        CAPTURE(policy);
        // ZeRO converts gradients to fp32 before its optimizer, which reads 2 bytes more of 28 and
        // need not convert them itself.
        CHECK(kRanks * moved(policy, implementation) == doctest::Approx(whole).epsilon(0.08));
      }
    }
  }
}

TEST_SUITE("property") {
  TEST_CASE("one rank's shards are those of the systems, whatever the shapes and the ranks") {
    std::mt19937 random(17);
    for (int round = 0; round < 6; ++round) {
      const Widths w = random_widths(random);
      for (const int ranks : {2, 3, 8, 96}) {
        CAPTURE(fmt::format("{} ranks, widths {}", ranks, fmt::join(w, " ")));
        const auto with = [&](const char* policy, const char* training) {
          return held(simulated(w, ranks, policy, training));
        };
        CHECK(with("fsdp: {param_dtype: bf16, reduce_dtype: fp32}", kFsdp) == fsdp2(w, ranks));
        CHECK(with("fsdp: {version: 1, param_dtype: bf16}", kFsdp) == fsdp1(w, ranks, false));
        CHECK(with("fsdp: {version: 1, param_dtype: bf16, use_orig_params: true}", kFsdp) ==
              fsdp1(w, ranks, true));
        CHECK(with("zero: {stage: 3, persistent_below: 0}", kMixed) == zero3(w, ranks));
        const std::int64_t flat = up(elements(w), 2 * ranks);
        const Held one = with("zero: {stage: 1}", kMixed);
        CHECK(one == Held{2 * flat, 2 * elements(w), 12 * (flat / ranks)});
        const Held two = with("zero: {stage: 2}", kMixed);
        CHECK(two.parameters == one.parameters);
        CHECK(two.states == one.states);
        CHECK(two.gradients <= one.gradients);
        CHECK(two.gradients >= 2 * std::min(elements(w), flat / ranks));
        CHECK(with("distributed_optimizer: {}", kMegatron) == megatron(w, ranks));
      }
    }
  }

  TEST_CASE("FSDP2's buffers come and go as fully_shard's references do") {
    std::mt19937 random(4);
    for (const int ranks : {2, 4, 16}) {
      Widths w;
      std::uniform_int_distribution<std::int64_t> width(8, 40);
      for (int i = 0; i < 6; ++i)
        w.push_back(width(random) * 64);
      // Activations are 2 x width: too few to matter beside weights, but they are there.
      std::vector<std::int64_t> units;
      for (std::size_t i = 1; i < w.size(); ++i)
        units.push_back(w[i] * (w[i - 1] + 1));
      const PointResult point = simulated(
          w, ranks, "fsdp: {param_dtype: bf16, reduce_dtype: fp32, reshard_after_forward: true}",
          kFsdp, "sgd");
      std::int64_t kept = point.parameters.count + point.inputs.count;
      const std::int64_t transient =
          std::max(point.run.phase_live_without_workspace[0].bytes.count,
                   point.run.phase_live_without_workspace[1].bytes.count) -
          kept;
      const std::int64_t expected = fsdp2_peak(units, ranks);
      CAPTURE(ranks);
      CHECK(transient >= expected);
      CHECK(static_cast<double>(transient) < 1.01 * static_cast<double>(expected));
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("on one rank sharding changes nothing") {
    const Widths w{64, 96, 32};
    const PointResult plain = simulated(w, 1, "", kMixed);
    for (const char* policy : {"fsdp: {}", "zero: {stage: 1}", "zero: {stage: 2}",
                               "zero: {stage: 3}", "distributed_optimizer: {}"}) {
      CAPTURE(policy);
      const PointResult one = simulated(w, 1, policy, kMixed);
      CHECK(one.run.live.bytes == plain.run.live.bytes);
      CHECK(one.run.step == plain.run.step);
      CHECK(held(one) == held(plain));
    }
  }

  TEST_CASE("micro-batches add to the shards, and each is gathered again") {
    const Widths w{64, 96, 32, 48};
    const char* policy = "fsdp: {param_dtype: bf16, reduce_dtype: fp32}";
    const PointResult one = simulated(w, 4, policy, kFsdp);
    const PointResult three = simulated(w, 4, policy, "precision: fp32, accumulate: 3");
    REQUIRE(one.communication.size() == 2);
    REQUIRE(three.communication.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(three.communication[i].count == 3 * one.communication[i].count);
      CHECK(three.communication[i].bytes.count == 3 * one.communication[i].bytes.count);
    }
    CHECK(held(three) == held(one));
  }

  TEST_CASE("gradients that are filled with zeros are the sharded ones only") {
    const Widths w{64, 96, 32, 48};
    for (const char* policy :
         {"zero: {stage: 2}", "zero: {stage: 3}", "fsdp: {}", "distributed_optimizer: {}"}) {
      CAPTURE(policy);
      const PointResult point =
          simulated(w, 8, policy, "precision: bf16_mixed, zero_grad: zero, accumulate: 3");
      const std::int64_t stays = point.parameters.count + point.gradients.count +
                                 point.optimizer_state.count + point.inputs.count;
      // Buffers that stay, and small parameters of stage 3, are no gradients.
      const bool third = std::string(policy) == "zero: {stage: 3}";
      const std::int64_t more = third ? 1'000'000'000 + 2 * (elements(w) + 64) : 0;
      CHECK(point.run.between_steps.count >= stays);
      CHECK(point.run.between_steps.count <= stays + more);
    }
  }

  TEST_CASE("resharding gathers twice and keeps less") {
    const Widths w{256, 512, 512, 512, 512, 256};
    const PointResult freed = simulated(w, 4, "fsdp: {reshard_after_forward: true}", kFsdp);
    const PointResult kept = simulated(w, 4, "fsdp: {reshard_after_forward: false}", kFsdp);
    const auto gathered = [](const PointResult& point) {
      for (const Communication& used : point.communication) {
        if (used.kind == CollectiveKind::kAllGather) return used.bytes.count;
      }
      return std::int64_t{0};
    };
    CHECK(gathered(freed) == 2 * gathered(kept));
    CHECK(freed.run.live.bytes < kept.run.live.bytes);
  }

  TEST_CASE("version 1 does not free its root behind forward") {
    const Widths w{256, 512, 512, 256};
    const auto gathers = [&](const std::string& options) {
      std::int64_t count = 0;
      for (const Communication& used :
           simulated(w, 4, "fsdp: {" + options + "}", kFsdp).communication)
        count += used.kind == CollectiveKind::kAllGather ? used.count : 0;
      return count;
    };
    // The only unit is the root: gathered once in version 1, whatever is asked for, and twice in
    // version 2 where that is asked for. Units below it are gathered twice.
    for (const char* reshard : {"true", "false"}) {
      CAPTURE(reshard);
      CHECK(gathers(fmt::format("version: 1, units: whole, reshard_after_forward: {}", reshard)) ==
            1);
    }
    CHECK(gathers("version: 2, units: whole, reshard_after_forward: true") == 2);
    CHECK(gathers("version: 1, reshard_after_forward: true") == 6);
  }

  TEST_CASE("checkpoints and shards compose in either order") {
    const Widths w{256, 512, 512, 512, 512, 256};
    for (const char* policy :
         {"fsdp: {param_dtype: bf16}", "fsdp: {version: 1}", "zero: {stage: 3}"}) {
      CAPTURE(policy);
      const std::string checkpoint = "checkpoint_every: {period: 1}";
      const PointResult first = simulated(w, 4, fmt::format("{}, {}", policy, checkpoint), kFsdp);
      const PointResult last = simulated(w, 4, fmt::format("{}, {}", checkpoint, policy), kFsdp);
      CHECK(first.run.live.bytes == last.run.live.bytes);
      CHECK(first.run.step == last.run.step);
      CHECK(first.run.recompute > Duration(0));
    }
  }

  TEST_CASE("micro-batches in flight recompute behind the gathers of one another") {
    // A later micro-batch's forward gathers a unit anew: its parameters are the same.
    const Widths w{256, 512, 512, 512, 256};
    const std::string training = "precision: fp32, accumulate: 4";
    const std::string checkpointed = "pipeline: {size: 2}, checkpoint_every: {period: 1}";
    const PointResult alone = simulated(w, 2, checkpointed, training);
    for (const char* policy :
         {"fsdp: {}", "fsdp: {reshard_after_forward: true}", "fsdp: {reshard_after_forward: false}",
          "fsdp: {version: 1}", "zero: {stage: 3, persistent_below: 0, max_reuse_distance: 0}"}) {
      CAPTURE(policy);
      const PointResult point =
          simulated(w, 8, fmt::format("{}, {}", policy, checkpointed), training);
      CHECK(point.saved_activations == alone.saved_activations);
      for (const PolicyOutcome& outcome : point.policies)
        CHECK(outcome.refused == 0);
    }
  }

  TEST_CASE("in a pipeline a unit that forward does not free is gathered once in a step") {
    const Widths w{256, 512, 512, 512, 256};
    const auto with = [&](const char* reshard) {
      return simulated(w, 8,
                       fmt::format("pipeline: {{size: 2}}, fsdp: {{param_dtype: bf16, "
                                   "reshard_after_forward: {}}}",
                                   reshard),
                       "precision: fp32, accumulate: 4");
    };
    const auto gathers = [](const PointResult& point) {
      std::int64_t count = 0;
      for (const Communication& used : point.communication)
        count += used.kind == CollectiveKind::kAllGather ? used.count : 0;
      return count;
    };
    const PointResult kept = with("false");
    const PointResult freed = with("true");
    CHECK(gathers(kept) == 2);  // the blocks of a stage
    // Forward and backward of each micro-batch; the first stage's last two backwards follow one
    // another.
    CHECK(gathers(freed) == 2 * (4 + 3));
    REQUIRE(kept.stages.size() == 2);
    // All of a stage's parameters are there at its peak, in bf16.
    for (const StageResult& stage : kept.stages) {
      const Bytes gathered =
          stage.point.peak.by_role[static_cast<std::size_t>(Role::kGatheredParameter)];
      const std::int64_t blocks = stage.stage == 0 ? 512 * 257 + 512 * 513 : 512 * 513 + 256 * 513;
      CHECK(gathered.count == 2 * blocks);
    }
  }

  TEST_CASE("replicas of a shard add their gradients") {
    const Widths w{64, 128, 64};
    const PointResult hybrid =
        simulated(w, 8, "fsdp: {shard: 4, param_dtype: bf16, reduce_dtype: fp32}", kFsdp);
    const PointResult four =
        simulated(w, 4, "fsdp: {param_dtype: bf16, reduce_dtype: fp32}", kFsdp);
    CHECK(held(hybrid) == held(four));
    std::int64_t replicated = 0;
    for (const Communication& used : hybrid.communication) {
      if (used.group == MeshDimension::kReplicate) replicated += used.bytes.count;
    }
    CHECK(replicated == hybrid.gradients.count);
  }

  // PyTorch's FSDPParamGroup keeps the input of its all-reduce until backward is over.
  TEST_CASE("what is summed over replicas in another type than fp32 stays until backward ends") {
    const Widths w{256, 256, 256, 256, 256, 256, 256, 256, 256, 256, 256};
    const auto more = [&](const std::string& reduce) {
      const auto backward = [&](int count, const std::string& shard) {
        return simulated(
                   w, count,
                   fmt::format("fsdp: {{{}param_dtype: bf16, reduce_dtype: {}}}", shard, reduce),
                   kFsdp)
            .run.phase_live_without_workspace[1]
            .bytes.count;
      };
      return backward(8, "shard: 4, ") - backward(4, "");
    };
    const std::int64_t gradients =
        simulated(w, 8, "fsdp: {shard: 4, param_dtype: bf16, reduce_dtype: bf16}", kFsdp)
            .gradients.count;
    CHECK(more("fp32") == 0);
    // All but the last unit's, which is there without replicas as well.
    CHECK(more("bf16") <= gradients / 2);
    CHECK(more("bf16") >= gradients / 2 * 8 / 10);
  }

  TEST_CASE("with no_sync gradients of full size add up and the last micro-batch reduces them") {
    const Widths w{256, 512, 512, 512, 256};
    const auto reduced = [](const PointResult& point) {
      std::int64_t count = 0;
      for (const Communication& used : point.communication) {
        if (used.kind == CollectiveKind::kReduceScatter) count += used.count;
      }
      return count;
    };
    const auto forward = [](const PointResult& point) {
      return point.run.phase_live_without_workspace[0].bytes.count;
    };
    struct Case {
      const char* options;
      std::int64_t bytes;  // of a kept gradient's element
    };
    for (const Case& c : {Case{"param_dtype: bf16, reduce_dtype: fp32", 4},  // cast to be added up
                          Case{"reshard_after_forward: true", 4},            // autograd's own
                          Case{"version: 1, param_dtype: bf16", 2}}) {
      CAPTURE(c.options);
      const auto with = [&](const char* more, const char* training) {
        return simulated(w, 4, fmt::format("fsdp: {{{}{}}}", c.options, more), training);
      };
      const char* three = "precision: fp32, accumulate: 3";
      const PointResult each = with("", three);
      const PointResult last = with(", no_sync: true", three);
      CHECK(reduced(each) == 12);  // 4 units, 3 micro-batches
      CHECK(reduced(last) == 4);
      CHECK(held(last) == held(each));
      // The forward of a later micro-batch has whole gradients beside it, not a quarter in fp32.
      CHECK(forward(last) - forward(each) == (c.bytes - 1) * elements(w));
      // One micro-batch is the same either way.
      CHECK(with(", no_sync: true", kFsdp).run.step == with("", kFsdp).run.step);
    }
  }

  TEST_CASE("replicas may add their gradients in the last micro-batch only") {
    const Widths w{64, 128, 64};
    const auto added = [&](const char* more) {
      const PointResult point = simulated(
          w, 8, fmt::format("fsdp: {{shard: 4, param_dtype: bf16, reduce_dtype: fp32{}}}", more),
          "precision: fp32, accumulate: 3");
      for (const Communication& used : point.communication) {
        if (used.group == MeshDimension::kReplicate) return used.bytes.count;
      }
      return std::int64_t{0};
    };
    const std::int64_t shard = held(simulated(w, 4, "fsdp: {param_dtype: bf16}", kFsdp)).gradients;
    CHECK(added("") == 3 * shard);
    CHECK(added(", all_reduce_each: false") == shard);
  }

  TEST_CASE("gradients that wait for their replicas do so on the device as they are reduced") {
    const Widths w{64, 128, 128, 128, 64};
    const auto with = [&](std::string_view options) {
      return simulated(
          w, 8, fmt::format("fsdp: {{shard: 4, param_dtype: bf16, offload: host, {}}}", options),
          "precision: fp32, accumulate: 3");
    };
    const PointResult bf16 = with("reduce_dtype: bf16, all_reduce_each: false");
    const PointResult fp32 = with("reduce_dtype: fp32, all_reduce_each: false");
    const PointResult each = with("reduce_dtype: bf16");
    // Replicas send their sums in the type of the reduction.
    const auto sent = [](const PointResult& point) {
      std::int64_t bytes = 0;
      for (const Communication& used : point.communication) {
        if (used.group == MeshDimension::kReplicate) bytes += used.bytes.count;
      }
      return bytes;
    };
    CHECK(sent(fp32) == 2 * sent(bf16));
    CHECK(sent(bf16) == 2 * elements(w) / 4);
    // A later micro-batch's forward has the sum of the shards, in that type, beside what it had.
    const auto forward = [](const PointResult& point) {
      return point.run.phase_live_without_workspace[0].bytes.count;
    };
    CHECK(forward(bf16) - forward(each) == 2 * elements(w) / 4);
    CHECK(forward(fp32) - forward(each) == 4 * elements(w) / 4);
    // A step ends with what it began with.
    CHECK(bf16.run.between_steps == each.run.between_steps);
    // In a pipeline whole gradients wait, as with no_sync.
    static_cast<void>(simulated(w, 8,
                                "fsdp: {shard: 2, all_reduce_each: false}, pipeline: {size: 2}",
                                "precision: fp32, accumulate: 4"));
  }

  TEST_CASE("shards on the host leave nothing on the device between steps") {
    const Widths w{256, 512, 512, 512, 256};
    for (const char* options : {"param_dtype: bf16, reduce_dtype: fp32", "version: 1"}) {
      CAPTURE(options);
      const PointResult device = simulated(w, 4, fmt::format("fsdp: {{{}}}", options), kFsdp);
      const PointResult host =
          simulated(w, 4, fmt::format("fsdp: {{{}, offload: host}}", options), kFsdp);
      // 16 bytes of parameters, gradients and moments per element of the shard.
      CHECK(device.run.between_steps.count - host.run.between_steps.count == 4 * elements(w));
      CHECK(held(host) == held(device));
    }
  }

  TEST_CASE("ZeRO's offloaded states leave the device, with gradients and their copies") {
    const Widths w{256, 512, 512, 512, 256};
    const auto with = [&](const std::string& options) {
      return simulated(
          w, 4, fmt::format("zero: {{reduce_bucket: 500000, persistent_below: 0, {}}}", options),
          kMixed);
    };
    const auto between = [](const PointResult& point) { return point.run.between_steps.count; };
    const std::int64_t all = elements(w);
    const auto stage2 = [&](const std::string& more) {
      return simulated(w, 4, fmt::format("zero: {{stage: 2, reduce_bucket: 500000{}}}", more),
                       kMixed);
    };
    const PointResult two = stage2("");
    const PointResult two_away = stage2(", offload: {optimizer: host}");
    CHECK(between(two_away) == two_away.parameters.count + two_away.inputs.count);
    CHECK(between(two) - between(two_away) == two.gradients.count + 12 * all / 4);
    CHECK(stage2(", offload_optimizer: {device: cpu}").run.step == two_away.run.step);
    const PointResult three = with("stage: 3");
    const PointResult optimizer = with("stage: 3, offload: {optimizer: host}");
    const PointResult both = with("stage: 3, offload: {optimizer: host, parameters: host}");
    CHECK(between(three) - between(optimizer) == (2 + 12) * all / 4);
    CHECK(between(optimizer) - between(both) == 2 * all / 4);
  }

  TEST_CASE("an evaluation shards its parameters too") {
    const Widths w{64, 96, 32};
    const PointResult point = simulated(w, 4, "zero: {stage: 3, persistent_below: 0}",
                                        "precision: bf16_mixed, mode: forward");
    CHECK(point.parameters.count == zero3(w, 4).parameters);
  }

  TEST_CASE("a flat parameter has states for what is trained in it") {
    // One unit of 4 rows of 96 + 4 elements: the biases alone are trained, 4 of 100 per block.
    const Widths w{8, 8, 8};
    const PointResult point = simulated(w, 2,
                                        "fsdp: {version: 1, use_orig_params: true, units: whole}, "
                                        "freeze: {layers: [\"*weight\"]}",
                                        kFsdp);
    // Elements: weight 64, bias 8, weight 64, bias 8: 144 in all, 72 on each rank, of which 8 are
    // trained.
    CHECK(point.parameters.count == 4 * 72);
    CHECK(point.optimizer_state.count == 8 * 8);
  }

  TEST_CASE("what cannot be is said where it stands") {
    const auto message = [](const std::string& policies, int count) {
      return refusal(
          fmt::format("model: gpt2\nhardware: {{gpu: h100-sxm-80gb, count: {}}}\n"
                      "policies: [{}]\n",
                      count, policies));
    };
    CHECK(message("fsdp: {shard: 3}", 8).find("shard groups of 3 do not divide the 8 replicas") !=
          std::string::npos);
    CHECK(message("fsdp: {use_orig_params: true}", 8).find("write version: 1") !=
          std::string::npos);
    CHECK(message("fsdp: {limit_all_gathers: false}", 8).find("write version: 1") !=
          std::string::npos);
    CHECK(message("fsdp: {version: 1, all_reduce_each: false}", 8).find("write version: 2") !=
          std::string::npos);
    CHECK(message("fsdp: {no_sync: true, all_reduce_each: false}", 8)
              .find("only the last micro-batch reduces anything") != std::string::npos);
    CHECK(message("zero: {stage: 2, offload: {parameters: host}}", 8).find("write stage: 3") !=
          std::string::npos);
    CHECK(message("zero: {stage: 2, offload: {optimiser: host}}", 8)
              .find("expected optimizer or parameters") != std::string::npos);
    CHECK(message("fsdp: {}, zero: {stage: 1}", 8).find("'fsdp' reduces the gradients already") !=
          std::string::npos);
    CHECK(message("zero: {stage: 2, reduce_bucket: 5, reduce_bucket_size: 6}", 8)
              .find("give one of them") != std::string::npos);
  }
}

}  // namespace tidemark::sharding_test
