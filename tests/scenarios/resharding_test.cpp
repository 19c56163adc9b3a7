// Gathers in backward among fewer ranks than in forward: FSDP2's reshard_after_forward with a
// number and the second partition of ZeRO++ (hpZ).
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/scenarios/linear_chains.hpp"

namespace tidemark::resharding_test {
namespace {

using test::chain;
using test::elements;
using test::Widths;

PointResult simulated(const Widths& widths, int count, const std::string& policies,
                      const std::string& training, const std::string& hardware = "node: 1024",
                      int linears = 1) {
  return test::simulate_fitting(test::chain_text(
      chain(widths, linears), fmt::format("count: {}, {}", count, hardware), policies, training));
}

// Gathers of the last step by the ranks that take part, 0 for all of the group.
struct Gathers {
  std::int64_t count = 0;
  std::int64_t bytes = 0;
  friend bool operator==(const Gathers&, const Gathers&) = default;
};
Gathers gathers(const PointResult& point, int ranks) {
  Gathers sum;
  for (const Communication& used : point.communication) {
    if (used.kind != CollectiveKind::kAllGather || used.ranks != ranks) continue;
    sum.count += used.count;
    sum.bytes += used.bytes.count;
  }
  return sum;
}

// The highest sums of gathered parameters, buffers and gradients over forward and backward.
struct Peaks {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
};
// Replays a step of fully_shard whose backward gathers among `fewer` ranks by its rules in host
// order: bf16 parameters, an fp32 reduction, units of which all are resharded; `tensors`: the
// elements of each unit's parameters.
Peaks fsdp2_peaks(const std::vector<Widths>& tensors, int ranks, int fewer) {
  std::vector<std::int64_t> units;
  for (const Widths& unit : tensors)
    units.push_back(std::accumulate(unit.begin(), unit.end(), std::int64_t{0}));
  std::int64_t live = 0;
  Peaks peaks;
  bool forward = true;
  const auto add = [&](std::int64_t bytes) {
    std::int64_t& peak = forward ? peaks.forward : peaks.backward;
    peak = std::max(peak, live += bytes);
  };
  const auto gather = [&](std::size_t u, int among) {
    add(2 * units[u] / among);
    add(2 * units[u]);
    add(-2 * units[u] / among);
  };
  for (std::size_t u = 0; u < units.size(); ++u) {  // forward
    gather(u, ranks);
    if (u > 0) add(-2 * units[u - 1]);
    add(2 * units[u]);
    for (const std::int64_t elements : tensors[u]) {
      add(2 * elements / fewer);  // to_sharded_post_forward
      add(-2 * elements);
    }
  }
  add(-2 * units.back());
  forward = false;
  const std::size_t last = units.size() - 1;
  gather(last, fewer);
  for (std::size_t u = units.size(); u-- > 0;) {  // backward
    add(2 * units[u]);
    add(-2 * units[u]);          // the output of the gather
    add(-2 * units[u] / fewer);  // to_unsharded
    if (u > 0) gather(u - 1, fewer);
    add(2 * units[u]);   // gradients
    add(-2 * units[u]);  // parameters
    if (u < last) add(-4 * units[u + 1]);
    add(4 * units[u]);
    add(-2 * units[u]);
    add(4 * units[u] / ranks);
  }
  return peaks;
}

constexpr const char* kFsdp = "precision: fp32, optimizer: {name: sgd, implementation: loop}";
constexpr const char* kMixed = "precision: bf16_mixed";

std::string fsdp(const std::string& reshard) {
  return fmt::format("fsdp: {{param_dtype: bf16, reduce_dtype: fp32, reshard_after_forward: {}}}",
                     reshard);
}
std::string hpz(int ranks, const char* more = "") {
  return fmt::format(
      "zero: {{stage: 3, persistent_below: 0, max_reuse_distance: 0, reduce_bucket: 1000, "
      "zero_hpz_partition_size: {}{}}}",
      ranks, more);
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("the shards of a smaller group live from a unit's forward to its backward") {
    std::mt19937 random(11);
    std::uniform_int_distribution<std::int64_t> width(8, 40);
    struct Case {
      int ranks;
      int fewer;
    };
    for (const Case& c : {Case{4, 2}, Case{16, 2}, Case{16, 8}, Case{64, 4}}) {
      CAPTURE(c.ranks);
      CAPTURE(c.fewer);
      Widths w;
      for (int i = 0; i < 6; ++i)
        w.push_back(width(random) * 64);
      for (const int linears : {1, 4}) {
        CAPTURE(linears);
        std::vector<Widths> units;
        for (std::size_t i = 1; i < w.size(); ++i) {
          Widths& unit = units.emplace_back(Widths{w[i] * w[i - 1], w[i]});
          for (int l = 1; l < linears; ++l)
            unit.insert(unit.end(), {w[i] * w[i], w[i]});
        }
        const PointResult point =
            simulated(w, c.ranks, fsdp(fmt::to_string(c.fewer)), kFsdp, "node: 1024", linears);
        const std::int64_t kept = point.parameters.count + point.inputs.count;
        const Peaks expected = fsdp2_peaks(units, c.ranks, c.fewer);
        // Activations are 2 x width: few beside weights, but they are there.
        const auto near = [&](std::size_t phase, std::int64_t bytes) {
          CAPTURE(phase);
          const std::int64_t transient =
              point.run.phase_live_without_workspace[phase].bytes.count - kept;
          CHECK(transient >= bytes);
          CHECK(static_cast<double>(transient) < 1.01 * static_cast<double>(bytes));
        };
        near(0, expected.forward);
        near(1, expected.backward);
      }
    }
  }

  TEST_CASE("random chains under random policies verify with gathers from fewer ranks") {
    std::mt19937 random(23);
    const auto pick = [&](const std::vector<std::string>& words) {
      return words[std::uniform_int_distribution<std::size_t>(0, words.size() - 1)(random)];
    };
    std::uniform_int_distribution<std::int64_t> width(1, 90);
    for (int trial = 0; trial < 40; ++trial) {
      Widths w;
      for (int i = 0; i < 6; ++i)
        w.push_back(width(random));
      std::vector<std::string> policies{
          pick({fsdp("2"), fsdp("4"), "fsdp: {reshard_after_forward: 2, prefetch: none}",
                "fsdp: {reshard_after_forward: 4, shard: 8, no_sync: true}",
                "fsdp: {reshard_after_forward: 2, offload: host, units: whole}", hpz(2), hpz(4),
                hpz(8), hpz(2, ", offload: {optimizer: host, parameters: host}"),
                "zero: {stage: 3, persistent_below: 0, zero_hpz_partition_size: 4}",
                "zero: {stage: 3, persistent_below: 60, max_reuse_distance: 5000, "
                "zero_hpz_partition_size: 2}"})};
      const std::string more =
          pick({"", "checkpoint_every: {period: 1}", "checkpoint_every: {period: 2}",
                "offload_activations: {}", "selective: {recompute: [gelu]}",
                "freeze: {layers: ['*weight']}", "freeze: {layers: ['0*', '1*']}",
                "freeze: {layers: ['*'], except: ['4*']}", "freeze: {layers: ['2*']}",
                "compress_activations: {bits: 8}"});
      if (!more.empty()) policies.push_back(more);
      std::shuffle(policies.begin(), policies.end(), random);
      const std::string list = fmt::format("{}", fmt::join(policies, ", "));
      const std::string training = fmt::format(
          "precision: bf16_mixed, accumulate: {}, steps: 3{}", pick({"1", "2", "3"}),
          pick({"", ", loss_scale: dynamic", ", clip_grad_norm: 1.0", ", zero_grad: zero"}));
      CAPTURE(list);
      CAPTURE(training);
      const bool refused = list.find("no_sync") != std::string::npos &&
                           training.find("zero_grad") != std::string::npos;
      if (!refused) static_cast<void>(simulated(w, 16, list, training));
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("backward gathers as many bytes as forward, among fewer ranks") {
    const Widths w{64, 128, 192, 128, 64};
    const std::int64_t bytes = 2 * elements(w);
    for (const int fewer : {2, 4, 8}) {
      CAPTURE(fewer);
      const PointResult point = simulated(w, 16, fsdp(fmt::to_string(fewer)), kFsdp);
      CHECK(gathers(point, 0) == Gathers{4, bytes});
      CHECK(gathers(point, fewer) == Gathers{4, bytes});
      // Each micro-batch begins with shards of all ranks again.
      const PointResult three =
          simulated(w, 16, fsdp(fmt::to_string(fewer)), std::string(kFsdp) + ", accumulate: 3");
      CHECK(gathers(three, 0) == Gathers{12, 3 * bytes});
      CHECK(gathers(three, fewer) == Gathers{12, 3 * bytes});
    }
  }

  TEST_CASE("a group of all ranks is true, and a group of one is false") {
    const Widths w{64, 128, 192, 128, 64};
    const auto same = [&](const char* number, const char* word) {
      const PointResult a = simulated(w, 8, fsdp(number), kFsdp);
      const PointResult b = simulated(w, 8, fsdp(word), kFsdp);
      CHECK(a.run.live.bytes == b.run.live.bytes);
      CHECK(a.run.step == b.run.step);
      CHECK(gathers(a, 0) == gathers(b, 0));
    };
    same("8", "true");
    same("1", "false");
    // With replicas the shard group counts.
    const auto hybrid = [&](const char* number) {
      return simulated(w, 16, fmt::format("fsdp: {{shard: 4, reshard_after_forward: {}}}", number),
                       kFsdp);
    };
    const PointResult four = hybrid("4");
    const PointResult all = hybrid("true");
    CHECK(four.run.live.bytes == all.run.live.bytes);
    CHECK(four.run.step == all.run.step);
    CHECK(gathers(all, 0).count == 8);
    CHECK(gathers(four, 0) == gathers(all, 0));
  }

  TEST_CASE("the larger the group, the less is kept between forward and backward") {
    const Widths w(13, 512);
    std::int64_t before = 0;
    for (const char* reshard : {"true", "8", "4", "2", "false"}) {
      CAPTURE(reshard);
      const std::int64_t live = simulated(w, 16, fsdp(reshard), kFsdp).run.live.bytes.count;
      CHECK(live > before);
      before = live;
    }
  }

  TEST_CASE("within a node backward does not wait for the network") {
    const Widths w(7, 4096);
    const auto exposed = [&](const std::string& policy) {
      return simulated(w, 16, policy, kMixed, "node: 4, network: ethernet-100")
          .run.exposed_communication;
    };
    CHECK(exposed(fsdp("4")) < exposed(fsdp("true")));
    CHECK(exposed(fsdp("8")) > exposed(fsdp("4")));  // two nodes
    CHECK(exposed(hpz(4)) < exposed(hpz(1)));
  }

  TEST_CASE("ZeRO's second partition is there from a module's forward to the end of the step") {
    const Widths w{256, 512, 512, 512, 256};
    const PointResult plain = simulated(w, 16, hpz(1), kMixed);
    for (const int ranks : {2, 4, 16}) {
      CAPTURE(ranks);
      const PointResult point = simulated(w, 16, hpz(ranks), kMixed);
      // The optimizer runs beside it, and it is gone when the step is over.
      const auto optimizer = [](const PointResult& p) {
        return p.run.phase_live_without_workspace[2].bytes.count;
      };
      CHECK(optimizer(point) - optimizer(plain) == 2 * elements(w) / ranks);
      CHECK(point.run.between_steps == plain.run.between_steps);
      CHECK(point.parameters == plain.parameters);
      const std::int64_t bytes = 2 * elements(w);
      const int group = ranks == 16 ? 0 : ranks;
      CHECK(gathers(point, group).bytes == (group == 0 ? 2 : 1) * bytes);
      // Only the first micro-batch gathers from all ranks.
      const PointResult three =
          simulated(w, 16, hpz(ranks), std::string(kMixed) + ", accumulate: 3");
      if (group != 0) {
        CHECK(gathers(three, 0) == Gathers{4, bytes});
        CHECK(gathers(three, group) == Gathers{20, 5 * bytes});
      }
      CHECK(three.run.between_steps ==
            simulated(w, 16, hpz(1), std::string(kMixed) + ", accumulate: 3").run.between_steps);
    }
  }

  TEST_CASE("ZeRO's second partition of frozen parameters stays for the run") {
    const Widths w{256, 512, 512, 512, 256};
    const std::int64_t frozen = elements({256, 512, 512});
    const std::int64_t trained = elements({512, 512, 256});
    for (const char* distance : {"1e9", "0"}) {
      CAPTURE(distance);
      for (const int accumulate : {1, 3}) {
        CAPTURE(accumulate);
        const auto point = [&](int secondary, const char* layers) {
          return simulated(w, 16,
                           fmt::format("zero: {{stage: 3, persistent_below: 0, "
                                       "max_reuse_distance: {}, reduce_bucket: 1000, "
                                       "zero_hpz_partition_size: {}}}, freeze: {{layers: [{}]}}",
                                       distance, secondary, layers),
                           fmt::format("{}, accumulate: {}", kMixed, accumulate));
        };
        const PointResult blocks = point(4, "'0*', '1*'");
        const PointResult plain = point(1, "'0*', '1*'");
        CHECK(blocks.run.between_steps - plain.run.between_steps == Bytes(2 * frozen / 4));
        CHECK(blocks.run.phase_live_without_workspace[2].bytes -
                  plain.run.phase_live_without_workspace[2].bytes ==
              Bytes(2 * (frozen + trained) / 4));
        // Frozen units gather from all ranks never, the others in the first forward.
        CHECK(gathers(blocks, 0) == Gathers{2, 2 * trained});
        // A unit with trained parameters gathers the frozen ones among them.
        const PointResult mixed = point(4, "'*bias'");
        CHECK(mixed.run.between_steps - point(1, "'*bias'").run.between_steps ==
              Bytes(2 * (512 + 512 + 512 + 256) / 4));
        CHECK(gathers(mixed, 0) == Gathers{4, 2 * elements(w)});
      }
    }
  }

  TEST_CASE("FSDP's shards of units that backward does not run stay until others replace them") {
    const Widths w{256, 512, 512, 512, 256};
    for (const int accumulate : {1, 2}) {
      CAPTURE(accumulate);
      const auto between = [&](const char* reshard, const char* policies) {
        return simulated(w, 16, fsdp(reshard) + policies,
                         fmt::format("{}, accumulate: {}", kFsdp, accumulate))
            .run.between_steps;
      };
      const char* freeze = ", freeze: {layers: ['0*', '1*']}";
      CHECK(between("4", freeze) - between("true", freeze) ==
            Bytes(2 * elements({256, 512, 512}) / 4));
      // Backward runs frozen units between trained ones, and gathers from their shards.
      const char* inner = ", freeze: {layers: ['1*']}";
      CHECK(between("4", inner) == between("true", inner));
    }
  }

  TEST_CASE("an evaluation gathers from the smaller groups, whose shards stay") {
    const Widths w{64, 128, 192, 128, 64};
    const std::string training = "precision: bf16_mixed, mode: forward";
    for (const std::string& policy : {fsdp("4"), hpz(4)}) {
      CAPTURE(policy);
      const PointResult point = simulated(w, 16, policy, training);
      CHECK(gathers(point, 4) == Gathers{4, 2 * elements(w)});
      CHECK(gathers(point, 0).count == 0);
    }
  }

  TEST_CASE("checkpoints read what the smaller group has gathered, in either order") {
    const Widths w{256, 512, 512, 512, 512, 256};
    for (const std::string& policy : {fsdp("2"), hpz(2)}) {
      CAPTURE(policy);
      const std::string checkpoint = "checkpoint_every: {period: 1}";
      const PointResult first = simulated(w, 4, fmt::format("{}, {}", policy, checkpoint), kFsdp);
      const PointResult last = simulated(w, 4, fmt::format("{}, {}", checkpoint, policy), kFsdp);
      CHECK(first.run.live.bytes == last.run.live.bytes);
      CHECK(first.run.step == last.run.step);
      CHECK(first.run.recompute > Duration(0));
      CHECK(gathers(first, 2).count == 5);
    }
  }

  TEST_CASE("groups that PyTorch and DeepSpeed cannot form are refused with what to write") {
    const Widths w{64, 128, 64};
    const auto refused = [&](int count, const std::string& policies) {
      return refusal(test::chain_text(chain(w), fmt::format("count: {}", count), policies, kMixed));
    };
    const auto says = [](const std::string& text, const char* part) {
      CAPTURE(text);
      CHECK(text.find(part) != std::string::npos);
    };
    says(refused(8, fsdp("3")), "8 ranks share a unit, which groups of 3 do not divide");
    says(refused(8, fsdp("16")), "write a factor of 8");
    says(refused(8, fsdp("0")), "expected true or false or an integer of at least 1, found 0");
    says(refused(8, fsdp("most")), "found 'most'");
    says(refused(8, "fsdp: {version: 1, reshard_after_forward: 4}"), "version 1 reshards to all");
    says(refused(8, "fsdp: {version: 1, reshard_after_forward: 4}"), "version: 2");
    says(refused(8, "fsdp: {shard: 4, reshard_after_forward: 3}"), "4 ranks share a unit (shard)");
    says(refused(8, "fsdp: {shard: 1, reshard_after_forward: 2}"), "write false");
    says(refused(8, fsdp("2") + ", tensor_parallel: {size: 2}"), "tensor_parallel: {size: 2}");
    says(refused(8, fsdp("2") + ", pipeline: {size: 2}"), "under pipeline: {size: 2}");
    says(refused(8, "zero: {stage: 2, zero_hpz_partition_size: 4}"), "this is stage: 2");
    says(refused(8, hpz(3)), "8 ranks share the parameters (hardware.count");
    says(refused(8, hpz(2) + ", tensor_parallel: {size: 2}"),
         "leave tensor_parallel: {size: 2} out");
    says(refused(8, hpz(2) + ", pipeline: {size: 2}"), "leave pipeline: {size: 2} out");
    says(refused(8, hpz(2, ", offload: {parameters: nvme}")), "offload: {parameters: nvme}");
    // Zero is no second partition in DeepSpeed's files.
    CHECK(refused(8, hpz(0)) == "accepted");
    // On one GPU there is nothing to gather.
    CHECK(refused(1, fsdp("3")) == "accepted");
    CHECK(refused(1, hpz(3)) == "accepted");
  }
}

}  // namespace tidemark::resharding_test
