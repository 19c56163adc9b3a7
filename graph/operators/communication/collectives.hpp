// Communication between ranks as autograd nodes: what a collective of forward becomes in backward
// is its formula. Rewrites add these nodes; no file of layers names them.
//
//   family          forward                  backward
//   all_reduce      sum, in place            nothing: every rank has the whole gradient
//   copy_to_ranks   nothing                  sum of the ranks' gradients, in place
//   all_gather      parts become the whole   reduce_scatter; the whole is not kept but gathered
//   again gather_whole    parts become the whole   the own part of a gradient that all ranks have
//   reduce_scatter  sum, of which one part   all_gather
//   take_part       the own part, copied     all_gather
//   all_to_all      parts of one axis become parts of another; backward the other way
#pragma once

#include <cstdint>

#include "graph/ir/attributes.hpp"
#include "graph/ir/collective.hpp"
#include "graph/ir/tensor.hpp"
#include "graph/ir/work.hpp"
#include "graph/operators/family.hpp"

namespace tidemark {

[[nodiscard]] const OperatorFamily& all_reduce_family();
[[nodiscard]] const OperatorFamily& copy_to_ranks_family();
// The attributes `axis` and `extent` say which axis changes, and its length afterwards.
[[nodiscard]] const OperatorFamily& all_gather_family();
[[nodiscard]] const OperatorFamily& gather_whole_family();
[[nodiscard]] const OperatorFamily& reduce_scatter_family();
[[nodiscard]] const OperatorFamily& take_part_family();
// The attribute `split_axis` gets shorter by the number of ranks, `joined_axis` longer.
[[nodiscard]] const OperatorFamily& all_to_all_family();

// Returns the attributes of a collective of a group of `ranks`.
[[nodiscard]] Attributes collective_attributes(MeshDimension group, std::int64_t ranks);

// Returns the work of a collective of the node's group; `whole` is the operation's full tensor.
[[nodiscard]] Work collective_work(const NodeView& node, CollectiveKind kind, const Tensor& whole);

}  // namespace tidemark
