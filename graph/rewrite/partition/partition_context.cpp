// Context ranks: positions of the inputs are cut, and attention brings them together.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/operators/communication/ring_attention.hpp"
#include "graph/operators/known_families.hpp"
#include "graph/operators/registry.hpp"
#include "graph/rewrite/partition/partition_errors.hpp"
#include "graph/rewrite/partition/partition_planner.hpp"

namespace tidemark {
namespace partition_context_detail {
namespace {

constexpr int kHeads = 1;  // axes of what attention reads
constexpr int kPositions = 2;

bool is_loss(const OperatorFamily& family) {
  return is_one_of(loss_families(), family) || is_one_of(regression_loss_families(), family);
}

}  // namespace
}  // namespace partition_context_detail

// The samples and targets of one rank: its positions of [samples, length, ...], or of the two axes
// in one.
void PartitionPlanner::cut_inputs() {
  const std::int64_t length = graph_.samples > 0 ? graph_.tokens / graph_.samples : 0;
  if (length == 0) {
    throw UserError({}, options_.path,
                    graph_.name + " has no sequence whose positions could be divided");
  }
  for (const NodeId id : ids_of(graph_.nodes)) {
    if (!is_recurrent(*graph_.nodes[id].family)) continue;
    throw UserError({}, options_.path,
                    fmt::format("{}: a recurrence goes through the positions one after another, so "
                                "that they cannot be divided among ranks; leave context_parallel "
                                "out",
                                graph_.describe(id)));
  }
  // Each rank has two pieces, one from either end, so that causal attention is balanced.
  const std::int64_t pieces = 2 * static_cast<std::int64_t>(options_.ranks);
  if (length % pieces != 0) {
    throw UserError(
        {}, options_.path,
        fmt::format("a sequence of {} does not divide into 2 x {} pieces; write a "
                    "sequence of {}, or a size of {}",
                    length, options_.ranks, nearest_multiples(pieces, length),
                    length % 2 == 0 ? nearest_divisors(length / 2, options_.divides, options_.ranks)
                                    : "1"));
  }
  for (TensorId id : ids_of(graph_.tensors)) {
    const Tensor& tensor = graph_.tensors[id];
    if (sites_.maker[id].valid() || graph_.storages[tensor.storage].role != Role::kInput) continue;
    Cut cut{.whole = length, .part = length / options_.ranks, .tokens = true};
    if (tensor.shape.rank() >= 2 && tensor.shape[1] == length) {
      cut.axis = 1;
    } else if (tensor.shape.rank() >= 1 && tensor.shape[0] == graph_.tokens) {
      cut.outer = graph_.samples;
    } else {
      continue;
    }
    result_.tensors[id] = cut;
  }
}

bool PartitionPlanner::visit_context(NodeId id, const std::vector<Layout>& inputs) {
  const Node& node = graph_.nodes[id];
  const OperatorFamily* family = node.family;
  const bool cut = std::any_of(inputs.begin(), inputs.end(),
                               [](const Layout& layout) { return layout.has_value(); });
  if (family == &embedding_family() && !inputs[0]) {
    // Positions are looked up by every rank for its own.
    const Shape& indices = shape(node.inputs[0]);
    const std::int64_t length = graph_.tokens / graph_.samples;
    if (indices.rank() > 2 || indices[-1] != length ||
        (indices.rank() == 2 && indices[0] == length))
      return false;
    Passage passage = whole_passage(node);
    passage.wanted[0] = passage.made[0] = Cut{.axis = indices.rank() - 1,
                                              .whole = length,
                                              .part = length / options_.ranks,
                                              .tokens = true};
    finish(id, Treatment::kPlain, std::move(passage));
    return true;
  }
  if (!cut) return false;
  if (partition_context_detail::is_loss(*node.family) && inputs[0]) {
    // Each rank has the mean over its own tokens.
    Passage passage = whole_passage(node);
    std::fill(passage.wanted.begin(), passage.wanted.end(), inputs[0]);
    finish(id, Treatment::kPlain, std::move(passage));
    return true;
  }
  if (is_attention(*family) && inputs[0] &&
      inputs[0]->axis == partition_context_detail::kPositions) {
    Passage passage = whole_passage(node);
    for (Layout& wanted : passage.wanted)
      wanted = inputs[0];
    passage.made[0] = inputs[0];
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::int64_t heads = shape(node.inputs[i])[partition_context_detail::kHeads];
      if (options_.kind != ContextKind::kAllToAll || heads % options_.ranks == 0) continue;
      note(does_not_divide(heads, i == 0 ? "heads" : "key-value heads", options_.ranks));
    }
    finish(id, Treatment::kContextAttention, std::move(passage));
    return true;
  }
  if (family == &bmm_family() || family == &baddbmm_family()) {
    throw UserError({}, options_.path,
                    fmt::format("{}: a product of all positions with all others cannot be divided; "
                                "write training.attention: flash",
                                graph_.describe(id)));
  }
  return false;
}

}  // namespace tidemark
