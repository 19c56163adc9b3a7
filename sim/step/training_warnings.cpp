#include "sim/step/training_warnings.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <variant>

#include <fmt/format.h>

#include "graph/rewrite/detach_segments.hpp"
#include "hwprofiles/assumed_figures.hpp"
#include "hwprofiles/device_profile.hpp"
#include "sim/program/live_peak.hpp"
#include "sim/step/step_device.hpp"

namespace tidemark {
namespace training_warnings_detail {
namespace {

// Returns the name of the first policy that runs segments by a reentrant function; empty without.
std::string_view reentrant_policy(const StepSpec& spec, int blocks) {
  for (const ResidencyPolicy* policy : policies_of<ResidencyPolicy>(spec)) {
    if (!policy->reentrant_segments(blocks).empty()) return policy->name();
  }
  return {};
}

// Returns the settings of `training` that are given and have a meaning only where it trains.
std::vector<std::string> settings_for_training(const TrainingOptions& training) {
  std::vector<std::string> names;
  if (training.loss_scale) names.emplace_back("training.loss_scale");
  if (training.clip_grad_norm) names.emplace_back("training.clip_grad_norm");
  if (training.ema) names.emplace_back("training.ema");
  if (training.gradient_dtype) names.emplace_back("training.gradient_dtype");
  return names;
}

std::vector<std::string> evaluation_warnings(const StepSpec& spec) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < spec.policies.size(); ++i) {
    if (is_idle(spec, i)) names.push_back(spec.policy_names[i]);
  }
  const std::vector<std::string> settings = settings_for_training(spec.training);
  names.insert(names.end(), settings.begin(), settings.end());
  if (names.empty()) return {};
  return {
      fmt::format("{} decide{} about training, and training.mode trains nothing: nothing is "
                  "kept for backward, and nothing changes",
                  fmt::join(names, ", "), names.size() == 1 ? "s" : "")};
}

bool gathers_parameters(const TrainingGraph& graph) {
  return std::any_of(graph.storages.begin(), graph.storages.end(), [](const Storage& storage) {
    return storage.role == Role::kGatheredParameter;
  });
}

// Whether whole parameters are moved that ranks have shards of.
bool moves_gathered(const StepSpec& spec, const TrainedModel& model) {
  const bool moves = std::any_of(spec.policies.begin(), spec.policies.end(), [](const auto& entry) {
    const auto* rewrite = std::get_if<std::unique_ptr<TrainingRewrite>>(&entry);
    return rewrite != nullptr && (*rewrite)->moves_parameters();
  });
  return moves && (gathers_parameters(model.training) ||
                   std::any_of(model.stages.begin(), model.stages.end(), [](const auto& stage) {
                     return gathers_parameters(stage->training);
                   }));
}

}  // namespace
}  // namespace training_warnings_detail

bool is_idle(const StepSpec& spec, std::size_t policy) {
  return spec.training.mode != StepMode::kTrain &&
         !policy_of(spec.policies[policy]).acts_in_evaluation(spec.training.evaluates_loss);
}

void warn_of_training(const StepSpec& spec, const Graph& graph, const TrainingGraph& training,
                      TrainedModel& model) {
  if (spec.training.mode != StepMode::kTrain) return;
  model.enters_without_gradient =
      model.enters_without_gradient ||
      !without_gradients(graph, std::array{BlockRange{.first = 0, .end = 1}}).empty();
  if (training.trained.empty() && graph.trainable_parameter_count() > Elements(0)) {
    model.warnings.emplace_back(
        "nothing is trained: the loss depends on no parameter that is trained, as with merged "
        "adapters");
  }
}

