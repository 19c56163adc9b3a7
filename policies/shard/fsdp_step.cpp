#include "policies/shard/fsdp_step.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/rewrite/precision.hpp"
#include "policies/shard/sharded_tensors.hpp"

namespace tidemark {
namespace fsdp_step_detail {
namespace {

// Operators to insert into a part.
struct Insertions {
  std::vector<std::vector<OperatorId>> before;  // by index in the part
  std::vector<std::vector<OperatorId>> after;
  std::vector<OperatorId> at_end;

  explicit Insertions(std::size_t operators) : before(operators), after(operators) {}
  [[nodiscard]] std::vector<OperatorId> into(const std::vector<OperatorId>& part) const {
    std::vector<OperatorId> result;
    for (std::size_t at = 0; at < part.size(); ++at) {
      result.insert(result.end(), before[at].begin(), before[at].end());
      result.push_back(part[at]);
      result.insert(result.end(), after[at].begin(), after[at].end());
    }
    result.insert(result.end(), at_end.begin(), at_end.end());
    return result;
  }
};

// The order in which backward leaves units; what only the first or only the later micro-batches of
// a step run.
enum class Gradients { kFresh, kAdded };

class ShardedStep {
 public:
  ShardedStep(TrainingGraph& graph, const FsdpOptions& options, const RewriteContext& context)
      : graph_(graph),
        options_(options),
        ranks_(context.mesh.size(MeshDimension::kShard)),
        replicas_(context.mesh.size(MeshDimension::kReplicate)),
        units_(graph, options.units, "fsdp"),
        kept_as_(context.precision == nullptr ? DType::kFloat32 : context.precision->model) {}

  void build() {
    tensors_.reserve(units_.all().size());
    for (const ShardUnit& unit : units_.all())
      tensors_.push_back(lay_out(unit));
    update_shards();
    const std::vector<OperatorId> backward = graph_.part(PartKind::kBackward);
    const bool accumulates = !graph_.part(PartKind::kBackwardAccumulate).empty();
    map_storages();
    build_forward();
    if (backward.empty()) return;
    graph_.part(PartKind::kBackward) = reduced(backward, Gradients::kFresh);
    if (accumulates)
      graph_.part(PartKind::kBackwardAccumulate) = reduced(backward, Gradients::kAdded);
    if (graph_.gradients_persist) fill_gradients();
  }

 private:
  // What one unit keeps and what it makes.
  struct Unit {
    std::string name;
    DType compute = DType::kFloat32;
    bool kept = false;  // stays gathered after forward
    std::vector<ParameterId> parameters;
    std::vector<StorageId> shards;  // one per parameter, or the flat one
    std::vector<StorageId> full;    // the gathered parameters; padding of a flat one comes last
    std::vector<StorageId> made;    // gradients of full size
    Elements stored;                // elements of this rank's shards, padding included
    Elements reduced;               // the same of trained parameters
    StorageId gradient;             // the sharded gradients; invalid without trained parameters
    DType reduce_type = DType::kFloat32;
    StorageId gathered;   // version 2: the output of the gather
    StorageId reduction;  // the input of the reduction
    OperatorId gather;
    OperatorId copy_out;
  };

  [[nodiscard]] bool flat() const { return options_.version == 1; }
  [[nodiscard]] Unit lay_out(const ShardUnit& unit);
  void lay_out_flat(const ShardUnit& unit, Unit& made);
  void lay_out_each(const ShardUnit& unit, Unit& made);
  void add_gradient(Unit& made);
  void update_shards();
  void map_storages();
  void build_forward();
  void add_gather(Unit& unit);
  [[nodiscard]] std::vector<OperatorId> reduced(const std::vector<OperatorId>& part,
                                                Gradients gradients);
  [[nodiscard]] std::vector<OperatorId> reduction_of(Unit& unit, Gradients gradients);
  [[nodiscard]] OperatorId add_wait(const Unit& unit);
  [[nodiscard]] OperatorId add_mark(OperatorPart part, Phase phase,
                                    const std::vector<StorageId>& storages);
  [[nodiscard]] OperatorId add_copy(std::string name, Phase phase,
                                    const std::vector<Touch>& touches);
  [[nodiscard]] OperatorId add_collective(CollectiveKind kind, MeshDimension group, Phase phase,
                                          DType type, Bytes bytes,
                                          const std::vector<Touch>& touches);
  [[nodiscard]] StorageId add_buffer(const std::string& name, DType type, Elements elements);
  void fill_gradients();

