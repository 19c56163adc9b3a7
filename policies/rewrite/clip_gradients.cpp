#include "policies/rewrite/clip_gradients.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "policies/rewrite/all_gradients.hpp"
#include "policies/rewrite/optimizer_kernels.hpp"

namespace tidemark {
namespace clip_gradients_detail {
namespace {

constexpr std::int64_t kNumberBytes = 4;         // a norm
constexpr std::int64_t kChunkElements = 65'536;  // aten/src/ATen/native/cuda/MultiTensorApply.cuh

StorageId add_numbers(TrainingGraph& graph, const char* name, std::size_t count) {
  const auto elements = static_cast<std::int64_t>(count);
  return graph.storages.push_back({.bytes = Bytes(elements * kNumberBytes),
                                   .dtype = DType::kFloat32,
                                   .elements = Elements(elements),
                                   .role = Role::kTemporary,
                                   .name = std::string("clip_grad_norm.") + name});
}

std::vector<Touch> touches_of(const AllGradients& gradients, Access access) {
  std::vector<Touch> touches;
  for (const StorageId storage : gradients.storages)
    touches.push_back({storage, access});
  return touches;
}

Work pass_over(const AllGradients& gradients, bool multi_tensor, double flops, bool writes) {
  double elements = 0;
  for (const Elements each : gradients.elements)
    elements += static_cast<double>(each.count);
  Work work{.op_class = OperatorClass::kOptimizer, .flops = Flops(flops * elements)};
  work.read = gradients.bytes;
  if (writes) work.written = gradients.bytes;
  work.launches = multi_tensor ? foreach_launches(gradients.elements, 1)
                               : static_cast<int>(gradients.elements.size());
  return work;
}

Work on_numbers(std::size_t count, int launches) {
  const Bytes bytes(static_cast<std::int64_t>(count) * kNumberBytes);
  return {.op_class = OperatorClass::kReduction,
          .flops = Flops(2 * static_cast<double>(count)),
          .read = bytes,
          .written = bytes,
          .launches = launches};
}

}  // namespace
}  // namespace clip_gradients_detail

// _foreach_norm, stack, vector_norm, the clamped quotient and _foreach_mul_; in 1.13 norms and
// products are a kernel per gradient. Ranks that hold shards add their norms up.
void ClipGradients::apply(TrainingGraph& graph, const RewriteContext& context) const {
  namespace detail = clip_gradients_detail;
  if (graph.trained.empty()) return;
  check_gradients_wait(graph, "training.clip_grad_norm", "the norm is that of all gradients");
  const AllGradients gradients = all_gradients(graph);
  const bool multi_tensor = context.framework == nullptr || context.framework->multi_tensor_kernels;
  const std::size_t count = gradients.storages.size();
  const StorageId norms = detail::add_numbers(graph, "norms", count);
  std::vector<Touch> touches = detail::touches_of(gradients, Access::kRead);
  touches.push_back({norms, Access::kCreate});
  const OperatorId first = add_before_optimizer(
      graph, "clip_grad_norm.norms", touches, detail::pass_over(gradients, multi_tensor, 2, false));
  if (multi_tensor) {
    // A partial sum per chunk of the longest gradient, for every gradient.
    const Elements longest =
        *std::max_element(gradients.elements.begin(), gradients.elements.end());
    const std::int64_t chunks =
        (longest.count + detail::kChunkElements - 1) / detail::kChunkElements;
    graph.operators[first].workspace =
        Bytes(static_cast<std::int64_t>(count) * chunks * detail::kNumberBytes);
  }
  const StorageId stacked = detail::add_numbers(graph, "stacked", count);
  const StorageId total = detail::add_numbers(graph, "total_norm", 1);
  const OperatorId summed = add_before_optimizer(
      graph, "clip_grad_norm.total",
      {{norms, Access::kRead}, {stacked, Access::kCreate}, {total, Access::kCreate}},
      detail::on_numbers(count, 2));
  if (context.mesh.size(MeshDimension::kShard) > 1) {
    const Bytes bytes(detail::kNumberBytes);
    add_before_optimizer(
        graph, "clip_grad_norm.all_reduce", {{total, Access::kMutate}},
        {.op_class = OperatorClass::kCollective,
         .read = bytes,
         .written = bytes,
         .collective = {
             .kind = CollectiveKind::kAllReduce, .group = MeshDimension::kShard, .bytes = bytes}});
  }
  const StorageId coefficient = detail::add_numbers(graph, "coefficient", 1);
  const StorageId clamped = detail::add_numbers(graph, "clamped", 1);
  const OperatorId quotient = add_before_optimizer(
      graph, "clip_grad_norm.coefficient",
      {{total, Access::kRead}, {coefficient, Access::kCreate}, {clamped, Access::kCreate}},
      detail::on_numbers(1, 3));
  touches = detail::touches_of(gradients, Access::kMutate);
  touches.push_back({clamped, Access::kRead});
  const OperatorId last = add_before_optimizer(graph, "clip_grad_norm.scale", touches,
                                               detail::pass_over(gradients, multi_tensor, 1, true));
  if (!graph.has_frames) return;
  // Variables of the function, and the norm that it returns.
  graph.holds.push_back({norms, first, last, HoldKind::kLocal});
  graph.holds.push_back({total, summed, last, HoldKind::kLocal});
  graph.holds.push_back({coefficient, quotient, last, HoldKind::kLocal});
}

}  // namespace tidemark
