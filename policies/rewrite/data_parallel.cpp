#include "policies/rewrite/data_parallel.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/rewrite/entries.hpp"
#include "policies/rewrite/gradient_completion.hpp"

namespace tidemark {
namespace data_parallel_detail {
namespace {

// Parameters that the same ranks train.
struct Replicated {
  std::string prefix;                   // of the buckets' names
  std::vector<ParameterId> parameters;  // with a gradient, in the order of registration
  int ranks = 0;                        // of the data group that take part; 0: all of it
};

class BucketedBackward {
 public:
  BucketedBackward(TrainingGraph& graph, Replicated replicated, const DataParallelOptions& options)
      : graph_(graph),
        prefix_(std::move(replicated.prefix)),
        ranks_(replicated.ranks),
        parameters_(std::move(replicated.parameters)),
        // Gradients that are never dropped are views of their buckets from the first step on.
        in_place_(options.gradient_as_bucket_view && graph.gradients_persist),
        copies_back_(!options.gradient_as_bucket_view),
        rebuilds_(options.rebuilds) {
    plan(options.limits);
    if (copies_back_) {
      add_buckets();
    } else {
      add_views();
    }
  }

  void build();

 private:
  struct Bucket {
    std::vector<std::size_t> members;  // indices into parameters_
    Bytes bytes;
    std::int64_t elements = 0;
    StorageId storage;  // invalid where gradients are views: each member has memory of its own
  };

  void plan(const BucketLimits& limits);
  void add_buckets();
  void add_views();
  [[nodiscard]] std::vector<OperatorId> reduced(const std::vector<OperatorId>& part,
                                                bool at_once = false);
  [[nodiscard]] std::vector<std::vector<std::size_t>> buckets_by_type() const;
  [[nodiscard]] OperatorId add_copy_in(std::size_t member);
  [[nodiscard]] OperatorId add_all_reduce(const std::vector<std::size_t>& indices);
  [[nodiscard]] OperatorId add_copy_out(std::size_t member);
  [[nodiscard]] Operator elementwise(std::string_view name, std::size_t member) const;

  [[nodiscard]] const Parameter& parameter(std::size_t member) const {
    return graph_.parameters[parameters_[member]];
  }

  TrainingGraph& graph_;
  std::string prefix_;
  int ranks_;
  std::vector<ParameterId> parameters_;
  bool in_place_;
  bool copies_back_;
  bool rebuilds_;
  std::vector<Bucket> buckets_;         // in the order in which they are reduced
  std::vector<std::size_t> bucket_of_;  // by member
  std::vector<StorageId> made_;         // by member: the gradient that backward makes
  std::vector<StorageId> packed_;       // by member: the tensor that is reduced
};

void BucketedBackward::plan(const BucketLimits& limits) {
  std::vector<BucketGradient> gradients;
  for (const ParameterId id : parameters_) {
    const Parameter& parameter = graph_.parameters[id];
    gradients.push_back({graph_.storages[parameter.gradient].bytes, parameter.gradient_dtype});
    made_.push_back(parameter.gradient);
  }
  bucket_of_.resize(gradients.size());
  packed_ = made_;
  for (std::vector<std::size_t>& members : gradient_buckets(gradients, limits)) {
    Bucket bucket;
    for (const std::size_t member : members) {
      bucket.bytes += gradients[member].bytes;
      bucket.elements += parameter(member).elements.count;
      bucket_of_[member] = buckets_.size();
    }
    bucket.members = std::move(members);
    buckets_.push_back(std::move(bucket));
  }
}

// Adds flat tensors that stay for the whole run.
void BucketedBackward::add_buckets() {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    Storage storage{.bytes = buckets_[b].bytes,
                    .dtype = parameter(buckets_[b].members.front()).gradient_dtype,
                    .elements = Elements(buckets_[b].elements),
                    .role = Role::kGradientBucket,
                    .initial = true,
                    .persistent = true};
    storage.name = fmt::format("{}gradient_bucket.{}", prefix_, b);
    buckets_[b].storage = graph_.storages.push_back(std::move(storage));
    for (const std::size_t member : buckets_[b].members)
      packed_[member] = buckets_[b].storage;
  }
}

// The gradient that autograd makes is copied into the bucket and dropped; `.grad` is the bucket's
// part.
void BucketedBackward::add_views() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& trained = graph_.parameters[parameters_[i]];
    if (in_place_) {
      graph_.storages[trained.gradient].role = Role::kGradientBucket;
      continue;
    }
    Storage view = graph_.storages[trained.gradient];
    view.role = Role::kGradientBucket;
    view.initial = view.persistent = true;
    Storage& made = graph_.storages[trained.gradient];
    made.role = Role::kActivationGradient;
    made.persistent = false;
    made.one_per_rank = true;  // micro-batches in flight together add to it
    made.name += ".new";
    trained.gradient = packed_[i] = graph_.storages.push_back(std::move(view));
  }
  for (UpdatedTensor& tensor : graph_.updates)
    tensor.gradient = graph_.parameters[tensor.parameter].gradient;
  if (in_place_) return;
  IdVector<StorageId, char> is_made(graph_.storages.size(), 0);
  for (const StorageId storage : made_)
    is_made[storage] = 1;
  // Nothing but the bucket's memory outlives backward, and zero_grad does not drop that.
  std::erase_if(graph_.holds, [&](const Hold& hold) {
    return hold.kind == HoldKind::kLocal && !hold.since.valid() && is_made[hold.storage] != 0;
  });
}

