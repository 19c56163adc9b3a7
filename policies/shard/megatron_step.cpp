#include "policies/shard/megatron_step.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "hwprofiles/mesh.hpp"
#include "policies/rewrite/gradient_completion.hpp"
#include "policies/shard/sharded_tensors.hpp"

namespace tidemark {
namespace megatron_step_detail {
namespace {

constexpr std::int64_t kParameterAlign = 64;
constexpr std::int64_t kBucketAlign = 128;

std::int64_t round_up(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}

class SharedBuffers {
 public:
  SharedBuffers(TrainingGraph& graph, const MegatronOptions& options, const RewriteContext& context)
      : graph_(graph),
        options_(options),
        mesh_(context.mesh),
        // Later pieces of a pipeline reduce behind their last backward, as one bucket.
        divides_(options.overlap_grad_reduce && context.piece == 0),
        parameters_(graph.trained) {
    // Experts lie in buffers of their own, which fewer ranks share.
    std::sort(parameters_.begin(), parameters_.end(), [&](ParameterId a, ParameterId b) {
      return is_expert(a) != is_expert(b) ? is_expert(b) : b < a;
    });
  }

  void build() {
    lay_out();
    add_buffers();
    std::vector<OperatorId>& backward = graph_.part(PartKind::kBackward);
    // All micro-batches add to the buffer; the last one reduces it.
    graph_.part(PartKind::kBackwardAccumulate).clear();
    backward = added(backward);
    std::vector<OperatorId> last = reduced(backward);
    (graph_.micro_batches > 1 ? graph_.part(PartKind::kBackwardReduce) : backward) =
        std::move(last);
    std::vector<StorageId> buffers;
    for (const Bucket& bucket : buckets_)
      buffers.push_back(bucket.gradients);
    fill_in_zero_grad(graph_, buffers);
    options_.shares_states ? update() : update_all();
  }

 private:
  struct Bucket {
    std::vector<std::size_t> members;
    std::int64_t begin = 0;  // element of the whole buffer
    std::int64_t end = 0;
    int ranks = 1;  // that share it
    StorageId gradients;
    StorageId padding;  // of the parameter buffer
  };

  [[nodiscard]] bool is_expert(ParameterId id) const {
    return mesh_.size(MeshDimension::kExpert) > 1 && graph_.parameters[id].of_expert;
  }
  // Returns the ranks whose gradients of these parameters are added up in one collective.
  [[nodiscard]] int ranks_of(bool experts) const {
    if (options_.shares_states) return state_ranks(mesh_, experts).shard;
    return experts ? mesh_.expert_replicas() : mesh_.replicas();
  }
  // Returns the ranks of a bucket's collectives; 0 for the whole group.
  [[nodiscard]] int taking_part(const Bucket& bucket) const {
    const int whole = options_.shares_states ? mesh_.size(MeshDimension::kShard) : mesh_.replicas();
    return bucket.ranks == whole ? 0 : bucket.ranks;
  }
  void lay_out();
  void add_buffers();
  [[nodiscard]] std::vector<OperatorId> added(const std::vector<OperatorId>& part);
  bool fuse(std::vector<OperatorId>& part, std::size_t copy, StorageId made, StorageId buffer);
  [[nodiscard]] std::vector<OperatorId> reduced(const std::vector<OperatorId>& part);
  void update();
  void update_all();
  [[nodiscard]] const Parameter& parameter(std::size_t member) const {
    return graph_.parameters[parameters_[member]];
  }

