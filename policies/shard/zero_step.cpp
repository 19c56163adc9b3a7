#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "policies/rewrite/gradient_completion.hpp"
#include "policies/shard/fsdp_step.hpp"
#include "policies/shard/sharded_tensors.hpp"
#include "policies/shard/state_shards.hpp"

namespace tidemark {
namespace sharding {

StateShards::StateShards(TrainingGraph& graph, const ZeroOptions& options,
                         const RewriteContext& context, IdVector<ParameterId, StorageId> shards)
    : graph_(graph),
      options_(options),
      mesh_(context.mesh),
      parameters_(graph.trained),
      shards_(std::move(shards)) {
  std::sort(parameters_.begin(), parameters_.end());
}

void StateShards::build() {
  lay_out();
  for (const ParameterId id : parameters_)
    made_.push_back(graph_.parameters[id].gradient);
  const bool several = graph_.micro_batches > 1;
  std::vector<OperatorId>& backward = graph_.part(PartKind::kBackward);
  std::vector<OperatorId>& accumulate = graph_.part(PartKind::kBackwardAccumulate);
  if (options_.stage == 1) {
    // Only the last micro-batch reduces what all have added up.
    if (several) {
      graph_.part(PartKind::kBackwardReduce) = reduced(accumulate, false);
    } else {
      backward = reduced(backward, false);
      if (!accumulate.empty()) accumulate = reduced(accumulate, false);
    }
  } else {
    own_gradients();
    const std::vector<OperatorId> plain = backward;
    const std::vector<OperatorId> later = options_.secondary_ranks > 1 ? accumulate : plain;
    const bool again = !accumulate.empty();
    backward = reduced(plain, false);
    if (again) accumulate = reduced(later, true);
    if (graph_.gradients_persist) {
      std::vector<StorageId> averages;
      for (const Piece& piece : pieces_)
        averages.push_back(piece.average);
      fill_in_zero_grad(graph_, averages);
    }
  }
  graph_.updates.clear();
  if (options_.stage == 3) {
    update_sub_groups();
  } else {
    for (std::size_t g = 0; g < groups_.size(); ++g)
      update(groups_[g], static_cast<int>(g));
  }
}

void StateShards::lay_out() {
  if (options_.stage == 3) {  // each parameter is padded by itself
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const int ranks = ranks_of(i).shard;
      const Elements part((elements_of(i).count + ranks - 1) / ranks);
      pieces_.push_back({.member = i, .elements = part, .average = {}});
    }
    return;
  }
  // DeepSpeed makes experts a group of their own (_configure_moe_settings).
  for (const bool experts : {false, true}) {
    Group group{.prefix = experts ? "expert_" : "", .ranks = state_ranks(mesh_, experts)};
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (is_expert(i) == experts) group.members.push_back(i);
    }
    if (!group.members.empty()) lay_out_group(std::move(group));
  }
}

// One optimizer group, flat, padded to a multiple of twice the ranks.
void StateShards::lay_out_group(Group group) {
  std::int64_t total = 0;
  for (const std::size_t member : group.members)
    total += elements_of(member).count;
  const std::int64_t align = 2 * static_cast<std::int64_t>(group.ranks.shard);
  const std::int64_t padded = (total + align - 1) / align * align;
  group.partition = Elements(padded / group.ranks.shard);
  group.first_piece = pieces_.size();
  std::int64_t left = group.partition.count;
  for (const std::size_t member : group.members) {
    if (left <= 0) break;
    const std::int64_t part = std::min(left, elements_of(member).count);
    pieces_.push_back({.member = member, .elements = Elements(part), .average = {}});
    left -= part;
  }
  group.pieces = pieces_.size() - group.first_piece;
  if (padded > total) {
    const DType type = graph_.parameters[parameters_[group.members.front()]].dtype;
    group.padding = add_kept(graph_, group.prefix + "flat_parameters.padding", type,
                             Elements(padded - total), Role::kParameter);
  }
  groups_.push_back(std::move(group));
}