  TrainingGraph& graph_;
  const FsdpOptions& options_;
  int ranks_;
  int replicas_;
  ShardUnits units_;
  DType kept_as_;  // the type of the shards
  std::vector<Unit> tensors_;
  IdVector<StorageId, std::optional<std::size_t>> unit_of_;  // of full parameters and gradients
  std::vector<UpdatedTensor> updates_;
};

StorageId ShardedStep::add_buffer(const std::string& name, DType type, Elements elements) {
  return add_tensor(graph_, name, type, elements, Role::kCommunication);
}

ShardedStep::Unit ShardedStep::lay_out(const ShardUnit& unit) {
  Unit made{.name = unit.name, .parameters = unit.parameters};
  made.compute = graph_.parameters[unit.parameters.front()].dtype;
  made.kept = unit.kept || !options_.reshard_after_forward.value_or(!unit.is_root);
  if (flat()) {
    lay_out_flat(unit, made);
  } else {
    lay_out_each(unit, made);
  }
  const bool casts = made.compute != kept_as_;
  const DType gradient = options_.param_dtype.value_or(made.compute);
  made.reduce_type = options_.reduce_dtype.value_or(casts ? gradient : made.compute);
  add_gradient(made);
  return made;
}

// Version 1: one flat parameter, padded to a multiple of the ranks. With use_orig_params each
// tensor begins at a multiple of 16 bytes of the type of compute.
void ShardedStep::lay_out_flat(const ShardUnit& unit, Unit& made) {
  const std::int64_t align =
      options_.use_orig_params ? 16 * 8 / static_cast<std::int64_t>(bits_of(made.compute)) : 1;
  std::int64_t total = 0;
  std::int64_t held = 0;
  for (const ParameterId id : unit.parameters) {
    total = (total + align - 1) / align * align;
    total += graph_.parameters[id].elements.count;
    held += graph_.parameters[id].elements.count;
    const StorageId full = graph_.parameters[id].storage;
    gather_into(graph_.storages[full], graph_.parameters[id].elements);
    made.full.push_back(full);
    if (graph_.parameters[id].gradient.valid()) made.made.push_back(graph_.parameters[id].gradient);
  }
  made.stored = Elements((total + ranks_ - 1) / ranks_);
  const Elements padding(made.stored.count * ranks_ - held);
  if (padding.count > 0) {
    made.full.push_back(add_tensor(graph_, unit.name + ".padding", made.compute, padding,
                                   Role::kGatheredParameter));
  }
  made.shards.push_back(
      add_kept(graph_, unit.name + ".flat_shard", kept_as_, made.stored, Role::kParameter));
  if (made.made.empty()) return;
  made.reduced = made.stored;
}

// Version 2: rows of the first axis of each parameter, the rows of all ranks as many as the first
// one's.
void ShardedStep::lay_out_each(const ShardUnit& unit, Unit& made) {
  for (const ParameterId id : unit.parameters) {
    const Parameter& parameter = graph_.parameters[id];
    const RowShard rows = row_shard(parameter, ranks_);
    const StorageId full = parameter.storage;
    gather_into(graph_.storages[full], Elements(rows.stored.count * ranks_));
    made.full.push_back(full);
    made.stored = made.stored + rows.stored;
    made.shards.push_back(
        add_kept(graph_, parameter.name + ".shard", kept_as_, rows.stored, Role::kParameter));
    if (!parameter.gradient.valid()) continue;
    made.made.push_back(parameter.gradient);
    made.reduced = made.reduced + rows.stored;
  }
}

// The gradients of full size do not outlive backward; the sharded ones do.
void ShardedStep::add_gradient(Unit& made) {
  if (made.made.empty()) return;
  for (const StorageId storage : made.made)
    graph_.storages[storage].persistent = false;
  made.gradient = add_tensor(graph_, made.name + ".grad", kept_as_, made.reduced, Role::kGradient);
  graph_.storages[made.gradient].persistent = true;
}

void ShardedStep::update_shards() {
  for (const Unit& unit : tensors_) {
    if (!unit.gradient.valid()) continue;
    UpdatedTensor part{.name = unit.name,
                       .dtype = kept_as_,
                       .elements = unit.stored,
                       .gradient = unit.gradient,
                       .gradient_dtype = kept_as_};
    if (flat()) {
      part.weights = part.updated = unit.shards.front();
      updates_.push_back(part);
      continue;
    }
    for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
      const Parameter& parameter = graph_.parameters[unit.parameters[i]];
      if (!parameter.gradient.valid()) continue;
      const RowShard rows = row_shard(parameter, ranks_);
      part.name = parameter.name;
      part.layer = parameter.layer;
      part.shape = rows.shape;
      part.elements = rows.owned;
      part.parameter = unit.parameters[i];
      part.weights = part.updated = unit.shards[i];
      updates_.push_back(part);
    }
  }
  graph_.updates = updates_;
  drop_at_zero_grad(graph_, tensors_, [](const Unit& unit) { return unit.gradient; });
}

void ShardedStep::map_storages() {
  unit_of_.resize(graph_.storages.size());
  for (std::size_t u = 0; u < tensors_.size(); ++u) {
    for (const StorageId storage : tensors_[u].full)
      unit_of_[storage] = u;
    for (const StorageId storage : tensors_[u].made)
      unit_of_[storage] = u;
  }
}

OperatorId ShardedStep::add_mark(OperatorPart part, Phase phase,
                                 const std::vector<StorageId>& storages) {
  std::vector<Touch> touches;
  for (const StorageId storage : storages)
    touches.push_back({storage, Access::kRead});
  const bool uses = part == OperatorPart::kUseGathered;
  return graph_.add_operator(
      {.name = uses ? "use_gathered" : "release", .part = part, .phase = phase}, touches);
}

OperatorId ShardedStep::add_copy(std::string name, Phase phase, const std::vector<Touch>& touches) {
  Operator op{
      .name = std::move(name), .phase = phase, .work = {.op_class = OperatorClass::kElementwise}};
  for (const Touch& touch : touches) {
    const Storage& storage = graph_.storages[touch.storage];
    if (touch.access == Access::kRead || touch.access == Access::kMutate)
      op.work.read += storage.bytes;
    if (touch.access != Access::kRead) {
      op.work.written += storage.bytes;
      op.work.dtype = storage.dtype;
    }
  }
  return graph_.add_operator(std::move(op), touches);
}

OperatorId ShardedStep::add_collective(CollectiveKind kind, MeshDimension group, Phase phase,
                                       DType type, Bytes bytes, const std::vector<Touch>& touches) {
  return graph_.add_operator(
      {.name = std::string(name_of(kind)),
       .phase = phase,
       .work = {.op_class = OperatorClass::kCollective,
                .dtype = type,
                .read = bytes,
                .written = bytes,
                .collective = {.kind = kind, .group = group, .bytes = bytes}}},
      touches);
}

void ShardedStep::add_gather(Unit& unit) {
  const Elements whole(unit.stored.count * ranks_);
  const Bytes bytes = bytes_of(unit.compute, whole);
  std::vector<Touch> touches;
  for (const StorageId shard : unit.shards)
    touches.push_back({shard, Access::kRead});
  // The shards in the type of compute, dropped when the gather has been issued. Version 2 copies
  // them together in any case.
  if (!flat() || unit.compute != kept_as_) {
    touches.push_back(
        {add_buffer(unit.name + ".gather_input", unit.compute, unit.stored), Access::kCreate});
  }
  std::vector<Touch> copies;
  if (flat()) {
    for (const StorageId full : unit.full)
      touches.push_back({full, Access::kCreate});
  } else {
    unit.gathered = add_buffer(unit.name + ".gather_output", unit.compute, whole);
    touches.push_back({unit.gathered, Access::kCreate});
    copies.push_back({unit.gathered, Access::kRead});
    for (const StorageId full : unit.full)
      copies.push_back({full, Access::kCreate});
  }
  unit.gather = add_collective(CollectiveKind::kAllGather, MeshDimension::kShard, Phase::kForward,
                               unit.compute, bytes, touches);
  if (!flat()) unit.copy_out = add_copy("copy_out", Phase::kForward, copies);
}

void ShardedStep::build_forward() {
  std::vector<OperatorId>& part = graph_.part(PartKind::kForward);
  const std::vector<UnitVisit> visits = unit_visits(graph_, units_, part, unit_of_);
  std::vector<std::size_t> order;
  for (std::size_t u = 0; u < tensors_.size(); ++u) {
    if (visits[u].happens) order.push_back(u);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return visits[a].first < visits[b].first; });
  Insertions insert(part.size());
  std::size_t end = 0;
  Unit* before = nullptr;
  for (const std::size_t u : order) {
    Unit& unit = tensors_[u];
    std::vector<OperatorId>& start = insert.before[visits[u].first];
    add_gather(unit);
    start.push_back(unit.gather);
    if (!flat()) {
      if (before != nullptr)
        start.push_back(add_mark(OperatorPart::kRelease, Phase::kForward, {before->gathered}));
      start.push_back(unit.copy_out);
    }
    if (!unit.kept) {
      insert.after[visits[u].last].push_back(
          add_mark(OperatorPart::kRelease, Phase::kForward, unit.full));
    }
    end = std::max(end, visits[u].last);
    before = &unit;
  }
  if (!flat() && before != nullptr) {
    insert.after[end].push_back(
        add_mark(OperatorPart::kRelease, Phase::kForward, {before->gathered}));
  }
  part = insert.into(part);
}

// Compute waits for the reduction of a unit, whose input then goes.
OperatorId ShardedStep::add_wait(const Unit& unit) {
  return add_mark(OperatorPart::kRelease, Phase::kBackward, {unit.reduction, unit.gradient});
}

std::vector<OperatorId> ShardedStep::reduction_of(Unit& unit, Gradients gradients) {
  std::vector<OperatorId> operators;
  const Elements whole(unit.reduced.count * ranks_);
  std::vector<Touch> copy;
  for (const StorageId made : unit.made)
    copy.push_back({made, Access::kRead});
  if (flat()) {
    // Autograd puts the flat gradient together from those of the views.
    const StorageId joined =
        add_tensor(graph_, unit.name + ".flat_gradient", unit.compute, whole, Role::kGradient);
    copy.push_back({joined, Access::kCreate});
    operators.push_back(add_copy("join_gradients", Phase::kBackward, copy));
    copy = {{joined, Access::kRead}};
    unit.reduction = joined;
  }
  if (!flat() || unit.reduce_type != unit.compute) {
    unit.reduction = add_buffer(unit.name + ".reduction", unit.reduce_type, whole);
    copy.push_back({unit.reduction, Access::kCreate});
    operators.push_back(add_copy("copy_in", Phase::kBackward, copy));
  }
  const bool direct = gradients == Gradients::kFresh && unit.reduce_type == kept_as_;
  StorageId output = unit.gradient;
  if (!direct) output = add_buffer(unit.name + ".reduced", unit.reduce_type, unit.reduced);
  operators.push_back(add_collective(CollectiveKind::kReduceScatter, MeshDimension::kShard,
                                     Phase::kBackward, unit.reduce_type,
                                     bytes_of(unit.reduce_type, whole),
                                     {{unit.reduction, Access::kRead}, {output, Access::kCreate}}));
  if (replicas_ > 1) {
    operators.push_back(add_collective(
        CollectiveKind::kAllReduce, MeshDimension::kReplicate, Phase::kBackward, unit.reduce_type,
        bytes_of(unit.reduce_type, unit.reduced), {{output, Access::kMutate}}));
  }
  if (!direct) {
    const bool fresh = gradients == Gradients::kFresh;
    operators.push_back(add_copy(
        fresh ? "cast_gradient" : "accumulate_gradient", Phase::kBackward,
        {{output, Access::kRead}, {unit.gradient, fresh ? Access::kCreate : Access::kMutate}}));
  }
  return operators;
}

std::vector<OperatorId> ShardedStep::reduced(const std::vector<OperatorId>& part,
                                             Gradients gradients) {
  const std::vector<UnitVisit> visits = unit_visits(graph_, units_, part, unit_of_);
  std::vector<std::size_t> order;
  for (std::size_t u = 0; u < tensors_.size(); ++u) {
    if (visits[u].happens) order.push_back(u);
  }
  Insertions insert(part.size());
  for (const std::size_t u : order) {
    const Unit& unit = tensors_[u];
    std::vector<StorageId> used = unit.full;
    if (!unit.kept && unit.gathered.valid()) used.push_back(unit.gathered);
    insert.before[visits[u].first].push_back(
        add_mark(OperatorPart::kUseGathered, Phase::kBackward, used));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return visits[a].last < visits[b].last; });
  const Unit* before = nullptr;
  for (const std::size_t u : order) {
    Unit& unit = tensors_[u];
    std::vector<OperatorId>& end = insert.after[visits[u].last];
    end.push_back(add_mark(OperatorPart::kRelease, Phase::kBackward, unit.full));
    if (!unit.gradient.valid()) continue;
    if (before != nullptr && !flat()) end.push_back(add_wait(*before));
    const std::vector<OperatorId> reduction = reduction_of(unit, gradients);
    end.insert(end.end(), reduction.begin(), reduction.end());
    before = &unit;
  }
  // Compute goes on when the last reduction is over.
  if (before != nullptr) insert.at_end.push_back(add_wait(*before));
  return insert.into(part);
}

// zero_grad(set_to_none=False) fills the sharded gradients.
void ShardedStep::fill_gradients() {
  std::vector<OperatorId>& zero = graph_.part(PartKind::kZeroGrad);
  std::erase_if(zero, [&](OperatorId id) { return !graph_.touches_of(id).empty(); });
  for (const Unit& unit : tensors_) {
    if (!unit.gradient.valid()) continue;
    zero.push_back(graph_.add_operator({.name = "zero_grad",
                                        .part = OperatorPart::kZeroGrad,
                                        .work = {.op_class = OperatorClass::kMemset,
                                                 .dtype = kept_as_,
                                                 .written = graph_.storages[unit.gradient].bytes}},
                                       std::array{Touch{unit.gradient, Access::kOverwrite}}));
  }
}

}  // namespace
}  // namespace fsdp_step_detail

void shard_fully(TrainingGraph& graph, const FsdpOptions& options, const RewriteContext& context) {
  if (context.mesh.replicas() == 1 || graph.parameters.empty()) return;
  fsdp_step_detail::ShardedStep(graph, options, context).build();
}

}  // namespace tidemark