Operator BucketedBackward::elementwise(std::string_view name, std::size_t member) const {
  const Parameter& trained = parameter(member);
  const Bytes bytes = graph_.storages[made_[member]].bytes;
  Operator op{.part = OperatorPart::kAverageInBucket,
              .phase = Phase::kBackward,
              .layer = trained.layer,
              .work = {.op_class = OperatorClass::kElementwise,
                       .dtype = trained.gradient_dtype,
                       .flops = Flops(static_cast<double>(trained.elements.count)),
                       .read = bytes,
                       .written = bytes}};
  op.name = name;
  return op;
}

// The copy is fused with the division by the number of ranks.
OperatorId BucketedBackward::add_copy_in(std::size_t member) {
  if (in_place_) {
    return graph_.add_operator(elementwise("divide_gradient", member),
                               std::array{Touch{made_[member], Access::kMutate}});
  }
  const bool whole = !copies_back_ || buckets_[bucket_of_[member]].members.size() == 1;
  Operator copy = elementwise("copy_into_bucket", member);
  copy.part = OperatorPart::kCopyIntoBucket;
  return graph_.add_operator(
      std::move(copy),
      std::array{Touch{made_[member], Access::kRead},
                 Touch{packed_[member], whole ? Access::kOverwrite : Access::kMutate}});
}

// Reduces buckets together: the memory of one in the first iteration, one by itself later.
OperatorId BucketedBackward::add_all_reduce(const std::vector<std::size_t>& indices) {
  const Parameter& last = parameter(buckets_[indices.back()].members.back());
  Bytes bytes;
  std::vector<Touch> touches;
  for (const std::size_t index : indices) {
    const Bucket& bucket = buckets_[index];
    bytes += bucket.bytes;
    if (bucket.storage.valid()) {
      touches.push_back({bucket.storage, Access::kMutate});
      continue;
    }
    for (const std::size_t member : bucket.members)
      touches.push_back({packed_[member], Access::kMutate});
  }
  Operator op{.name = "all_reduce",
              .phase = Phase::kBackward,
              .layer = last.layer,
              .work = {.op_class = OperatorClass::kCollective,
                       .dtype = last.gradient_dtype,
                       .read = bytes,
                       .written = bytes,
                       .collective = {.kind = CollectiveKind::kAllReduce,
                                      .group = MeshDimension::kData,
                                      .bytes = bytes,
                                      .ranks = ranks_}}};
  return graph_.add_operator(std::move(op), touches);
}

// Returns the buckets of each type of gradients, which the first iteration has as one.
std::vector<std::vector<std::size_t>> BucketedBackward::buckets_by_type() const {
  std::vector<std::vector<std::size_t>> groups;
  const auto type_of = [&](std::size_t bucket) {
    return parameter(buckets_[bucket].members.front()).gradient_dtype;
  };
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const auto known = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return type_of(group.front()) == type_of(b);
    });
    (known == groups.end() ? groups.emplace_back() : *known).push_back(b);
  }
  return groups;
}

OperatorId BucketedBackward::add_copy_out(std::size_t member) {
  return graph_.add_operator(
      elementwise("copy_from_bucket", member),
      std::array{Touch{packed_[member], Access::kRead}, Touch{made_[member], Access::kOverwrite}});
}