// Stage 2 keeps the averages of the parameters that reach into its partition, and drops all
// gradients of backward.
void StateShards::own_gradients() {
  std::vector<StorageId> owned;
  for (const ParameterId id : parameters_)
    graph_.parameters[id].remaining = RemainingGradient{};
  for (Piece& piece : pieces_) {
    Parameter& parameter = graph_.parameters[parameters_[piece.member]];
    if (options_.stage == 3 && !on_host()) {  // parts of one buffer that is never freed
      piece.average = add_kept(graph_, parameter.name + ".grad_partition", type(), piece.elements,
                               Role::kGradient);
      parameter.remaining = {.storage = piece.average, .elements = piece.elements, .dtype = type()};
      continue;
    }
    const Elements kept = options_.stage == 3 ? piece.elements : parameter.elements;
    piece.average =
        add_tensor(graph_, parameter.name + ".averaged_grad", type(), kept, Role::kGradient);
    parameter.remaining = {.storage = piece.average, .elements = kept, .dtype = type()};
    graph_.storages[piece.average].persistent = true;
    owned.push_back(piece.average);
  }
  release_in_zero_grad(graph_, owned);
  for (const StorageId gradient : made_)
    graph_.storages[gradient].persistent = false;
}

// Reduces what the ipg buffer holds: a copy of it is all-reduced. Returns the operator that copies
// back what is kept, if anything is.
OperatorId StateShards::reduce(const std::vector<std::size_t>& members, StorageId filled_buffer,
                               bool adds, std::vector<OperatorId>& into) {
  Elements elements;
  const StateRanks ranks = ranks_of(members.front());
  for (const std::size_t member : members) {
    elements += options_.stage == 3 ? Elements(pieces_[member].elements.count * ranks.shard)
                                    : elements_of(member);
  }
  const Bytes bytes = bytes_of(type(), elements);
  const bool scatters = options_.stage == 3;
  const CollectiveKind kind =
      scatters ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce;
  const MeshDimension group = scatters ? MeshDimension::kShard : MeshDimension::kData;
  const StorageId copy =
      add_tensor(graph_, "reduced_bucket", type(), elements, Role::kCommunication);
  std::vector<Touch> filled{{copy, Access::kCreate}};
  if (filled_buffer.valid()) {
    filled.push_back({filled_buffer, Access::kRead});
  } else {  // one gradient that the buffer has no room for
    filled.push_back({made_[members.front()], Access::kRead});
  }
  into.push_back(add_copy(graph_, "flatten", Phase::kBackward, filled, bytes));
  const int all = scatters ? ranks.shard : ranks.shard * ranks.replicas;
  const OperatorId reduction = add_collective(graph_, kind, group, Phase::kBackward, type(), bytes,
                                              {{copy, Access::kMutate}}, taking_part(all, group));
  // Without overlap_comm reductions run on compute's own stream.
  graph_.operators[reduction].work.collective.blocks_compute = !options_.overlap;
  into.push_back(reduction);
  if (options_.stage == 1) {
    std::vector<Touch> back{{copy, Access::kRead}};
    for (const std::size_t member : members)
      back.push_back({made_[member], Access::kOverwrite});
    return add_copy(graph_, "copy_back", Phase::kBackward, back, bytes);
  }
  std::vector<Touch> own{{copy, Access::kRead}};
  Bytes kept;
  for (const Piece& piece : pieces_) {
    if (std::find(members.begin(), members.end(), piece.member) == members.end()) continue;
    const Access fresh = options_.stage == 3 && !on_host() ? Access::kOverwrite : Access::kCreate;
    own.push_back({piece.average, adds ? Access::kMutate : fresh});
    kept += graph_.storages[piece.average].bytes;
  }
  return own.size() == 1 ? OperatorId() : add_copy(graph_, "keep_own", Phase::kBackward, own, kept);
}

// The buffers are taken at the start of backward and used by every copy; that of stage 3 stays. All
// forms of backward share them.
void StateShards::add_ipg_buffers() {
  const bool stays = options_.stage == 3;
  const std::size_t count = options_.overlap && !stays ? 2 : 1;
  for (std::size_t i = ipg_.size(); i < count; ++i) {
    const auto add = stays ? add_kept : add_tensor;
    ipg_.push_back(add(graph_, fmt::format("ipg_buffer.{}", i), type(), options_.reduce_bucket,
                       Role::kGradientBucket));
    Storage& buffer = graph_.storages[ipg_.back()];
    buffer.one_per_rank = true;
    if (stays) buffer.rank_buffer = static_cast<std::uint8_t>(i);
  }
}

