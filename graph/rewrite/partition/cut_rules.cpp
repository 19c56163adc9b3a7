#include "graph/rewrite/partition/cut_rules.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "graph/models/routing.hpp"
#include "graph/operators/communication/collectives.hpp"
#include "graph/operators/communication/expert_rows.hpp"
#include "graph/operators/communication/ring_attention.hpp"
#include "graph/operators/kernels.hpp"
#include "graph/operators/known_families.hpp"
#include "graph/operators/liger/liger_kernels.hpp"
#include "graph/operators/reductions/reduction.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace cut_rules_detail {
namespace {

// A node with its inputs, as a rule looks at it.
struct Site {
  const Graph& graph;
  const Node& node;
  std::span<const Layout> inputs;

  [[nodiscard]] const Shape& in(std::size_t i) const { return graph.tensors[node.inputs[i]].shape; }
  [[nodiscard]] const Shape& out(std::size_t i = 0) const {
    return graph.tensors[node.outputs[i]].shape;
  }
  // Returns an axis that an attribute names, counted from the front.
  [[nodiscard]] int axis(std::string_view name, std::int64_t fallback, int rank) const {
    const auto value = static_cast<int>(node.attributes.integer(name, fallback));
    return value < 0 ? value + rank : value;
  }
  [[nodiscard]] Passage all_made(const Layout& made) const {
    return {.wanted = {inputs.begin(), inputs.end()},
            .made = std::vector<Layout>(node.outputs.size(), made)};
  }
  [[nodiscard]] static Passage impossible() { return {.possible = false}; }
};

// Operands are aligned at their last axes; one that has the axis whole must be cut, too.
Passage pass_elementwise(const Site& site) {
  const Shape& out = site.out();
  Layout made;
  for (std::size_t i = 0; i < site.inputs.size(); ++i) {
    if (!site.inputs[i]) continue;
    Cut cut = *site.inputs[i];
    cut.axis += out.rank() - site.in(i).rank();
    if (made && !(*made == cut)) return Site::impossible();
    made = cut;
  }
  if (made->spread) return Site::impossible();
  const bool rotates =
      site.node.family == &rotary_family() || site.node.family == &liger_rope_family();
  if (rotates && made->axis == out.rank() - 1) return Site::impossible();
  Passage passage = site.all_made(made);
  for (std::size_t i = 0; i < site.inputs.size(); ++i) {
    if (site.inputs[i] || !site.node.inputs[i].valid()) continue;
    Cut cut = *made;
    cut.axis -= out.rank() - site.in(i).rank();
    if (cut.axis >= 0 && site.in(i)[cut.axis] == out[made->axis]) passage.wanted[i] = cut;
  }
  return passage;
}

Passage pass_along_axis(const Site& site) {
  const Cut& cut = *site.inputs[0];
  const int axis = site.axis("axis", -1, site.in(0).rank());
  return axis == cut.axis || cut.spread ? Site::impossible() : site.all_made(cut);
}

// Layer and RMS norm: the trailing axes, which the weight covers.
Passage pass_norm(const Site& site) {
  const bool weighted = site.node.inputs.size() > 1 && site.node.inputs[1].valid();
  const int trailing =
      weighted ? site.in(1).rank() : static_cast<int>(site.node.attributes.integer("axes", 1));
  const Layout& cut = site.inputs[0];
  const bool normalized = !cut || cut->axis >= site.in(0).rank() - trailing;
  return normalized ? Site::impossible() : site.all_made(cut);
}

Passage pass_reduction(const Site& site) {
  Cut cut = *site.inputs[0];
  const auto reduced = reduced_axes(site.node.attributes.list("axes"), site.in(0).rank());
  if (reduced[static_cast<std::size_t>(cut.axis)] || cut.spread) return Site::impossible();
  int dropped = 0;
  for (int axis = 0; axis < cut.axis; ++axis)
    dropped += reduced[static_cast<std::size_t>(axis)] ? 1 : 0;
  if (!site.node.attributes.flag("keepdim")) cut.axis -= dropped;
  return site.all_made(cut);
}

Passage pass_view(const Site& site) {
  const Followed followed = follow_view(site.in(0), *site.inputs[0], site.out());
  Passage passage = site.all_made(followed.cut);
  passage.possible = followed.cut.has_value();
  passage.indivisible = followed.indivisible;
  return passage;
}

Passage pass_permutation(const Site& site) {
  Cut cut = *site.inputs[0];
  if (cut.spread) return Site::impossible();
  const int rank = site.in(0).rank();
  if (site.node.family == &transpose_family()) {
    const int a = site.axis("axis_a", -2, rank);
    const int b = site.axis("axis_b", -1, rank);
    cut.axis = cut.axis == a ? b : cut.axis == b ? a : cut.axis;
    return site.all_made(cut);
  }
  const std::vector<std::int64_t> axes = site.node.attributes.list("axes");
  cut.axis = static_cast<int>(std::find(axes.begin(), axes.end(), cut.axis) - axes.begin());
  return site.all_made(cut);
}

// The repeats of a key-value head that several ranks share are divided among them.
Passage pass_expand(const Site& site) {
  Cut cut = *site.inputs[0];
  cut.axis += site.out().rank() - site.in(0).rank();
  const int next = cut.axis + 1;
  const bool repeats = cut.sharing > 1 && next < site.out().rank() &&
                       site.in(0)[next - (site.out().rank() - site.in(0).rank())] == 1 &&
                       site.out()[next] > 1;
  if (!repeats) return cut.spread ? Site::impossible() : site.all_made(cut);
  if (site.out()[next] % cut.sharing != 0) return {.possible = false, .indivisible = cut.whole};
  cut.spread = true;
  return site.all_made(cut);
}

// Each rank has its part of every part: the rows of a fused weight are dealt out so.
Passage pass_split(const Site& site) {
  Cut cut = *site.inputs[0];
  const int axis = site.axis("axis", 0, site.in(0).rank());
  if (axis != cut.axis) return cut.spread ? Site::impossible() : site.all_made(cut);
  if (cut.outer != 1 || cut.whole != site.in(0)[axis] || cut.tokens || cut.classes)
    return Site::impossible();
  Passage passage = site.all_made(cut);
  for (std::size_t i = 0; i < passage.made.size(); ++i) {
    const std::int64_t size = site.out(i)[axis];
    if (size * cut.part % cut.whole != 0) return {.possible = false, .indivisible = size};
    passage.made[i]->whole = size;
    passage.made[i]->part = size * cut.part / cut.whole;
  }
  return passage;
}

Passage pass_narrow(const Site& site) {
  Cut cut = *site.inputs[0];
  const int axis = site.axis("axis", 0, site.in(0).rank());
  if (axis == cut.axis || cut.spread) return Site::impossible();
  if (site.node.attributes.flag("drop_axis") && axis < cut.axis) --cut.axis;
  return site.all_made(cut);
}

Passage pass_cat(const Site& site) {
  const auto first = std::find_if(site.inputs.begin(), site.inputs.end(),
                                  [](const Layout& layout) { return layout.has_value(); });
  const bool along = site.axis("axis", 0, site.out().rank()) == (*first)->axis;
  const bool alike = std::all_of(site.inputs.begin(), site.inputs.end(),
                                 [&](const Layout& other) { return !other || *other == **first; });
  if (along || !alike || (*first)->spread) return Site::impossible();
  Passage passage = site.all_made(*first);
  std::fill(passage.wanted.begin(), passage.wanted.end(), *first);
  return passage;
}

// [batch, m, k] times [batch, k, n]: the batch is cut in both, rows or columns in one.
Passage pass_bmm(const Site& site) {
  const Layout& left = site.inputs[0];
  const Layout& right = site.inputs[1];
  const int axis = left ? left->axis : right->axis;
  if (left && right && !(*left == *right && axis == 0)) return Site::impossible();
  if (axis == 0) {
    Passage passage = site.all_made(left ? left : right);
    passage.wanted[0] = passage.wanted[1] = passage.made[0];
    return passage;
  }
  const bool rows = left && axis == 1;
  const bool columns = right && axis == 2;
  return rows || columns ? site.all_made(left ? left : right) : Site::impossible();
}

// Heads are independent of each other; a rank's query heads use its key-value heads.
Passage pass_attention(const Site& site) {
  const Layout& query = site.inputs[0];
  if (!query) return Site::impossible();
  constexpr int kHeads = 1;
  Passage passage = site.all_made(query);
  const bool by_samples = query->axis == 0;
  if (!by_samples && query->axis != kHeads) return Site::impossible();
  for (std::size_t i = 1; i < site.inputs.size(); ++i) {
    const Layout& other = site.inputs[i];
    if (by_samples || (!other && site.in(i)[kHeads] == site.in(0)[kHeads]))
      passage.wanted[i] = query;
    const bool fits = !other || (other->axis == query->axis && query->part % other->part == 0);
    if (!fits) return Site::impossible();
  }
  return passage;
}

// Rows of experts: those of a rank's tokens, wherever they are sent.
Passage pass_rows(const Site& site) {
  Cut cut = *site.inputs[0];
  const std::int64_t ranks = cut.whole / cut.part;
  const std::int64_t rows = site.out()[0];
  if (cut.axis != 0 || rows % ranks != 0) return Site::impossible();
  cut = {.axis = 0, .whole = rows, .part = rows / ranks, .tokens = true};
  return site.all_made(cut);
}

// Communication along another axis: of a sequence whose ranks each have a part of the heads, too.
Passage pass_collective(const Site& site) {
  Cut cut = *site.inputs[0];
  const Attributes& attributes = site.node.attributes;
  if (attributes.holds<std::int64_t>("rows")) return pass_rows(site);
  if (site.node.family != &all_to_all_family()) {
    const bool along =
        attributes.holds<std::int64_t>("axis") && site.axis("axis", 0, 1) == cut.axis;
    return along ? Site::impossible() : site.all_made(cut);
  }
  if (site.axis("joined_axis", 0, 1) == cut.axis) return Site::impossible();
  if (site.axis("split_axis", 0, 1) != cut.axis) return site.all_made(cut);
  const std::int64_t ranks = attributes.integer("ranks", 1);
  if (cut.part % ranks != 0) return {.possible = false, .indivisible = cut.whole};
  cut.whole /= ranks;
  cut.part /= ranks;
  return site.all_made(cut);
}

Passage pass_combination(const Site& site) {
  const Layout& weights = site.inputs[1];
  const bool by_tokens = weights && weights->axis == 0 && site.inputs[0]->axis == 0;
  return by_tokens ? site.all_made(weights) : Site::impossible();
}

Passage pass_each(const Site& site) {
  return site.all_made(site.inputs[0]);
}

// The choices of each row.
Passage pass_choices(const Site& site) {
  const Cut& cut = *site.inputs[0];
  return cut.axis == site.in(0).rank() - 1 ? Site::impossible() : site.all_made(cut);
}

using Rule = Passage (*)(const Site&);
struct FamilyRule {
  const OperatorFamily& (*family)();
  Rule rule;
};
constexpr std::array kRules = {
    FamilyRule{softmax_family, pass_along_axis},
    FamilyRule{log_softmax_family, pass_along_axis},
    FamilyRule{cumsum_family, pass_along_axis},
    FamilyRule{layer_norm_family, pass_norm},
    FamilyRule{rms_norm_family, pass_norm},
    FamilyRule{liger_rms_norm_family, pass_norm},
    FamilyRule{mean_family, pass_reduction},
    FamilyRule{sum_family, pass_reduction},
    FamilyRule{view_family, pass_view},
    FamilyRule{reshape_family, pass_view},
    FamilyRule{transpose_family, pass_permutation},
    FamilyRule{permute_family, pass_permutation},
    FamilyRule{expand_family, pass_expand},
    FamilyRule{split_family, pass_split},
    FamilyRule{glu_family, pass_split},
    FamilyRule{narrow_family, pass_narrow},
    FamilyRule{cat_family, pass_cat},
    FamilyRule{bmm_family, pass_bmm},
    FamilyRule{attention_family, pass_attention},
    FamilyRule{ring_attention_family, pass_attention},
    FamilyRule{all_gather_family, pass_collective},
    FamilyRule{reduce_scatter_family, pass_collective},
    FamilyRule{gather_whole_family, pass_collective},
    FamilyRule{take_part_family, pass_collective},
    FamilyRule{all_reduce_family, pass_collective},
    FamilyRule{copy_to_ranks_family, pass_collective},
    FamilyRule{all_to_all_family, pass_collective},
    FamilyRule{exchange_rows_family, pass_collective},
    FamilyRule{contiguous_family, pass_elementwise},
    FamilyRule{rotary_family, pass_elementwise},
    FamilyRule{liger_rope_family, pass_elementwise},
    FamilyRule{liger_glu_family, pass_elementwise},
    FamilyRule{dropout_family, pass_elementwise},
    FamilyRule{masked_fill_family, pass_elementwise},
    FamilyRule{maximum_family, pass_elementwise},
    FamilyRule{minimum_family, pass_elementwise},
    FamilyRule{where_family, pass_elementwise},
    FamilyRule{logsigmoid_family, pass_elementwise},
    FamilyRule{tensor_power_family, pass_elementwise},
    FamilyRule{clone_family, pass_elementwise},
    FamilyRule{require_gradient_family, pass_elementwise},
    FamilyRule{permute_rows_family, pass_rows},
    FamilyRule{sort_rows_family, pass_rows},
    FamilyRule{combine_rows_family, pass_combination},
    FamilyRule{top_k_family, pass_choices},
    FamilyRule{one_hot_family, pass_each},
};

Rule rule_of(const OperatorFamily& family) {
  const auto* const found = std::find_if(kRules.begin(), kRules.end(), [&](const FamilyRule& rule) {
    return &rule.family() == &family;
  });
  if (found != kRules.end()) return found->rule;
  const bool elementwise =
      is_one_of(activation_families(), family) || is_one_of(elementwise_families(), family);
  return elementwise ? pass_elementwise : nullptr;
}

}  // namespace
}  // namespace cut_rules_detail

