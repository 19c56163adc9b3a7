// Liger-Kernel's kernels in the place of a model's norms, gated activations and rotary embeddings.
#include "graph/operators/liger/liger_kernels.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/rewrite/graph_copy.hpp"
#include "hwprofiles/device_profile.hpp"
#include "policies/kernels/entries.hpp"
#include "policies/kernels/kernel_sites.hpp"

namespace tidemark {
namespace kernels_liger_kernels_detail {
namespace {

struct KernelChoice {
  KernelKind kind;
  std::string_view key;
  std::string_view what;
};
constexpr std::array kChoices = {
    KernelChoice{KernelKind::kRmsNorm, "rms_norm", "RMSNorm"},
    KernelChoice{KernelKind::kGlu, "glu", "gated activation (silu or gelu_tanh)"},
    KernelChoice{KernelKind::kRope, "rope", "rotary embedding of whole heads"}};

struct Choice {
  bool used = true;
  bool asked = false;  // the scenario names it: it must be found
};
using Choices = std::array<Choice, kChoices.size()>;

class LigerKernels final : public ForwardRewrite {
 public:
  LigerKernels(const Choices& choices, bool head_norms)
      : choices_(choices), head_norms_(head_norms) {}
  [[nodiscard]] std::string_view name() const override { return "liger_kernels"; }
  [[nodiscard]] bool acts_in_evaluation(bool /*computes_loss*/) const override { return true; }
  [[nodiscard]] ForwardStage stage() const override { return ForwardStage::kKernels; }
  [[nodiscard]] Graph apply(const Graph& graph, const RewriteContext& context) const override;

 private:
  [[nodiscard]] bool replaces(const KernelSite& site) const {
    return choices_.at(static_cast<std::size_t>(site.kind)).used &&
           (head_norms_ || !site.is_of_heads || site.kind != KernelKind::kRmsNorm);
  }
  void check_found(const std::vector<KernelSite>& sites, const Graph& graph) const;

  Choices choices_;
  bool head_norms_;
};

void LigerKernels::check_found(const std::vector<KernelSite>& sites, const Graph& graph) const {
  bool found_any = false;
  for (std::size_t i = 0; i < kChoices.size(); ++i) {
    const bool found = std::any_of(sites.begin(), sites.end(), [&](const KernelSite& site) {
      return site.kind == kChoices.at(i).kind;
    });
    found_any |= found && choices_.at(i).used;
    if (found || !choices_.at(i).asked || !choices_.at(i).used) continue;
    throw UserError({}, fmt::format("policies.liger_kernels.{}", kChoices.at(i).key),
                    fmt::format("'{}' has no {}; leave it out", graph.name, kChoices.at(i).what));
  }
  if (found_any) return;
  const bool has_replaced =
      std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
        return node.family == &liger_rms_norm_family() || node.family == &liger_glu_family() ||
               node.family == &liger_rope_family();
      });
  if (has_replaced)
    throw UserError({}, "policies.liger_kernels", "is listed twice; leave one of them out");
  throw UserError({}, "policies.liger_kernels",
                  fmt::format("'{}' has none of the parts that it replaces: RMSNorm, gated "
                              "activations (silu or gelu_tanh) and rotary embeddings of whole "
                              "heads, as in llama, mistral, qwen and gemma",
                              graph.name));
}

Graph LigerKernels::apply(const Graph& graph, const RewriteContext& context) const {
  const FrameworkRules rules = context.framework == nullptr ? FrameworkRules{} : *context.framework;
  const std::vector<KernelSite> sites = find_kernel_sites(graph, rules);
  check_found(sites, graph);
  // Liger's functions for such models (Gemma 2 and 3) set in_place=False for all of their norms.
  const bool keeps_gradients = std::any_of(sites.begin(), sites.end(), [](const KernelSite& site) {
    return site.kind == KernelKind::kRmsNorm && site.is_added;
  });
  std::map<NodeId, const KernelSite*> ends;
  std::map<NodeId, const KernelSite*> inside;
  for (const KernelSite& site : sites) {
    if (!replaces(site)) continue;
    ends.emplace(site.last, &site);
    for (const NodeId id : site.inside)
      inside.emplace(id, &site);
  }
  const std::int64_t multiprocessors =
      context.device == nullptr ? 1 : std::max(1, context.device->multiprocessors);
  return rewrite_graph(graph, [&](GraphCopy& copy, NodeId id) {
    if (const auto part = inside.find(id); part != inside.end()) {
      // The part's operand stands for what the node makes, which nothing in the copy reads.
      const TensorId stand_in = copy.at(part->second->operands.front());
      return copy.replace(id, std::vector<TensorId>(graph.nodes[id].outputs.size(), stand_in));
    }
    const auto end = ends.find(id);
    if (end == ends.end()) {
      copy.keep(id);
      return;
    }
    const KernelSite& site = *end->second;
    std::vector<TensorId> operands;
    for (const TensorId operand : site.operands)
      operands.push_back(copy.at(operand));
    const OperatorFamily* family = &liger_glu_family();
    Attributes attributes;
    if (site.kind == KernelKind::kRmsNorm) {
      family = &liger_rms_norm_family();
      attributes.set("multiprocessors", multiprocessors);
      if (keeps_gradients) attributes.set("keeps_gradient", std::int64_t{1});
    } else if (site.kind == KernelKind::kRope) {
      family = &liger_rope_family();
    }
    Graph& result = copy.result();
    const NodeId made =
        result.add_node(*family, std::move(operands), std::move(attributes), graph.nodes[id].layer);
    copy.replace(id, std::vector<TensorId>{result.output(made)});
  });
}

}  // namespace
}  // namespace kernels_liger_kernels_detail

const PolicyEntry& liger_kernels_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "liger_kernels",
      .kind = "forward rewrite",
      .summary =
          "RMSNorm, gated activations and rotary embeddings by Liger-Kernel's kernels, "
          "which keep less and write gradients in place",
      .source =
          "Liger-Kernel (ops/rms_norm.py, swiglu.py, geglu.py, rope.py); its loss is "
          "fused_loss: liger",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        namespace detail = kernels_liger_kernels_detail;
        detail::Choices choices;
        bool any = false;
        for (std::size_t i = 0; i < detail::kChoices.size(); ++i) {
          const std::string_view key = detail::kChoices.at(i).key;
          choices.at(i) = {.used = d.optional<bool>(key, true), .asked = d.has(key)};
          any |= choices.at(i).used;
        }
        if (!any) d.fail("none of its kernels is used; leave liger_kernels out");
        const bool head_norms = d.optional<bool>("head_norms", true);
        d.finish();
        return std::make_unique<detail::LigerKernels>(choices, head_norms);
      }};
  return kEntry;
}

}  // namespace tidemark