  TrainingGraph& graph_;
  const MegatronOptions& options_;
  Mesh mesh_;
  bool divides_;                         // into several buckets
  std::vector<ParameterId> parameters_;  // with a gradient, in the order of the buffer
  std::vector<std::int64_t> start_;      // by member: its first element
  std::vector<std::size_t> bucket_of_;
  std::vector<Bucket> buckets_;
};

void SharedBuffers::lay_out() {
  std::int64_t at = 0;
  std::int64_t align = 1;
  std::int64_t limit = 0;
  Bucket open;
  const auto close = [&] {
    if (open.members.empty()) return;
    at = open.end = round_up(at, align);
    buckets_.push_back(
        std::exchange(open, Bucket{.members = {}, .begin = at, .ranks = open.ranks}));
  };
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const bool experts = is_expert(parameters_[i]);
    const bool shared = parameter(i).on_other_stages;
    if (i == 0 || experts != is_expert(parameters_[i - 1])) {  // a buffer begins
      close();
      const int ranks = ranks_of(experts);
      at = 0;
      open = {.members = {}, .ranks = ranks};
      if (options_.shares_states) align = std::lcm(std::int64_t{ranks}, kBucketAlign);
      const Elements usual(std::max<std::int64_t>(40'000'000, std::int64_t{1'000'000} * ranks));
      limit = options_.bucket.value_or(usual).count;
    } else if (shared) {  // an embedding that other stages have as well is a bucket by itself
      close();
    }
    if (options_.shares_states) at = round_up(at, kParameterAlign);
    start_.push_back(at);
    at += parameter(i).elements.count;
    open.members.push_back(i);
    bucket_of_.push_back(buckets_.size());
    if (shared || (divides_ && at - open.begin >= limit)) close();
  }
  close();
}

void SharedBuffers::add_buffers() {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    const Parameter& first = parameter(bucket.members.front());
    bucket.gradients = add_kept(graph_, fmt::format("gradient_buffer.{}", b), first.gradient_dtype,
                                Elements(bucket.end - bucket.begin), Role::kGradient);
    std::int64_t held = 0;
    for (const std::size_t member : bucket.members)
      held += parameter(member).elements.count;
    if (const std::int64_t padding = bucket.end - bucket.begin - held; padding > 0) {
      bucket.padding = add_kept(graph_, fmt::format("parameter_buffer.{}.padding", b), first.dtype,
                                Elements(padding), Role::kParameter);
    }
  }
}

// Returns the operator that creates a gradient; invalid where another one of `operators` than
// `copy` reads or changes it, and so needs the tensor.
OperatorId only_maker(const TrainingGraph& graph, std::span<const OperatorId> operators,
                      OperatorId copy, StorageId gradient) {
  OperatorId maker;
  for (const OperatorId id : operators) {
    if (!id.valid() || id == copy) continue;  // fused away
    for (const Touch& touch : graph.touches_of(id)) {
      if (touch.storage != gradient) continue;
      if (touch.access != Access::kCreate || maker.valid()) return {};
      maker = id;
    }
  }
  return maker;
}

// Makes the product that `copy` takes its gradient from add to the buffer. False where something
// else made it.
bool SharedBuffers::fuse(std::vector<OperatorId>& part, std::size_t copy, StorageId made,
                         StorageId buffer) {
  StorageId source = made;
  const bool copies = graph_.operators[part[copy]].part == OperatorPart::kCopyGradient;
  if (copies) {
    for (const Touch& touch : graph_.touches_of(part[copy])) {
      if (touch.access == Access::kRead) source = touch.storage;
    }
  }
  const OperatorId maker =
      only_maker(graph_, {part.begin(), part.begin() + static_cast<std::ptrdiff_t>(copy) + 1},
                 copies ? part[copy] : OperatorId(), source);
  if (!maker.valid()) return false;
  Operator& op = graph_.operators[maker];
  if (op.work.op_class != OperatorClass::kMatmul) return false;
  for (std::size_t t = op.first_touch; t < op.first_touch + op.touch_count; ++t) {
    Touch& touch = graph_.touches[t];
    if (touch.storage == source) touch = {buffer, Access::kMutate};
  }
  if (copies) part[copy] = OperatorId();
  return true;
}

// Returns backward with every gradient added to the buffer.
std::vector<OperatorId> SharedBuffers::added(const std::vector<OperatorId>& part) {
  std::vector<OperatorId> changed = part;
  std::vector<StorageId> made;
  for (const ParameterId id : parameters_)
    made.push_back(graph_.parameters[id].gradient);
  std::vector<std::size_t> last(parameters_.size());
  IdVector<StorageId, std::size_t> member(graph_.storages.size(), parameters_.size());
  for (std::size_t i = 0; i < made.size(); ++i)
    member[made[i]] = i;
  for (std::size_t at = 0; at < part.size(); ++at) {
    for (const Touch& touch : graph_.touches_of(part[at])) {
      if (touch.access != Access::kRead && member[touch.storage] < parameters_.size())
        last[member[touch.storage]] = at;
    }
  }
  const std::vector<std::size_t> completed = gradient_completions(graph_, part, made);
  std::vector<std::vector<OperatorId>> behind(part.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    const StorageId buffer = buckets_[bucket_of_[i]].gradients;
    graph_.storages[made[i]].persistent = false;
    graph_.storages[made[i]].role = Role::kActivationGradient;
    graph_.parameters[parameters_[i]].remaining = {
        .storage = buffer, .elements = parameter(i).elements, .dtype = parameter(i).gradient_dtype};
    if (options_.gradient_accumulation_fusion && fuse(changed, last[i], made[i], buffer)) continue;
    const Bytes bytes = graph_.storages[made[i]].bytes;
    behind[completed[i]].push_back(graph_.add_operator(
        {.name = "accumulate_gradient",
         .part = OperatorPart::kAccumulateGradient,
         .phase = Phase::kBackward,
         .layer = parameter(i).layer,
         .work = {.op_class = OperatorClass::kElementwise,
                  .dtype = parameter(i).gradient_dtype,
                  .read = bytes * 2,
                  .written = bytes}},
        std::array{Touch{made[i], Access::kRead}, Touch{buffer, Access::kMutate}}));
  }
  release_in_zero_grad(graph_, {});
  std::vector<OperatorId> result;
  for (std::size_t at = 0; at < changed.size(); ++at) {
    if (changed[at].valid()) result.push_back(changed[at]);
    result.insert(result.end(), behind[at].begin(), behind[at].end());
  }
  return result;
}

// Returns backward with the reductions: of a bucket behind its last gradient, or of all at the end.
std::vector<OperatorId> SharedBuffers::reduced(const std::vector<OperatorId>& part) {
  std::vector<StorageId> buffers;
  for (const Bucket& bucket : buckets_)
    buffers.push_back(bucket.gradients);
  const std::vector<std::size_t> completed = gradient_completions(graph_, part, buffers);
  std::vector<std::vector<OperatorId>> behind(part.size());
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const std::size_t at = divides_ ? completed[b] : part.size() - 1;
    if (buckets_[b].ranks == 1) continue;
    const Storage& buffer = graph_.storages[buckets_[b].gradients];
    const bool shares = options_.shares_states;
    behind[at].push_back(add_collective(
        graph_, shares ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce,
        shares ? MeshDimension::kShard : MeshDimension::kData, Phase::kBackward, buffer.dtype,
        buffer.bytes, {{buckets_[b].gradients, Access::kMutate}}, taking_part(buckets_[b])));
  }
  std::vector<OperatorId> result;
  for (std::size_t at = 0; at < part.size(); ++at) {
    result.push_back(part[at]);
    result.insert(result.end(), behind[at].begin(), behind[at].end());
  }
  return result;
}

