#include "policies/compile/partition.hpp"

#include <algorithm>
#include <cmath>

#include "graph/operators/family.hpp"
#include "policies/solver/max_flow.hpp"

namespace tidemark {
namespace partition_detail {
namespace {

constexpr double kWeightPerOperator = 1.1;
constexpr int kMostDistance = 100;
constexpr double kWeightUnmaterialised = 2;
constexpr std::int64_t kReductionRatio = 4;

// The facts about one storage that forward makes.
struct Value {
  OperatorId maker;
  int distance = kMostDistance;  // operators from it to backward
  bool read_by_backward = false;
  bool materialised = false;  // some reader in forward cannot be fused with it
  bool banned = false;        // it is never recomputed
};

class Partition {
 public:
  Partition(const TrainingGraph& graph, CompileScope scope)
      : graph_(graph),
        scope_(scope),
        values_(graph.storages.size()),
        recomputed_(graph.storages.size(), 0) {}
  [[nodiscard]] IdVector<StorageId, char> run();

 private:
  void find_makers();
  void find_readers();
  void find_distances();
  void ban();
  void cut();
  // Adds what is read to compute a value again; `sum` is more than any cut.
  void add_recipe(FlowNetwork& network, StorageId id, double sum) const;
  [[nodiscard]] double weight_of(StorageId id) const;
  [[nodiscard]] bool is_value(StorageId id) const { return values_[id].maker.valid(); }