Passage whole_passage(const Node& node) {
  return {.wanted = std::vector<Layout>(node.inputs.size()),
          .made = std::vector<Layout>(node.outputs.size())};
}

Passage pass_through(const Graph& graph, NodeId node, std::span<const Layout> inputs) {
  const Node& of = graph.nodes[node];
  const bool any = std::any_of(inputs.begin(), inputs.end(),
                               [](const Layout& layout) { return layout.has_value(); });
  if (!any) return whole_passage(of);
  const cut_rules_detail::Rule rule = cut_rules_detail::rule_of(*of.family);
  // All but sums and choices of several tensors take their cut from the first operand.
  const bool by_first = rule != cut_rules_detail::pass_elementwise &&
                        rule != cut_rules_detail::pass_cat && rule != cut_rules_detail::pass_bmm;
  if (rule == nullptr || (by_first && !inputs[0])) return {.possible = false};
  return rule({graph, of, inputs});
}

void localize_attributes(const Graph& graph, NodeId node, std::span<const Layout> wanted,
                         std::span<const Layout> made, Attributes& attributes) {
  const Node& of = graph.nodes[node];
  const OperatorFamily* family = of.family;
  if (made.empty() || !made[0]) return;
  const Shape& out = graph.tensors[of.outputs[0]].shape;
  if (family == &view_family() || family == &reshape_family() || family == &expand_family() ||
      family == &zeros_family()) {
    const Shape local = local_shape(out, made[0]);
    std::vector<std::int64_t> shape = attributes.list("shape");
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] != -1) shape[axis] = local[static_cast<int>(axis)];
    }
    attributes.set("shape", std::move(shape));
  } else if (family == &arange_family()) {
    attributes.set("length", local_shape(out, made[0])[0]);
  } else if (family == &split_family() && wanted[0]) {
    const int axis = made[0]->axis;
    if (static_cast<int>((attributes.integer("axis", 0) + out.rank()) % out.rank()) != axis) return;
    std::vector<std::int64_t> sizes;
    for (std::size_t i = 0; i < made.size(); ++i)
      sizes.push_back(local_shape(graph.tensors[of.outputs[i]].shape, made[i])[axis]);
    attributes.set("sizes", std::move(sizes));
  } else if (attributes.holds<std::int64_t>("rows")) {
    attributes.set("rows", local_shape(out, made[0])[0]);
  } else if (attributes.holds<std::int64_t>("extent")) {
    const auto axis = static_cast<int>(attributes.integer("axis"));
    attributes.set("extent", local_shape(out, made[0])[axis]);
  }
}

}  // namespace tidemark