// Every rank updates all parameters from the buffer.
void SharedBuffers::update_all() {
  graph_.updates.clear();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    UpdatedTensor whole = whole_update(graph_, parameters_[i]);
    whole.gradient = buckets_[bucket_of_[i]].gradients;
    graph_.updates.push_back(std::move(whole));
  }
}

// Each rank updates an equal part of every bucket: the first rank the first part.
void SharedBuffers::update() {
  graph_.updates.clear();
  std::vector<OperatorId> gathers;
  for (const Bucket& bucket : buckets_) {
    const std::int64_t share = (bucket.end - bucket.begin) / bucket.ranks;
    std::int64_t left = share;
    for (const std::size_t member : bucket.members) {
      const std::int64_t offset = start_[member] - bucket.begin;
      const std::int64_t part = std::min(parameter(member).elements.count, share - offset);
      if (part <= 0) break;
      UpdatedTensor piece = whole_update(graph_, parameters_[member]);
      if (piece.elements.count != part) piece.shape = {part};
      piece.elements = Elements(part);
      piece.gradient = bucket.gradients;
      graph_.updates.push_back(piece);
      left -= part;
    }
    if (left > 0 && bucket.padding.valid()) {  // gaps between parameters and the end of the bucket
      UpdatedTensor rest = graph_.updates.back();
      rest.name = "padding";
      rest.padding = true;
      rest.shape = {left};
      rest.elements = Elements(left);
      rest.parameter = {};
      rest.weights = rest.updated = bucket.padding;
      graph_.updates.push_back(rest);
    }
    std::vector<Touch> gathered;
    for (const std::size_t member : bucket.members)
      gathered.push_back({parameter(member).storage, Access::kMutate});
    if (bucket.padding.valid()) gathered.push_back({bucket.padding, Access::kMutate});
    if (bucket.ranks == 1) continue;
    const DType type = parameter(bucket.members.front()).dtype;
    const Bytes bytes = bytes_of(type, Elements(bucket.end - bucket.begin));
    const bool overlaps = options_.overlap_param_gather;
    gathers.push_back(add_collective(graph_, CollectiveKind::kAllGather, MeshDimension::kShard,
                                     overlaps ? Phase::kForward : Phase::kOptimizer, type, bytes,
                                     gathered, taking_part(bucket)));
    graph_.operators[gathers.back()].work.collective.blocks_compute = !overlaps;
  }
  // Hooks of the next forward gather the buckets in its order, the reverse of that of the buffer.
  if (options_.overlap_param_gather) std::reverse(gathers.begin(), gathers.end());
  std::vector<OperatorId>& part =
      graph_.part(options_.overlap_param_gather ? PartKind::kZeroGrad : PartKind::kAfterOptimizer);
  part.insert(part.end(), gathers.begin(), gathers.end());
}

}  // namespace
}  // namespace megatron_step_detail

MegatronOptions decode_megatron_options(const Decoder& d) {
  MegatronOptions options;
  options.overlap_grad_reduce = d.optional<bool>("overlap_grad_reduce", false);
  options.gradient_accumulation_fusion = d.optional<bool>("gradient_accumulation_fusion", true);
  if (const auto bucket = d.maybe<std::int64_t>("bucket", at_least(1)))
    options.bucket = Elements(*bucket);
  if (options.bucket && !options.overlap_grad_reduce)
    d.fail_at("bucket", "without overlap_grad_reduce: true there is one bucket, as in Megatron");
  return options;
}

void share_optimizer(TrainingGraph& graph, const MegatronOptions& options,
                     const RewriteContext& context) {
  if (context.mesh.ranks() == 1 || graph.trained.empty()) return;
  megatron_step_detail::SharedBuffers(graph, options, context).build();
}

}  // namespace tidemark