  const TrainingGraph& graph_;
  const CompileScope scope_;
  IdVector<StorageId, Value> values_;
  IdVector<StorageId, char> recomputed_;
};

void Partition::find_makers() {
  for (const OperatorId op : graph_.part(PartKind::kForward)) {
    for (const Touch& touch : graph_.touches_of(op)) {
      const Storage& storage = graph_.storages[touch.storage];
      if (touch.access == Access::kCreate && !storage.persistent) {
        values_[touch.storage].maker = op;
        // A value that changes is not the one that was made.
      } else if (touch.access != Access::kRead) {
        values_[touch.storage].banned = true;
      }
    }
  }
}

void Partition::find_readers() {
  for (const OperatorId op : graph_.part(PartKind::kForward)) {
    const bool fusible = is_fusible(graph_, op, scope_);
    for (const Touch& touch : graph_.touches_of(op)) {
      if (touch.access == Access::kCreate) continue;
      Value& value = values_[touch.storage];
      // The result of one compiled function is memory that the next one reads.
      const bool goes_out = scope_ == CompileScope::kBlocks && is_value(touch.storage) &&
                            graph_.block_of(op) != graph_.block_of(value.maker);
      value.materialised |= !fusible || goes_out;
      value.banned |= goes_out;
    }
  }
  for (const OperatorId op : graph_.part(PartKind::kBackward)) {
    const bool fusible = is_fusible(graph_, op, scope_);
    for (const Touch& touch : graph_.touches_of(op)) {
      if (!is_value(touch.storage)) continue;
      Value& value = values_[touch.storage];
      value.read_by_backward = true;
      value.banned |= !fusible || touch.access != Access::kRead;
      value.distance = 1;
    }
  }
}

void Partition::find_distances() {
  const std::vector<OperatorId>& forward = graph_.part(PartKind::kForward);
  for (auto op = forward.rbegin(); op != forward.rend(); ++op) {
    int made = kMostDistance;
    for (const Touch& touch : graph_.touches_of(*op)) {
      if (touch.access == Access::kCreate) made = std::min(made, values_[touch.storage].distance);
    }
    for (const Touch& touch : graph_.touches_of(*op)) {
      if (touch.access == Access::kCreate || !is_value(touch.storage)) continue;
      int& distance = values_[touch.storage].distance;
      distance = std::min({distance, made + 1, kMostDistance});
    }
  }
}

void Partition::ban() {
  for (const OperatorId op : graph_.part(PartKind::kForward)) {
    bool repeats = is_fusible(graph_, op, scope_);
    Bytes read;
    for (const Touch& touch : graph_.touches_of(op)) {
      repeats &= touch.access == Access::kRead || touch.access == Access::kCreate;
      if (touch.access == Access::kRead) read += graph_.storages[touch.storage].bytes;
    }
    for (const Touch& touch : graph_.touches_of(op)) {
      if (touch.access != Access::kCreate) continue;
      const Storage& storage = graph_.storages[touch.storage];
      const bool reduces = storage.bytes * kReductionRatio < read;
      const bool is_mask = storage.dtype == DType::kBool;
      values_[touch.storage].banned |= !repeats || reduces || is_mask;
    }
  }
}

double Partition::weight_of(StorageId id) const {
  const Value& value = values_[id];
  const double bytes = static_cast<double>(graph_.storages[id].bytes.count);
  const double far = std::pow(kWeightPerOperator, std::clamp(value.distance, 1, kMostDistance));
  return bytes * far * (value.materialised ? 1 : kWeightUnmaterialised);
}

// Vertices: source, sink, and for each value one before and one behind the edge that saving it
// cuts.
constexpr auto before(StorageId id) {
  return 2 + 2 * id.value;
}
constexpr auto behind(StorageId id) {
  return 3 + 2 * id.value;
}

void Partition::add_recipe(FlowNetwork& network, StorageId id, double sum) const {
  for (const Touch& touch : graph_.touches_of(values_[id].maker)) {
    // To compute a value again, statistics of its own operator are read as well.
    const bool needed = touch.access == Access::kRead || values_[touch.storage].banned;
    if (needed && touch.storage != id && is_value(touch.storage))
      network.add_edge(behind(touch.storage), before(id), sum);
  }
}

void Partition::cut() {
  constexpr std::uint32_t kSource = 0;
  constexpr std::uint32_t kSink = 1;
  double sum = 1;
  for (const StorageId id : ids_of(values_)) {
    if (is_value(id)) sum += weight_of(id);
  }
  FlowNetwork network(2 + 2 * values_.size());
  for (const StorageId id : ids_of(values_)) {
    if (!is_value(id)) continue;
    network.add_edge(before(id), behind(id), weight_of(id));
    if (values_[id].banned) network.add_edge(kSource, before(id), sum);
    if (values_[id].read_by_backward) network.add_edge(behind(id), kSink, sum);
    if (!values_[id].banned) add_recipe(network, id, sum);
  }
  (void)network.run(kSource, kSink);
  for (const StorageId id : ids_of(values_)) {
    if (!is_value(id) || values_[id].banned) continue;
    const bool saved = network.reaches(before(id)) && !network.reaches(behind(id));
    recomputed_[id] = saved ? 0 : 1;
  }
}

IdVector<StorageId, char> Partition::run() {
  find_makers();
  find_readers();
  find_distances();
  ban();
  cut();
  return std::move(recomputed_);
}

}  // namespace
}  // namespace partition_detail

bool is_compiled(const TrainingGraph& graph, OperatorId id, CompileScope scope) {
  return scope == CompileScope::kModel || graph.block_of(id) != kNoBlock;
}

bool is_fusible(const TrainingGraph& graph, OperatorId id, CompileScope scope) {
  if (!is_compiled(graph, id, scope)) return false;
  const Operator& op = graph.operators[id];
  if (op.executor != Executor::kDevice || op.blocks_host) return false;
  // Accumulation changes the gradient that backward starts from, and copies into .grad.
  if (op.part == OperatorPart::kUseGathered || op.part == OperatorPart::kRelease ||
      op.part == OperatorPart::kRootGradient || op.part == OperatorPart::kCopyGradient)
    return false;
  if (op.family != nullptr && op.family->opaque) return false;
  for (const Touch& touch : graph.touches_of(id)) {
    if (touch.access == Access::kOverwrite) return false;
    if (touch.access == Access::kMutate && graph.storages[touch.storage].persistent) return false;
  }
  switch (op.work.op_class) {
    case OperatorClass::kNone:
    case OperatorClass::kNormalization:
    case OperatorClass::kSoftmax:
    case OperatorClass::kElementwise:
    case OperatorClass::kReduction:
    case OperatorClass::kMemset:
      return true;
    case OperatorClass::kMatmul:
    case OperatorClass::kAttention:
    case OperatorClass::kConvolution:
    case OperatorClass::kConvolutionBackwardData:
    case OperatorClass::kConvolutionBackwardWeight:
    case OperatorClass::kDepthwiseConvolution:
    case OperatorClass::kPooling:
    case OperatorClass::kEmbedding:
    case OperatorClass::kOptimizer:
    case OperatorClass::kCollective:
    case OperatorClass::kFixed:
      return false;
  }
  return false;
}

IdVector<StorageId, char> recomputed_values(const TrainingGraph& graph, CompileScope scope) {
  return partition_detail::Partition(graph, scope).run();
}

}  // namespace tidemark
