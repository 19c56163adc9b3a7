#include "policies/rewrite/optimizer_states.hpp"

#include <algorithm>

namespace tidemark {
namespace {

constexpr std::int64_t kBlockElements = 2048;   // bitsandbytes, optimizer_update_8bit_blockwise
constexpr std::int64_t kSmallest8bit = 4096;    // bitsandbytes, min_8bit_size
constexpr std::int64_t kNewtonSchulzSteps = 5;  // Muon, ns_steps
constexpr std::int64_t kScaleBytes = 4;         // one fp32 number

void add_8bit(std::vector<OptimizerStateTensor>& states, const TrainedParameter& parameter) {
  const bool small = parameter.elements < kSmallest8bit;
  const Bytes moment(parameter.elements * (small ? kScaleBytes : 1));
  states.push_back({'m', "state1", moment});
  states.push_back({'v', "state2", moment});
  if (small) return;
  const Bytes scales((parameter.elements + kBlockElements - 1) / kBlockElements * kScaleBytes);
  states.push_back({'k', "absmax1", scales});
  states.push_back({'l', "absmax2", scales});
}

// A tensor of more than two axes is a stack of matrices of its last two.
void add_adafactor(std::vector<OptimizerStateTensor>& states, const TrainedParameter& parameter) {
  const Shape& shape = parameter.shape;
  if (shape.rank() < 2) {
    states.push_back({'v', "exp_avg_sq", Bytes(parameter.elements * kScaleBytes)});
  } else {
    states.push_back({'r', "exp_avg_sq_row", Bytes(parameter.elements / shape[-1] * kScaleBytes)});
    states.push_back({'q', "exp_avg_sq_col", Bytes(parameter.elements / shape[-2] * kScaleBytes)});
  }
  states.push_back({'n', "RMS", Bytes(kScaleBytes)});
}

struct Matrix {
  std::int64_t small;
  std::int64_t large;
};

Matrix matrix_of(const Shape& shape) {
  const std::int64_t rows = shape[0];
  const std::int64_t columns = element_count(shape) / rows;
  return {.small = std::min(rows, columns), .large = std::max(rows, columns)};
}

}  // namespace

std::vector<OptimizerStateTensor> optimizer_states(const OptimizerSpec& spec,
                                                   OptimizerImplementation implementation,
                                                   const FrameworkRules& rules,
                                                   const TrainedParameter& parameter, DType weights,
                                                   bool master_weights) {
  std::vector<OptimizerStateTensor> states;
  const Bytes moment(parameter.elements * size_of(weights));
  // torch.optim's counter; optimizers that keep master weights count in Python.
  const bool fused = implementation == OptimizerImplementation::kFused;
  const Bytes counter = fused ? rules.fused_adam_step_bytes : rules.adam_step_bytes;
  const auto count_steps = [&](bool from_start) {
    if (counter > Bytes(0) && !master_weights) states.push_back({'s', "step", counter, from_start});
  };
  switch (spec.kind) {
    case OptimizerKind::kSgd:
      break;
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
    case OptimizerKind::kMuon:
      states.push_back({'m', "momentum_buffer", moment});
      break;
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      count_steps(false);
      states.push_back({'m', "exp_avg", moment});
      states.push_back({'v', "exp_avg_sq", moment});
      if (spec.amsgrad) states.push_back({'o', "max_exp_avg_sq", moment});
      break;
    case OptimizerKind::kAdamW8bit:
      add_8bit(states, parameter);
      break;
    case OptimizerKind::kAdafactor:
      add_adafactor(states, parameter);
      break;
    case OptimizerKind::kLion:
      states.push_back({'m', "exp_avg", moment});
      break;
    case OptimizerKind::kAdagrad:
      count_steps(true);
      states.push_back({'v', "sum", moment, true});
      break;
    case OptimizerKind::kRmsprop:  // its step is a Python number
      states.push_back({'v', "square_avg", moment});
      if (spec.momentum > 0) states.push_back({'m', "momentum_buffer", moment});
      if (spec.centered) states.push_back({'o', "grad_avg", moment});
      break;
  }
  return states;
}

// The head is the matrix that forward reads last; a tied one is an embedding as well.
std::vector<char> muon_matrices(const TrainingGraph& graph) {
  IdVector<StorageId, std::size_t> entry(graph.storages.size(), graph.trained.size());
  for (std::size_t i = 0; i < graph.trained.size(); ++i)
    entry[graph.trained[i].parameter] = i;
  std::vector<char> chosen(graph.trained.size(), 0);
  for (std::size_t i = 0; i < graph.trained.size(); ++i)
    chosen[i] = graph.trained[i].shape.rank() >= 2 ? 1 : 0;
  std::size_t head = graph.trained.size();
  for (OperatorId id : graph.forward) {
    for (const Touch& touch : graph.touches_of(id)) {
      const std::size_t i = entry[touch.storage];
      if (i == graph.trained.size()) continue;
      if (graph.operators[id].work.op_class == OperatorClass::kEmbedding) chosen[i] = 0;
      if (graph.trained[i].shape.rank() >= 2) head = i;
    }
  }
  if (head < chosen.size()) chosen[head] = 0;
  return chosen;
}

Bytes newton_schulz_bytes(const Shape& shape) {
  const auto [small, large] = matrix_of(shape);
  const std::int64_t element = size_of(DType::kBFloat16);
  return Bytes(element * (4 * small * large + 2 * small * small));
}

// X X^T, A A and B X.
Flops newton_schulz_flops(const Shape& shape) {
  const auto [small, large] = matrix_of(shape);
  const auto m = static_cast<double>(small);
  const auto n = static_cast<double>(large);
  return Flops(static_cast<double>(kNewtonSchulzSteps) * (4 * m * m * n + 2 * m * m * m));
}

}  // namespace tidemark
