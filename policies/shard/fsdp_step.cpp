#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/rewrite/precision.hpp"
#include "policies/shard/sharded_step.hpp"
#include "policies/shard/sharded_tensors.hpp"
#include "policies/shard/zero_options.hpp"

namespace tidemark {
namespace sharding {

ShardedStep::ShardedStep(TrainingGraph& graph, const FsdpOptions& options,
                         const RewriteContext& context)
    : graph_(graph),
      options_(options),
      mesh_(context.mesh),
      units_(graph, options.units, "fsdp", mesh_.size(MeshDimension::kExpert) > 1),
      built_as_(context.precision == nullptr ? DType::kFloat32 : context.precision->model),
      trains_(!graph.part(PartKind::kBackward).empty()) {}

IdVector<ParameterId, StorageId> ShardedStep::build() {
  tensors_.reserve(units_.all().size());
  for (const ShardUnit& unit : units_.all())
    tensors_.push_back(lay_out(unit));
  place_shards();
  if (options_.zero != nullptr) keep_near_turn();
  if (options_.zero == nullptr) update_shards();
  map_storages();
  backward_ = unit_visits(graph_, units_, graph_.part(PartKind::kBackward), unit_of_);
  build_forward();
  if (!trains_) return shards();
  build_backward();
  if (options_.zero != nullptr) drop_secondary();
  // With zero_grad(set_to_none=False) the sharded gradients are filled.
  if (graph_.gradients_persist && options_.zero == nullptr) fill_in_zero_grad(graph_, gradients());
  return shards();
}

// ZeRO's second partition of trained parameters is out of date when the step is over
// (invalidate_secondary_tensor in deepspeed/runtime/zero/stage3.py).
void ShardedStep::drop_secondary() {
  if (!marks_secondary()) return;
  std::vector<StorageId> shards;
  for (const Unit& unit : tensors_) {
    if (!unit.gather.valid()) continue;
    std::copy_if(unit.secondary.begin(), unit.secondary.end(), std::back_inserter(shards),
                 [&](StorageId shard) { return !graph_.storages[shard].persistent; });
  }
  if (shards.empty()) return;
  graph_.part(PartKind::kAfterOptimizer)
      .push_back(add_mark(OperatorPart::kRelease, Phase::kOptimizer, shards));
}

StorageId ShardedStep::add_buffer(const std::string& name, DType type, Elements elements) {
  return add_tensor(graph_, name, type, elements, Role::kCommunication);
}

ShardedStep::Unit ShardedStep::lay_out(const ShardUnit& unit) {
  Unit made{.name = unit.name, .spans_model = unit.spans_model, .parameters = unit.parameters};
  made.ranks = state_ranks(mesh_, unit.of_experts);
  const auto first_that = [&](auto matches) -> const Parameter* {
    const auto found = std::find_if(unit.parameters.begin(), unit.parameters.end(),
                                    [&](ParameterId id) { return matches(graph_.parameters[id]); });
    return found == unit.parameters.end() ? nullptr : &graph_.parameters[*found];
  };
  const Parameter* trained = first_that([](const Parameter& p) { return p.gradient.valid(); });
  // A flat parameter of codes alone has the type in which the model is built.
  const Parameter* first = first_that([&](const Parameter& p) { return !flat() || !is_codes(p); });
  made.compute = first == nullptr ? built_as_ : first->dtype;
  const Parameter* kept = trained == nullptr ? first : trained;
  made.kept_as = kept == nullptr ? built_as_ : kept_type(*kept);
  // Version 1 never frees the root behind forward: backward begins with it
  // (_post_forward_reshard in torch/distributed/fsdp/_runtime_utils.py).
  const bool frees = options_.reshard_after_forward.value_or(!unit.is_root);
  made.kept = unit.kept || !frees || (flat() && unit.is_root);
  if (flat()) {
    lay_out_flat(unit, made);
  } else {
    lay_out_each(unit, made);
  }
  const bool casts = made.compute != made.kept_as;
  const DType gradient = options_.param_dtype.value_or(made.compute);
  made.reduce_type = options_.reduce_dtype.value_or(casts ? gradient : made.compute);
  add_gradient(made);
  return made;
}

// Returns the type of a parameter's shard. A type of compute of FSDP's own converts from that in
// which the model is built, but not the codes of a quantised weight; otherwise shards are kept in
// the type that they are gathered in, which adapters may have for themselves.
DType ShardedStep::kept_type(const Parameter& parameter) const {
  const bool converts = options_.param_dtype.has_value() || options_.zero != nullptr;
  return converts && !is_codes(parameter) ? built_as_ : parameter.dtype;
}

bool ShardedStep::is_codes(const Parameter& parameter) const {
  return graph_.storages[parameter.storage].role == Role::kQuantisedParameter;
}

// Returns the elements that a parameter has in a flat parameter. Codes of quantised weights are
// packed into elements of its type (bnb_4bit_quant_storage in transformers), two of 4 bits a byte.
std::int64_t ShardedStep::flat_elements(const Unit& unit, ParameterId id) const {
  const Parameter& parameter = graph_.parameters[id];
  if (std::find(unit.codes.begin(), unit.codes.end(), id) == unit.codes.end())
    return parameter.elements.count;
  const std::int64_t packed = bytes_of(parameter.dtype, parameter.elements).count;
  const std::int64_t element = bytes_of(unit.kept_as, Elements(1)).count;
  return (packed + element - 1) / element;
}

// Throws UserError where PyTorch cannot put a unit's codes of quantised weights into its flat
// parameter: bitsandbytes packs those of 4 bits into its type alone, and a conversion of the flat
// parameter's elements would take them for numbers.
void ShardedStep::check_codes(const Unit& unit) const {
  for (const ParameterId id : unit.codes) {
    const Parameter& codes = graph_.parameters[id];
    if (codes.dtype != DType::kNf4 && codes.dtype != DType::kFp4) {
      throw UserError({}, "policies.fsdp.version",
                      fmt::format("'{}' has quantised weights in {} ({}), which PyTorch refuses in "
                                  "a flat parameter (Cannot flatten integer dtype tensors); write "
                                  "version: 2, or quantise to nf4 or fp4",
                                  unit.name, name_of(codes.dtype), codes.name));
    }
    if (unit.compute == unit.kept_as) continue;
    throw UserError(
        {}, "policies.fsdp.param_dtype",
        fmt::format("the flat parameter of '{0}' is in {1} and holds codes of quantised "
                    "weights ({2}), which a conversion to {3} destroys; leave "
                    "param_dtype out, write training.precision: {3}, or version: 2",
                    unit.name, name_of(unit.kept_as), codes.name, name_of(unit.compute)));
  }
}

// Throws UserError where PyTorch cannot put the parameters of a unit into one flat parameter, for
// their types. Codes of quantised weights are packed into the type of the others.
void ShardedStep::check_types(const Unit& unit) const {
  const Parameter* first = nullptr;
  for (const ParameterId id : unit.parameters) {
    const Parameter& parameter = graph_.parameters[id];
    if (!is_floating(parameter.dtype)) continue;
    if (first == nullptr) first = &parameter;
    if (kept_type(parameter) == kept_type(*first)) continue;
    throw UserError(
        {}, "policies.fsdp.version",
        fmt::format("'{}' has parameters in {} ({}) and in {} ({}), which PyTorch refuses in one "
                    "flat parameter (must flatten tensors with uniform dtype); write "
                    "trained_units: each, version: 2, or lora.dtype: {}",
                    unit.name, name_of(kept_type(*first)), first->name,
                    name_of(kept_type(parameter)), parameter.name, name_of(kept_type(*first))));
  }
}

// Returns the multiple of elements that tensors of a flat parameter begin at. Throws UserError
// where PyTorch cannot put them into one.
std::int64_t ShardedStep::alignment_of(const Unit& unit) const {
  const auto trains = [&](ParameterId id) { return graph_.parameters[id].trained; };
  const bool some = std::any_of(unit.parameters.begin(), unit.parameters.end(), trains);
  const bool mixed = some && !std::all_of(unit.parameters.begin(), unit.parameters.end(), trains);
  if (mixed && options_.use_orig_params == false) {
    throw UserError({}, "policies.fsdp.use_orig_params",
                    "'" + unit.name +
                        "' has frozen and trained parameters, which PyTorch refuses in one flat "
                        "parameter; write use_orig_params: true, or version: 2");
  }
  return options_.use_orig_params.value_or(mixed) ? std::int64_t{128} / bits_of(unit.compute) : 1;
}

// Version 1: one flat parameter, padded to a multiple of the ranks. With use_orig_params each
// tensor begins at a multiple of 16 bytes of the type of compute.
void ShardedStep::lay_out_flat(const ShardUnit& unit, Unit& made) {
  check_types(made);
  const std::int64_t align = alignment_of(made);
  std::copy_if(unit.parameters.begin(), unit.parameters.end(), std::back_inserter(made.codes),
               [&](ParameterId id) { return is_codes(graph_.parameters[id]); });
  check_codes(made);
  std::int64_t total = 0;
  std::int64_t held = 0;
  for (const ParameterId id : unit.parameters) {
    total = (total + align - 1) / align * align;
    const std::int64_t elements = flat_elements(made, id);
    total += elements;
    held += elements;
    const StorageId full = graph_.parameters[id].storage;
    gather_into(graph_.storages[full], graph_.parameters[id].elements);
    made.full.push_back(full);
    if (graph_.parameters[id].gradient.valid()) made.made.push_back(graph_.parameters[id].gradient);
  }
  const int ranks = made.ranks.shard;
  made.stored = Elements((total + ranks - 1) / ranks);
  const Elements padding(made.stored.count * ranks - held);
  if (padding.count > 0) {
    made.full.push_back(add_tensor(graph_, unit.name + ".padding", made.compute, padding,
                                   Role::kGatheredParameter));
    graph_.storages[made.full.back()].one_per_rank = true;
  }
  made.shards.push_back(
      add_kept(graph_, unit.name + ".flat_shard", made.kept_as, made.stored, Role::kParameter));
  if (made.made.empty()) return;
  made.reduced = made.stored;
}

// A flat parameter's part is the same share of each of its tensors, taken over all ranks.
RowShard ShardedStep::shard_of(const Unit& unit, const Parameter& parameter) const {
  const bool equal_parts = options_.zero != nullptr || flat();
  return equal_parts ? element_shard(parameter, unit.ranks.shard)
                     : row_shard(parameter, unit.ranks.shard);
}

// Version 2: rows of the first axis of each parameter, the rows of all ranks as many as the first
// one's.
void ShardedStep::lay_out_each(const ShardUnit& unit, Unit& made) {
  for (const ParameterId id : unit.parameters) {
    const Parameter& parameter = graph_.parameters[id];
    const bool equal_parts = options_.zero != nullptr;
    const RowShard rows = shard_of(made, parameter);
    const StorageId full = parameter.storage;
    const Role role = graph_.storages[full].role;
    const DType kept_as = kept_type(parameter);  // gather_into changes the role that it looks at
    gather_into(graph_.storages[full], Elements(rows.stored.count * made.ranks.shard));
    if (equal_parts && parameter.elements <= options_.zero->persistent_below) {
      graph_.storages[full].initial = graph_.storages[full].persistent = true;
      graph_.storages[full].one_per_rank = false;
    } else {
      made.full.push_back(full);
    }
    made.stored += rows.stored;
    made.shards.push_back(add_kept(graph_, parameter.name + ".shard", kept_as, rows.stored, role));
    if (!parameter.gradient.valid()) continue;
    made.made.push_back(parameter.gradient);
    made.reduced += rows.stored;
  }
}

// The gradients of full size do not outlive backward; the sharded ones do.
void ShardedStep::add_gradient(Unit& made) {
  if (made.made.empty()) return;
  for (const StorageId storage : made.made)
    graph_.storages[storage].persistent = options_.zero != nullptr;
  if (options_.zero != nullptr) return;
  made.gradient =
      add_tensor(graph_, made.name + ".grad", made.kept_as, made.reduced, Role::kGradient);
  graph_.storages[made.gradient].persistent = true;
  for (const ParameterId id : made.parameters) {
    Parameter& parameter = graph_.parameters[id];
    if (!parameter.gradient.valid()) continue;
    parameter.remaining = {.storage = made.gradient,
                           .elements = shard_of(made, parameter).stored,
                           .dtype = made.kept_as};
  }
}

// Shards whose parameters are always gathered stay on the device.
void ShardedStep::place_shards() {
  for (const Unit& unit : tensors_) {
    for (std::size_t i = 0; i < unit.shards.size(); ++i) {
      const bool whole =
          !flat() && graph_.storages[graph_.parameters[unit.parameters[i]].storage].persistent;
      if (!whole) graph_.storages[unit.shards[i]].home = options_.shard_home;
    }
  }
}

// ZeRO keeps what it needs again within max_reuse_distance elements: units at the end of forward.
void ShardedStep::keep_near_turn() {
  Elements between;
  for (std::size_t u = tensors_.size(); u-- > 0;) {
    tensors_[u].kept = between < options_.zero->max_reuse_distance;
    for (const ParameterId id : tensors_[u].parameters)
      between += Elements(2 * graph_.parameters[id].elements.count);
  }
}

IdVector<ParameterId, StorageId> ShardedStep::shards() const {
  IdVector<ParameterId, StorageId> result(graph_.parameters.size());
  for (const Unit& unit : tensors_) {
    if (unit.shards.size() != unit.parameters.size()) continue;
    for (std::size_t i = 0; i < unit.parameters.size(); ++i)
      result[unit.parameters[i]] = unit.shards[i];
  }
  return result;
}

// Returns the elements of a flat parameter's shard that are updated. Where use_orig_params leaves
// some of its tensors frozen, ranks have different numbers of trained elements: the most.
Elements ShardedStep::updated_elements(const Unit& unit) const {
  const std::int64_t align = alignment_of(unit);
  std::vector<std::int64_t> trained(static_cast<std::size_t>(unit.ranks.shard), 0);
  std::int64_t at = 0;
  bool all = true;
  for (const ParameterId id : unit.parameters) {
    const Parameter& parameter = graph_.parameters[id];
    at = (at + align - 1) / align * align;
    const std::int64_t end = at + flat_elements(unit, id);
    all = all && parameter.trained;
    while (parameter.trained && at < end) {
      const std::int64_t rank = at / unit.stored.count;
      const std::int64_t until = std::min(end, (rank + 1) * unit.stored.count);
      trained[static_cast<std::size_t>(rank)] += until - at;
      at = until;
    }
    at = end;
  }
  return all ? unit.stored : Elements(*std::max_element(trained.begin(), trained.end()));
}

void ShardedStep::update_shards() {
  std::vector<UpdatedTensor> updates;
  for (const Unit& unit : tensors_) {
    if (!unit.gradient.valid()) continue;
    UpdatedTensor part{.name = unit.name,
                       .dtype = unit.kept_as,
                       .elements = unit.stored,
                       .gradient = unit.gradient,
                       .gradient_dtype = unit.kept_as};
    if (flat()) {
      part.weights = part.updated = unit.shards.front();
      part.elements = updated_elements(unit);
      updates.push_back(part);
      continue;
    }
    for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
      const Parameter& parameter = graph_.parameters[unit.parameters[i]];
      if (!parameter.gradient.valid()) continue;
      const RowShard rows = shard_of(unit, parameter);
      part.name = parameter.name;
      part.layer = parameter.layer;
      part.shape = rows.shape;
      part.elements = rows.owned;
      part.parameter = unit.parameters[i];
      part.weights = part.updated = unit.shards[i];
      updates.push_back(part);
    }
  }
  graph_.updates = std::move(updates);
  release_in_zero_grad(graph_, gradients());
}

std::vector<StorageId> ShardedStep::gradients() const {
  std::vector<StorageId> sharded;
  for (const Unit& unit : tensors_) {
    if (unit.gradient.valid()) sharded.push_back(unit.gradient);
  }
  return sharded;
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
  touches.reserve(storages.size());
  for (const StorageId storage : storages)
    touches.push_back({storage, Access::kRead});
  const bool uses = part == OperatorPart::kUseGathered;
  return graph_.add_operator(
      {.name = uses ? "use_gathered" : "release", .part = part, .phase = phase}, touches);
}

}  // namespace sharding

IdVector<ParameterId, StorageId> shard_fully(TrainingGraph& graph, const FsdpOptions& options,
                                             const RewriteContext& context) {
  if (context.mesh.replicas() == 1 || graph.parameters.empty())
    return IdVector<ParameterId, StorageId>(graph.parameters.size());
  return sharding::ShardedStep(graph, options, context).build();
}

}  // namespace tidemark
