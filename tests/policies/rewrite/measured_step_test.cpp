// Steps with an optimizer, accumulation and zero_grad against measured ones of PyTorch 1.13.1 on a
// CPU: the second step of shared/cases/torch/mlp_*.json. Bytes without what lives inside one kernel.
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/autodiff/differentiate.hpp"
#include "graph/models/builder.hpp"
#include "policies/rewrite/accumulate.hpp"
#include "policies/rewrite/optimizer.hpp"
#include "policies/rewrite/precision.hpp"
#include "tests/support/live_bytes.hpp"

namespace tidemark {
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

struct Case {
  std::string_view name;
  std::int64_t batch;
  OptimizerKind kind;
  OptimizerImplementation implementation;
  ZeroGrad zero_grad;
  int micro_batches;
  // Peaks of the phases, in bytes.
  std::int64_t forward;
  std::int64_t backward;
  std::int64_t optimizer;
};

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("probe") {
    const FrameworkRules& rules = *find_framework("torch-1.13-cpu");
    for (const auto& [name, batch, kind, impl, zero, k] :
         std::vector<std::tuple<std::string_view, int, OptimizerKind, OptimizerImplementation, ZeroGrad, int>>{
             {"mlp_b128_sgd_none", 128, OptimizerKind::kSgd, OptimizerImplementation::kLoop, ZeroGrad::kNone, 1},
             {"mlp_b128_sgd_zero", 128, OptimizerKind::kSgd, OptimizerImplementation::kLoop, ZeroGrad::kZero, 1},
             {"mlp_b128_sgdm_none", 128, OptimizerKind::kMomentum, OptimizerImplementation::kLoop, ZeroGrad::kNone, 1},
             {"mlp_b128_sgdm_zero", 128, OptimizerKind::kMomentum, OptimizerImplementation::kLoop, ZeroGrad::kZero, 1},
             {"mlp_b128_sgdm_foreach_zero", 128, OptimizerKind::kMomentum, OptimizerImplementation::kForeach, ZeroGrad::kZero, 1},
             {"mlp_b128_adam_none", 128, OptimizerKind::kAdam, OptimizerImplementation::kLoop, ZeroGrad::kNone, 1},
             {"mlp_b128_adam_zero", 128, OptimizerKind::kAdam, OptimizerImplementation::kLoop, ZeroGrad::kZero, 1},
             {"mlp_b128_adam_foreach_none", 128, OptimizerKind::kAdam, OptimizerImplementation::kForeach, ZeroGrad::kNone, 1},
             {"mlp_b128_adam_foreach_zero", 128, OptimizerKind::kAdam, OptimizerImplementation::kForeach, ZeroGrad::kZero, 1},
             {"mlp_b128_adamw_none", 128, OptimizerKind::kAdamW, OptimizerImplementation::kLoop, ZeroGrad::kNone, 1},
             {"mlp_b128_adamw_zero", 128, OptimizerKind::kAdamW, OptimizerImplementation::kLoop, ZeroGrad::kZero, 1},
             {"mlp_b128_adamw_foreach_none", 128, OptimizerKind::kAdamW, OptimizerImplementation::kForeach, ZeroGrad::kNone, 1},
             {"mlp_b64_accum1_adamw_none", 64, OptimizerKind::kAdamW, OptimizerImplementation::kLoop, ZeroGrad::kNone, 1},
             {"mlp_b64_accum2_adamw_none", 64, OptimizerKind::kAdamW, OptimizerImplementation::kLoop, ZeroGrad::kNone, 2},
             {"mlp_b64_accum4_adamw_none", 64, OptimizerKind::kAdamW, OptimizerImplementation::kLoop, ZeroGrad::kNone, 4}}) {
      TrainingGraph graph = differentiate(mlp(batch), rules, {});
      Accumulate(k, zero).apply(graph);
      Optimizer({.kind = kind, .implementation = impl, .weight_decay = kind == OptimizerKind::kAdamW ? 0.01 : 0}, rules_of(Precision::kFp32), rules).apply(graph);
      check_invariants(graph);
      const ProgramOrder order = program_order(graph, 2);
      const test::LiveBytes live = test::live_bytes(graph, order);
      std::int64_t peak[3] = {0, 0, 0};
      for (Position p : ids_of(order.at)) {
        if (order.at[p].step != 1) continue;
        auto& m = peak[static_cast<int>(graph.operators[order.at[p].op].phase)];
        m = std::max(m, live.during[p.index()]);
      }
      fmt::print("{} {} {} {}\n", name, peak[0], peak[1], peak[2]);
    }
  }
}

}  // namespace tidemark
