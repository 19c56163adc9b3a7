// Freezing by requires_grad = False: autograd follows from it what it keeps.
#include <algorithm>
#include <utility>

#include "graph/autodiff/evaluate.hpp"
#include "graph/core/errors.hpp"
#include "graph/rewrite/graph_copy.hpp"
#include "policies/adapt/entries.hpp"
#include "policies/adapt/evaluated_modules.hpp"
#include "policies/adapt/name_patterns.hpp"

namespace tidemark {
namespace freeze_detail {
namespace {

enum class InEval { kNothing, kMatched, kModel };

class Freeze final : public ForwardRewrite {
 public:
  Freeze(NamePatterns patterns, InEval eval) : patterns_(std::move(patterns)), eval_(eval) {}
  [[nodiscard]] std::string_view name() const override { return "freeze"; }
  [[nodiscard]] bool acts_in_evaluation(bool /*computes_loss*/) const override { return false; }
  [[nodiscard]] ForwardStage stage() const override { return ForwardStage::kFreeze; }
  [[nodiscard]] Graph apply(const Graph& graph, const RewriteContext& context) const override {
    GraphCopy copy(graph);
    for (ParameterId id : matching_parameters(graph, patterns_, name()))
      copy.freeze_root(graph.parameters[id].tensor);
    Graph result = rewrite_graph(copy, [&](GraphCopy& nodes, NodeId id) {
      if (is_evaluated(graph, id)) {
        keep_evaluated(nodes, id);
      } else {
        nodes.keep(id);
      }
    });
    // An evaluation trains nothing anyway.
    if (context.computes_loss) require_something_trained(graph, result);
    keep_inputs_of_blocks(result);
    return result;
  }

 private:
  [[nodiscard]] bool is_evaluated(const Graph& graph, NodeId id) const {
    if (eval_ != InEval::kMatched) return eval_ == InEval::kModel;
    const LayerId layer = graph.nodes[id].layer;
    return layer.valid() && patterns_.matches(graph.layers[layer].name);
  }
  static void require_something_trained(const Graph& before, const Graph& after) {
    if (before.trainable_parameter_count() == Elements(0) ||
        after.trainable_parameter_count() > Elements(0))
      return;
    throw UserError({}, "policies.freeze.layers",
                    "every parameter of " + before.name +
                        " is frozen, so there is nothing to train; name what trains in `except`, "
                        "or set training.mode: forward");
  }

  NamePatterns patterns_;
  InEval eval_;
};

}  // namespace
}  // namespace freeze_detail

const PolicyEntry& freeze_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "freeze",
      .kind = "forward rewrite",
      .summary =
          "parameters of `layers` but those of `except` are not trained; autograd keeps what the "
          "gradients of the others need, and nothing below the lowest of them. eval: true puts the "
          "modules into eval() as well, so that batch norm uses its running statistics; eval: "
          "model "
          "the whole model",
      .source = "PyTorch: requires_grad_(False), Module.eval()",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        NamePatterns patterns = decode_patterns(d);
        static constexpr std::string_view kEval[] = {"false", "true", "model"};
        const std::string word = d.optional_word("eval", kEval, "false");
        const freeze_detail::InEval eval = word == "model"  ? freeze_detail::InEval::kModel
                                           : word == "true" ? freeze_detail::InEval::kMatched
                                                            : freeze_detail::InEval::kNothing;
        d.finish();
        return std::make_unique<freeze_detail::Freeze>(std::move(patterns), eval);
      }};
  return kEntry;
}

}  // namespace tidemark
