// Selective recomputation of attention, as Megatron does it.
#include <map>

#include "graph/core/errors.hpp"
#include "policies/recompute/entries.hpp"
#include "policies/recompute/operator_policy.hpp"
#include "policies/solver/choose_schedule.hpp"

namespace tidemark {
namespace megatron_selective_detail {
namespace {

constexpr std::string_view kMegatronSource =
    "Korthikanti et al. 2022 (arXiv 2205.05198), section 5";

// Whether the operator lays out an operand of a product anew.
bool copies_operand(const ForwardOperator& op) {
  return op.kind == "reshape" || op.kind == "contiguous";
}

// Recomputes the core of attention: in layers with a softmax or fused attention the operators from
// the first product of activations, or fused attention, to the last, except those that read
// parameters. Operators before and after are saved, and the operands of both products as these
// read them: a copy of the values is kept rather than the projection that it is a part of.
class MegatronSelective final : public OperatorPolicy {
 public:
  [[nodiscard]] std::string_view name() const override { return "megatron_selective"; }
  [[nodiscard]] std::optional<TrainingSystem> system() const override {
    return TrainingSystem::kMegatron;
  }

 private:
  [[nodiscard]] std::vector<bool> recomputed(
      std::span<const ForwardOperator> operators) const override {
    std::map<std::size_t, std::vector<std::size_t>> layers;
    for (std::size_t i = 0; i < operators.size(); ++i)
      layers[operators[i].layer].push_back(i);
    std::vector<bool> chosen(operators.size());
    for (const auto& [layer, members] : layers) {
      bool attends = false;
      std::size_t first = members.size();  // places in `members`, the last included
      std::size_t last = 0;
      for (std::size_t k = 0; k < members.size(); ++k) {
        const ForwardOperator& op = operators[members[k]];
        const bool fused = op.kind == "attention";
        attends = attends || fused || op.kind == "softmax";
        if ((!fused && op.kind != "bmm") || op.reads_parameter) continue;
        first = std::min(first, k);
        last = k;
      }
      for (std::size_t k = first; attends && k < members.size() && k <= last; ++k) {
        chosen[members[k]] =
            !operators[members[k]].reads_parameter && !copies_operand(operators[members[k]]);
      }
    }
    return chosen;
  }

  void check_model_choice(bool chosen) const override {
    if (chosen) return;
    throw UserError({}, "policies.megatron_selective",
                    "recomputes attention, and no repeated block of the model has any");
  }
  void check_cost_graph_choice(bool chosen) const override {
    if (chosen) return;
    throw UserError(
        "megatron_selective recomputes attention, and no layer of this graph has operators bmm "
        "and softmax, or attention; nodes say them with the keys layer and operator, or in their "
        "names as \"LAYER: OPERATOR\"");
  }
};

}  // namespace
}  // namespace megatron_selective_detail

const PolicyEntry& megatron_selective_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "megatron_selective",
      .kind = "residency",
      .summary = "recompute the core of attention, from the scores to the product with the values",
      .source = megatron_selective_detail::kMegatronSource,
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        d.finish();
        return std::make_unique<megatron_selective_detail::MegatronSelective>();
      },
      .plan = megatron_selective_plan};
  return kEntry;
}

const PlanPolicy& megatron_selective_plan() {
  static constexpr PlanPolicy kPolicy{
      .name = "megatron_selective",
      .summary = "recomputes the core of attention, from the scores to the product with the values",
      .source = megatron_selective_detail::kMegatronSource,
      .decode = [](const Decoder& /*d*/) -> PlanFunction {
        return chosen_from("megatron_selective", [](const RematProblem& problem) {
          return std::vector<Schedule>{
              megatron_selective_detail::MegatronSelective().schedule(problem)};
        });
      }};
  return kPolicy;
}

}  // namespace tidemark