// Returns the part with all operators by which a rank reduces its gradients with the others'.
std::vector<OperatorId> BucketedBackward::reduced(const std::vector<OperatorId>& part,
                                                  bool at_once) {
  std::vector<std::vector<std::size_t>> completed(part.size());
  const std::vector<std::size_t> completion = gradient_completions(graph_, part, made_);
  for (std::size_t i = 0; i < completion.size(); ++i)
    completed[completion[i]].push_back(i);
  std::vector<std::size_t> missing;
  for (const Bucket& bucket : buckets_)
    missing.push_back(bucket.members.size());
  std::vector<OperatorId> result;
  std::size_t next = 0;
  for (std::size_t at = 0; at < part.size(); ++at) {
    result.push_back(part[at]);
    for (const std::size_t member : completed[at]) {
      result.push_back(add_copy_in(member));
      --missing[bucket_of_[member]];
    }
    for (; !at_once && next < buckets_.size() && missing[next] == 0; ++next)
      result.push_back(add_all_reduce({next}));
  }
  if (at_once) {
    for (const std::vector<std::size_t>& together : buckets_by_type())
      result.push_back(add_all_reduce(together));
  }
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (copies_back_) {
      for (const std::size_t member : buckets_[b].members)
        result.push_back(add_copy_out(member));
    }
  }
  return result;
}

void BucketedBackward::build() {
  std::vector<OperatorId>& accumulate = graph_.part(PartKind::kBackwardAccumulate);
  const bool several = graph_.micro_batches > 1;
  std::vector<OperatorId>& last =
      graph_.part(several ? PartKind::kBackwardReduce : PartKind::kBackward);
  const std::vector<OperatorId> plain = several && last.empty() ? accumulate : last;
  if (rebuilds_) {
    // Experts, whose gradients other ranks reduce, come behind the rest of the model.
    std::vector<OperatorId>& first = graph_.part(PartKind::kBackwardReduceFirst);
    first = reduced(first.empty() ? plain : first, true);
  }
  last = reduced(plain);
  if (!several && !accumulate.empty()) accumulate = reduced(accumulate);
}

// Returns the trained parameters whose gradients differ between data ranks: those of the whole
// group, and the experts that several expert groups have.
std::vector<Replicated> replicated_parameters(const TrainingGraph& graph, const Mesh& mesh) {
  std::vector<Replicated> result(2);
  result.back() = {.prefix = "expert_", .parameters = {}, .ranks = mesh.expert_replicas()};
  for (const ParameterId id : graph.trained) {
    const bool apart = mesh.size(MeshDimension::kExpert) > 1 && graph.parameters[id].of_expert;
    (apart ? result.back() : result.front()).parameters.push_back(id);
  }
  if (mesh.expert_replicas() == 1) result.back().parameters.clear();
  std::erase_if(result, [](const Replicated& group) { return group.parameters.empty(); });
  for (Replicated& group : result)
    std::sort(group.parameters.begin(), group.parameters.end());
  return result;
}

}  // namespace
}  // namespace data_parallel_detail

void DataParallel::apply(TrainingGraph& graph, const RewriteContext& context) const {
  if (context.mesh.replicas() == 1) return;
  DataParallelOptions options = options_;
  // The stages of a pipeline, which may run the gradients of weights apart, begin with the buckets
  // of later iterations; so do turns, whose first backwards have forms of their own.
  const bool is_plain = context.mesh.size(MeshDimension::kPipeline) == 1 && graph.turns == 1 &&
                        graph.part(PartKind::kBackwardFirst).empty();
  options.rebuilds = options.rebuilds && is_plain;
  for (data_parallel_detail::Replicated& group :
       data_parallel_detail::replicated_parameters(graph, context.mesh))
    data_parallel_detail::BucketedBackward(graph, std::move(group), options).build();
}

const PolicyEntry& data_parallel_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "data_parallel",
      .kind = "training rewrite",
      .summary =
          "every data rank has the whole model; gradients are averaged bucket by bucket "
          "while backward goes on; what several ranks do where no policy shards",
      .source = "PyTorch DistributedDataParallel; Li et al. 2020",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        DataParallelOptions options;
        const Range positive = at_least(1);
        options.limits.bucket = d.optional<Bytes>("bucket", options.limits.bucket, positive);
        options.limits.first_bucket =
            d.optional<Bytes>("first_bucket", options.limits.first_bucket, positive);
        options.gradient_as_bucket_view = d.optional<bool>("gradient_as_bucket_view", false);
        options.limits.find_unused = d.optional<bool>("find_unused", false);
        // A graph that is said to be static is learned in the first iteration in any case.
        if (d.optional<bool>("static_graph", false)) options.limits.find_unused = false;
        options.rebuilds = !options.limits.find_unused;
        d.finish();
        return std::make_unique<DataParallel>(options);
      }};
  return kEntry;
}

}  // namespace tidemark
