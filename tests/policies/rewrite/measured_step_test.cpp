// Steps with an optimizer, accumulation and zero_grad against measured ones of PyTorch 1.13.1 on a
// CPU: the second step of shared/cases/torch/mlp_*.json, to the byte.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/autodiff/differentiate.hpp"
#include "graph/models/builder.hpp"
#include "policies/optimizers/catalogue.hpp"
#include "policies/rewrite/accumulate.hpp"
#include "policies/rewrite/optimizer.hpp"
#include "policies/rewrite/precision.hpp"
#include "sim/program/lower.hpp"
#include "sim/program/verify.hpp"
#include "tests/support/live_bytes.hpp"

namespace tidemark::rewrite_measured_step_test {
namespace {

Graph mlp(std::int64_t batch) {
  ModelBuilder b("mlp", DType::kFloat32);
  TensorId x = b.input("x", {batch, 784}, DType::kFloat32);
  for (std::int64_t width : {1024, 1024, 512}) {
    x = b.activation("relu", b.linear(fmt::format("fc{}", width), x, width));
  }
  b.cross_entropy_loss(b.linear("head", x, 10));
  return b.finish();
}

constexpr auto kLoop = OptimizerImplementation::kLoop;
constexpr auto kForeach = OptimizerImplementation::kForeach;

struct Case {
  std::string_view name;
  std::int64_t batch;
  OptimizerKind kind;
  OptimizerImplementation implementation;
  ZeroGrad zero_grad;
  // Peaks of the phases in bytes, the recorder's own 292 left out.
  std::int64_t forward;
  std::int64_t backward;
  std::int64_t optimizer;
};

// The names are those of the cases.
const std::array kCases = {
    Case{"mlp_b128_sgd_none", 128, find_optimizer("sgd"), kLoop, ZeroGrad::kNone, 19'469'392,
         19'993'688, 19'469'396},
    Case{"mlp_b128_sgd_zero", 128, find_optimizer("sgd"), kLoop, ZeroGrad::kZero, 21'042'256,
         25'240'664, 19'469'396},
    Case{"mlp_b128_sgdm_none", 128, find_optimizer("momentum"), kLoop, ZeroGrad::kNone, 29'002'872,
         29'527'168, 29'002'888},
    Case{"mlp_b128_sgdm_zero", 128, find_optimizer("momentum"), kLoop, ZeroGrad::kZero, 30'575'736,
         34'774'144, 29'002'888},
    Case{"mlp_b128_sgdm_foreach_zero", 128, find_optimizer("momentum"), kForeach, ZeroGrad::kZero,
         30'575'736, 34'774'144, 29'002'888},
    Case{"mlp_b128_adam_none", 128, find_optimizer("adam"), kLoop, ZeroGrad::kNone, 38'536'384,
         39'060'680, 46'929'104},
    Case{"mlp_b128_adam_zero", 128, find_optimizer("adam"), kLoop, ZeroGrad::kZero, 40'109'248,
         44'307'656, 46'929'104},
    Case{"mlp_b128_adam_foreach_none", 128, find_optimizer("adam"), kForeach, ZeroGrad::kNone,
         38'536'384, 39'060'680, 57'603'360},
    Case{"mlp_b128_adam_foreach_zero", 128, find_optimizer("adam"), kForeach, ZeroGrad::kZero,
         40'109'248, 44'307'656, 57'603'360},
    Case{"mlp_b128_adamw_none", 128, find_optimizer("adamw"), kLoop, ZeroGrad::kNone, 38'536'384,
         39'060'680, 46'929'104},
    Case{"mlp_b128_adamw_zero", 128, find_optimizer("adamw"), kLoop, ZeroGrad::kZero, 40'109'248,
         44'307'656, 46'929'104},
    Case{"mlp_b128_adamw_foreach_none", 128, find_optimizer("adamw"), kForeach, ZeroGrad::kNone,
         38'536'384, 39'060'680, 57'603'360},
};

TrainingGraph step_of(const Case& c, int micro_batches) {
  const FrameworkRules& rules = *find_framework("torch-1.13-cpu");
  TrainingGraph graph = differentiate(mlp(c.batch), rules, {});
  Accumulate(micro_batches, c.zero_grad).apply(graph, {});
  Optimizer({.kind = c.kind,
             .implementation = c.implementation,
             .weight_decay = c.kind == find_optimizer("adamw") ? 0.01 : 0},
            rules_of(Precision::kFp32), rules)
      .apply(graph, {});
  check_invariants(graph);
  return graph;
}

// Peaks by phase of the second step.
std::array<std::int64_t, kPhases> phase_peaks(const TrainingGraph& graph) {
  const ProgramOrder order = program_order(graph, 2);
  const test::LiveBytes live = test::live_bytes(graph, order);
  std::array<std::int64_t, kPhases> peaks{};
  for (Position p : ids_of(order.at)) {
    if (order.at[p].step != 1) continue;
    std::int64_t& peak = peaks.at(static_cast<std::size_t>(graph.operators[order.at[p].op].phase));
    peak = std::max(peak, live.during[p.index()]);
  }
  return peaks;
}

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("every phase of a step peaks where the real one does, to the byte") {
    for (const Case& c : kCases) {
      CAPTURE(c.name);
      const auto peaks = phase_peaks(step_of(c, 1));
      CHECK(peaks[0] == c.forward);
      CHECK(peaks[1] == c.backward);
      CHECK(peaks[2] == c.optimizer);
    }
  }

  TEST_CASE("two micro-batches or four have the peaks of gradients that persist") {
    // mlp_b64_accum2_adamw_none
    const Case c{"mlp_b64_accum2_adamw_none",
                 64,
                 find_optimizer("adamw"),
                 kLoop,
                 ZeroGrad::kNone,
                 39'121'600,
                 43'320'012,
                 46'727'884};
    for (int micro_batches : {2, 4}) {
      const auto peaks = phase_peaks(step_of(c, micro_batches));
      CHECK(peaks[0] == c.forward);
      CHECK(peaks[1] == c.backward);
      CHECK(peaks[2] == c.optimizer);
    }
  }
}

TEST_SUITE("property") {
  TEST_CASE("steps with accumulation and an optimizer lower to programs that verify") {
    for (const Case& c : kCases) {
      CAPTURE(c.name);
      for (int micro_batches : {1, 3}) {
        const TrainingGraph graph = step_of(c, micro_batches);
        const ProgramOrder order = program_order(graph, 3);
        const Liveness live = analyze_liveness(graph, order);
        const IdVector<GapId, Decision> keep(live.gaps.size());
        const StepProgram program = lower(graph, order, live, keep);
        CHECK(verify(graph, order, order, program) == std::vector<std::string>{});
      }
    }
  }
}

}  // namespace tidemark::rewrite_measured_step_test