std::vector<std::string> warnings_of_point(const StepSpec& spec, const TrainedModel& model) {
  std::vector<std::string> warnings;
  if (is_roofline_only(spec.device)) {
    warnings.push_back(fmt::format(
        "of {} only capacity and roofline are known: none of its kernels and nothing of "
        "its software is modelled, so that times are rough",
        spec.device.name));
  }
  if (spec.training.mode != StepMode::kTrain) {
    const std::vector<std::string> idle = training_warnings_detail::evaluation_warnings(spec);
    warnings.insert(warnings.end(), idle.begin(), idle.end());
  }
  const TrainingGraph& shown =
      model.stages.empty() ? model.training : model.stages.front()->training;
  const std::string_view reentrant = training_warnings_detail::reentrant_policy(spec, shown.blocks);
  if (!reentrant.empty() && model.enters_without_gradient) {
    warnings.push_back(fmt::format(
        "{} is reentrant, and no input of the first block requires a gradient: PyTorch "
        "gives the parameters of such blocks none ('None of the inputs have "
        "requires_grad=True'){}; write reentrant: false, or input_gradients: true in lora",
        reentrant,
        model.detached ? ", nor does this step" : ", and the figures are those with gradients"));
  }
  if (training_warnings_detail::moves_gathered(spec, model)) {
    warnings.emplace_back(
        "offload_parameters moves whole parameters, and the ranks have shards of them: "
        "zero: {offload: {parameters: host}} and fsdp: {offload: host} keep the shards on the "
        "host, "
        "as DeepSpeed and PyTorch do, which takes less memory and time");
  }
  const bool evicts =
      std::any_of(spec.policies.begin(), spec.policies.end(), [](const AnyPolicy& policy) {
        return std::holds_alternative<std::unique_ptr<EvictionPolicy>>(policy);
      });
  if (evicts && gather_ranks(spec) > 1) {
    warnings.emplace_back(
        "backward gathers parameters in smaller groups, from other shards than forward: eviction "
        "takes them for other values, and drops nothing that is computed from them");
  }
  warnings.insert(warnings.end(), model.warnings.begin(), model.warnings.end());
  if (const std::string_view remark = spec.allocator->remark(); !remark.empty())
    warnings.emplace_back(remark);
  const DType wanted = compute_type(spec);
  const DType used = matrix_type(spec.device, wanted);
  if (spec.source.forward && wanted == DType::kBFloat16 && used != wanted) {
    warnings.push_back(
        fmt::format("{} has no tensor cores for bf16: matrix products run at its {} rate; "
                    "training.precision: fp16_mixed uses them",
                    spec.device.name, name_of(used)));
  }
  return warnings;
}

std::string remark_on_updates(const TrainingGraph& training, const StepProgram& program,
                              const ProgramOrder& order, const Peak& peak) {
  if (!training.updates_in_backward || peak.instruction >= program.size()) return {};
  const auto updates = [&](OperatorId op) {
    return training.operators[op].part == OperatorPart::kUpdate;
  };
  // An update's states and temporaries may make the peak.
  if (updates(order.at[program.position[peak.instruction]].op)) return {};
  Bytes live;
  Bytes used_up;  // gradients of the last step that the optimizer would otherwise wait for
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    const bool last_step = program.slot[program.position[i].index()].last_step;
    const bool launches = program.opcode[i] == Opcode::kLaunch;
    if (last_step && launches && i < peak.instruction && updates(OperatorId(program.subject[i])))
      return {};
    const Bytes change = live_change(program, i);
    live += change;
    if (!last_step) continue;
    const bool drops =
        change < Bytes(0) &&
        program.allocations[AllocationId(program.subject[i])].role == Role::kGradient;
    if (drops) used_up -= change;
    if (live + used_up > peak.bytes) return {};
  }
  // One optimizer for all would also have up to three temporaries of all gradients, in fp32; where
  // they might make the peak nothing is said.
  constexpr std::int64_t kTemporaries = 3 * 2;
  if (live + used_up + used_up * kTemporaries > peak.bytes) return {};
  return "optimizer_in_backward leaves the peak as it is: the peak lies before the first gradient "
         "that the policy drops; only what is live later is less";
}

}  // namespace tidemark
