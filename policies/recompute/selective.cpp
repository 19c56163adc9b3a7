// Selective activation checkpointing: the kinds of operators whose results a block saves for
// backward.
#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/scalars.hpp"
#include "policies/recompute/entries.hpp"
#include "policies/recompute/operator_policy.hpp"
#include "policies/solver/choose_schedule.hpp"

namespace tidemark {
namespace selective_detail {
namespace {

constexpr std::string_view kSelectiveSource =
    "torch.utils.checkpoint, create_selective_checkpoint_contexts";

// Recomputes in every block everything that backward reads except the results of the kinds in
// `save` (torch.utils.checkpoint's selective policy, MUST_SAVE), or only those of the kinds in
// `recompute`. On a graph without blocks it chooses among all operators. Of the kinds in
// `every_other` a block saves the first, third, ... operator only, counted together (torchtitan's
// selective op policy).
class Selective final : public OperatorPolicy {
 public:
  static Selective decode(const Decoder& d) {
    Selective policy;
    policy.saves_ = d.has("save");
    const bool recomputes = d.has("recompute");
    std::vector<std::string> saved = d.list<std::string>("save");
    std::vector<std::string> again = d.list<std::string>("recompute");
    if (policy.saves_ && recomputes) {
      d.fail("give one of save and recompute; the other is what is left");
    }
    policy.every_other_ = d.list<std::string>("every_other");
    if (!policy.every_other_.empty() && !policy.saves_) {
      d.fail_at("every_other",
                "says of which kinds in `save` every other operator is recomputed; "
                "give save as well");
    }
    for (const std::string& kind : policy.every_other_) {
      if (std::find(saved.begin(), saved.end(), kind) != saved.end()) continue;
      d.fail_at("every_other", fmt::format("{} is not among the kinds in `save`; add it there",
                                           tidemark::quoted_excerpt(kind)));
    }
    policy.kinds_ = policy.saves_ ? std::move(saved) : std::move(again);
    for (std::vector<std::string>* kinds : {&policy.kinds_, &policy.every_other_}) {
      // These two are names of linear layers, too.
      std::replace(kinds->begin(), kinds->end(), std::string("quantised_linear"),
                   std::string("linear"));
      std::replace(kinds->begin(), kinds->end(), std::string("fp8_linear"), std::string("linear"));
    }
    return policy;
  }
  [[nodiscard]] std::string_view name() const override { return "selective"; }

 private:
  [[nodiscard]] static bool contains(const std::vector<std::string>& kinds, std::string_view kind) {
    return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
  }
  [[nodiscard]] std::vector<bool> recomputed(
      std::span<const ForwardOperator> operators) const override {
    std::vector<bool> chosen;
    int counted = 0;  // operators of `every_other` in the block so far
    int block = kNoBlock;
    for (const ForwardOperator& op : operators) {
      if (op.block != block) counted = 0;
      block = op.block;
      const bool counts = contains(every_other_, op.kind);
      if (counts) ++counted;
      const bool left_out = counts && counted % 2 == 0;
      const bool listed = contains(kinds_, op.kind) && !left_out;
      chosen.push_back(op.in_block && !op.passed_on && listed != saves_);
    }
    return chosen;
  }
  // torch.utils.checkpoint's _CachingTorchDispatchMode stores every result that the policy must
  // save, whether or not autograd reads it: of a Llama block also that of the last product.
  // torch.compile keeps what backward reads.
  [[nodiscard]] bool caches_results() const override { return saves_; }

  void check_model(const std::set<std::string>& known, int blocks) const override {
    if (chooses_nothing()) {
      throw UserError(
          {}, "policies.selective",
          "chooses nothing; give the kinds of operators whose results are saved, such "
          "as save: [linear, attention], or those that are recomputed, such as recompute: "
          "[gelu, dropout]");
    }
    if (const auto unknown = find_unknown(known)) {
      throw UserError({}, fmt::format("policies.selective.{}", key()),
                      fmt::format("the model's forward has no operator of kind '{}'{}",
                                  unknown->kind, unknown->hint));
    }
    if (blocks == 0) {
      throw UserError({}, "policies.selective",
                      "works on repeated blocks, and the model has none; use min_cut or optimal");
    }
  }
  void check_cost_graph(const std::set<std::string>& known) const override {
    if (chooses_nothing()) {
      throw UserError(
          "selective chooses nothing; give the operators whose results are saved, such as save: "
          "[linear, attention], or those that are recomputed, such as recompute: [gelu, dropout]");
    }
    if (const auto unknown = find_unknown(known)) {
      throw UserError(fmt::format("selective.{}: no forward node of the graph is an operator {}{}",
                                  key(), tidemark::quoted_excerpt(unknown->kind), unknown->hint));
    }
  }

  [[nodiscard]] bool chooses_nothing() const { return kinds_.empty() && !saves_; }
  [[nodiscard]] std::string_view key() const { return saves_ ? "save" : "recompute"; }

  struct Unknown {
    std::string kind;
    std::string hint;
  };
  [[nodiscard]] std::optional<Unknown> find_unknown(const std::set<std::string>& known) const {
    for (const std::string& kind : kinds_) {
      if (known.contains(kind)) continue;
      const std::vector<std::string> names(known.begin(), known.end());
      std::string hint = did_you_mean(kind, names);
      if (hint.empty()) hint = fmt::format("; it has {}", fmt::join(names, ", "));
      return Unknown{kind, std::move(hint)};
    }
    return std::nullopt;
  }

  std::vector<std::string> kinds_;
  std::vector<std::string> every_other_;  // the second, fourth, ... of a block are recomputed
  bool saves_ = false;
};

}  // namespace
}  // namespace selective_detail

const PolicyEntry& selective_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "selective",
      .kind = "residency",
      .summary =
          "in every block, recompute all but the results of the operators in `save: [linear, "
          "attention]` (of those in `every_other` each second one is recomputed, too), or only "
          "those "
          "in `recompute: [gelu, dropout]`",
      .source = selective_detail::kSelectiveSource,
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        selective_detail::Selective policy = selective_detail::Selective::decode(d);
        d.finish();
        return std::make_unique<selective_detail::Selective>(std::move(policy));
      },
      .plan = selective_plan};
  return kEntry;
}

const PlanPolicy& selective_plan() {
  static constexpr PlanPolicy kPolicy{
      .name = "selective",
      .summary =
          "recomputes all but the results of the operators in `save`, or only those in "
          "`recompute`",
      .source = selective_detail::kSelectiveSource,
      .decode = [](const Decoder& d) -> PlanFunction {
        return chosen_from(
            "selective", [policy = selective_detail::Selective::decode(d)](const RematProblem& p) {
              return std::vector<Schedule>{policy.schedule(p)};
            });
      }};
  return kPolicy;
}

}  // namespace tidemark
