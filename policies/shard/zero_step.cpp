#include <algorithm>
#include <utility>

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
      ranks_(context.mesh.size(MeshDimension::kShard)),
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
    const bool again = !accumulate.empty();
    backward = reduced(plain, false);
    if (again) accumulate = reduced(plain, true);
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
    update();
  }
}

// One optimizer group, flat, padded to a multiple of twice the ranks.
void StateShards::lay_out() {
  if (options_.stage == 3) {  // each parameter is padded by itself
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const Elements part((elements_of(i).count + ranks_ - 1) / ranks_);
      pieces_.push_back({.member = i, .elements = part, .average = {}});
      partition_ += part;
    }
    return;
  }
  std::int64_t total = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    total += elements_of(i).count;
  const std::int64_t align = 2 * static_cast<std::int64_t>(ranks_);
  const std::int64_t padded = (total + align - 1) / align * align;
  partition_ = Elements(padded / ranks_);
  std::int64_t left = partition_.count;
  for (std::size_t i = 0; i < parameters_.size() && left > 0; ++i) {
    const std::int64_t part = std::min(left, elements_of(i).count);
    pieces_.push_back({.member = i, .elements = Elements(part), .average = {}});
    left -= part;
  }
  if (padded > total) {
    padding_ =
        add_kept(graph_, "flat_parameters.padding", graph_.parameters[parameters_.front()].dtype,
                 Elements(padded - total), Role::kParameter);
  }
}

// Stage 2 keeps the averages of the parameters that reach into its partition, and drops all
// gradients of backward.
void StateShards::own_gradients() {
  std::vector<StorageId> owned;
  for (Piece& piece : pieces_) {
    const Parameter& parameter = graph_.parameters[parameters_[piece.member]];
    if (options_.stage == 3) {  // parts of one buffer that is never freed
      piece.average = add_kept(graph_, parameter.name + ".grad_partition", type(), piece.elements,
                               Role::kGradient);
      continue;
    }
    piece.average = add_tensor(graph_, parameter.name + ".averaged_grad", type(),
                               parameter.elements, Role::kGradient);
    graph_.storages[piece.average].persistent = true;
    owned.push_back(piece.average);
  }
  release_in_zero_grad(graph_, owned);
  for (const StorageId gradient : made_)
    graph_.storages[gradient].persistent = false;
}

// Reduces what the ipg buffer holds: a copy of it is all-reduced, and what is kept copied back.
void StateShards::reduce(const std::vector<std::size_t>& members, StorageId filled_buffer,
                         bool adds, std::vector<OperatorId>& into) {
  Elements elements;
  for (const std::size_t member : members) {
    elements += options_.stage == 3 ? Elements(pieces_[member].elements.count * ranks_)
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
  into.push_back(add_collective(graph_, kind, group, Phase::kBackward, type(), bytes,
                                {{copy, Access::kMutate}}));
  if (options_.stage == 1) {
    std::vector<Touch> back{{copy, Access::kRead}};
    for (const std::size_t member : members)
      back.push_back({made_[member], Access::kOverwrite});
    into.push_back(add_copy(graph_, "copy_back", Phase::kBackward, back, bytes));
    return;
  }
  std::vector<Touch> own{{copy, Access::kRead}};
  Bytes kept;
  for (const Piece& piece : pieces_) {
    if (std::find(members.begin(), members.end(), piece.member) == members.end()) continue;
    const Access fresh = options_.stage == 3 ? Access::kOverwrite : Access::kCreate;
    own.push_back({piece.average, adds ? Access::kMutate : fresh});
    kept += graph_.storages[piece.average].bytes;
  }
  if (own.size() > 1) into.push_back(add_copy(graph_, "keep_own", Phase::kBackward, own, kept));
}

std::vector<OperatorId> StateShards::reduced(const std::vector<OperatorId>& part, bool adds) {
  std::vector<std::vector<std::size_t>> completed(part.size());
  const std::vector<std::size_t> completion = gradient_completions(graph_, part, made_);
  for (std::size_t i = 0; i < completion.size(); ++i)
    completed[completion[i]].push_back(i);
  // The buffers are taken at the start of backward and used by every copy; that of stage 3 stays.
  // All forms of backward share them.
  const bool stays = options_.stage == 3;
  for (std::size_t i = ipg_.size(); i < (options_.overlap && !stays ? 2U : 1U); ++i) {
    const auto add = stays ? add_kept : add_tensor;
    ipg_.push_back(add(graph_, fmt::format("ipg_buffer.{}", i), type(),
                       Elements(options_.reduce_bucket), Role::kGradientBucket));
  }
  std::vector<Touch> buffers;
  for (const StorageId ipg : ipg_)
    buffers.push_back({ipg, Access::kCreate});
  std::vector<OperatorId> result;
  if (!stays) {
    result.push_back(
        graph_.add_operator({.name = "allocate_ipg", .phase = Phase::kBackward}, buffers));
  }
  std::vector<std::size_t> bucket;
  std::int64_t filled = 0;
  std::size_t buffer = 0;
  const auto flush = [&](bool in_buffer = true) {
    if (bucket.empty()) return;
    reduce(bucket, in_buffer ? buffers[buffer].storage : StorageId(), adds, result);
    bucket.clear();
    filled = 0;
    buffer = (buffer + 1) % buffers.size();
  };
  for (std::size_t at = 0; at < part.size(); ++at) {
    result.push_back(part[at]);
    for (const std::size_t member : completed[at]) {
      const std::int64_t elements = elements_of(member).count;
      if (filled + elements > options_.reduce_bucket) flush();
      bucket.push_back(member);
      filled += elements;
      if (elements > options_.reduce_bucket) {
        flush(false);
        continue;
      }
      result.push_back(
          add_copy(graph_, "copy_into_ipg", Phase::kBackward,
                   {{made_[member], Access::kRead}, {buffers[buffer].storage, Access::kMutate}},
                   bytes_of(type(), Elements(elements))));
    }
  }
  flush();
  if (stays) return result;
  for (Touch& touch : buffers)
    touch.access = Access::kRead;
  result.push_back(graph_.add_operator(
      {.name = "release", .part = OperatorPart::kRelease, .phase = Phase::kBackward}, buffers));
  return result;
}

}  // namespace sharding

void shard_states(TrainingGraph& graph, const ZeroOptions& options, const RewriteContext& context) {
  if (context.mesh.replicas() == 1 || graph.trained.empty()) return;
  IdVector<ParameterId, StorageId> shards;
  if (options.stage == 3) {
    FsdpOptions gathers{.zero = &options};
    shards = shard_fully(graph, gathers, context);
  }
  sharding::StateShards(graph, options, context, std::move(shards)).build();
}

}  // namespace tidemark