std::vector<OperatorId> StateShards::reduced(const std::vector<OperatorId>& part, bool adds) {
  std::vector<std::vector<std::size_t>> completed(part.size());
  const std::vector<std::size_t> completion = gradient_completions(graph_, part, made_);
  for (std::size_t i = 0; i < completion.size(); ++i)
    completed[completion[i]].push_back(i);
  const bool stays = options_.stage == 3;
  add_ipg_buffers();
  std::vector<Touch> buffers;
  for (const StorageId ipg : ipg_)
    buffers.push_back({ipg, Access::kCreate});
  std::vector<OperatorId> result;
  if (!stays) {
    result.push_back(
        graph_.add_operator({.name = "allocate_ipg", .phase = Phase::kBackward}, buffers));
  }
  std::vector<std::size_t> bucket;
  Elements filled;
  std::size_t buffer = 0;
  // Compute waits for a reduction when the next bucket is full, and at the end of backward.
  OperatorId last;
  const auto finish = [&] {
    if (last.valid()) result.push_back(last);
    last = {};
  };
  const auto flush = [&](bool in_buffer = true) {
    if (bucket.empty()) return;
    finish();
    last = reduce(bucket, in_buffer ? buffers[buffer].storage : StorageId(), adds, result);
    if (!options_.overlap) finish();
    bucket.clear();
    filled = Elements(0);
    buffer = (buffer + 1) % buffers.size();
  };
  for (std::size_t at = 0; at < part.size(); ++at) {
    result.push_back(part[at]);
    for (const std::size_t member : completed[at]) {
      const Elements elements = elements_of(member);
      const bool others = !bucket.empty() && is_expert(bucket.front()) != is_expert(member);
      if (others || filled + elements > options_.reduce_bucket) flush();
      bucket.push_back(member);
      filled += elements;
      if (elements > options_.reduce_bucket) {
        flush(false);
        continue;
      }
      result.push_back(
          add_copy(graph_, "copy_into_ipg", Phase::kBackward,
                   {{made_[member], Access::kRead}, {buffers[buffer].storage, Access::kMutate}},
                   bytes_of(type(), elements)));
    }
  }
  flush();
  finish();
  if (stays) return result;
  for (Touch& touch : buffers)
    touch.access = Access::kRead;
  result.push_back(graph_.add_operator(
      {.name = "release", .part = OperatorPart::kRelease, .phase = Phase::kBackward}, buffers));
  return result;
}

}  // namespace sharding

namespace zero_step_detail {
namespace {

// Blocks are units, and so is each module outside of them: DeepSpeed frees a module when it has
// run. A module that a model enters several times has as many layers, all of one name.
UnitOptions module_units(const TrainingGraph& graph) {
  UnitOptions options;
  std::map<std::string_view, std::size_t> modules;
  for (const Parameter& parameter : graph.parameters) {
    if (!parameter.layer.valid()) continue;
    const Layer& layer = graph.layers[parameter.layer];
    if (layer.block == kNoBlock && !layer.name.empty())
      modules.try_emplace(layer.name, modules.size());
  }
  options.own_units.resize(graph.layers.size());
  for (const LayerId id : ids_of(graph.layers)) {
    const auto known = modules.find(graph.layers[id].name);
    if (known != modules.end()) options.own_units[id] = known->second;
  }
  return options;
}

}  // namespace
}  // namespace zero_step_detail

void shard_states(TrainingGraph& graph, const ZeroOptions& options, const RewriteContext& context) {
  if (context.mesh.replicas() == 1) return;
  if (graph.trained.empty() && options.stage < 3) return;
  IdVector<ParameterId, StorageId> shards;
  if (options.stage == 3) {
    FsdpOptions gathers{.units = zero_step_detail::module_units(graph),
                        .shard_home = options.parameters_home,
                        .zero = &options};
    shards = shard_fully(graph, gathers, context);
  }
  if (graph.trained.empty()) return;  // an evaluation has no states to shard
  sharding::StateShards(graph, options, context, std::move(shards)).build();
}

}  // namespace tidemark
