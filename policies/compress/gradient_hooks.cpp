#include "policies/compress/gradient_hooks.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace tidemark {
namespace gradient_hooks_detail {
namespace {

constexpr std::int64_t kBitsPerByte = 8;
using Kind = GradientHook;
using Options = GradientHookOptions;

// One bucket on its way through a hook.
struct Bucket {
  OperatorId all_reduce;
  std::vector<StorageId> storages;  // the flat tensor, or the gradients that are views of it
  Bytes bytes;
  std::int64_t elements = 0;
  std::vector<ParameterId> parameters;
};

class Hooks {
 public:
  Hooks(TrainingGraph& graph, const Options& options, int ranks)
      : graph_(graph), options_(options), ranks_(std::max(ranks, 1)) {
    for (const ParameterId id : ids_of(graph.parameters)) {
      if (graph.parameters[id].gradient.valid()) parameter_of_[graph.parameters[id].gradient] = id;
    }
  }

  // Whether there is a bucket to compress.
  bool run() {
    // Hooks keep their state from step to step by bucket: that of the buckets that stay.
    graph_.part(PartKind::kBackwardReduceFirst).clear();
    for (const PartKind kind :
         {PartKind::kBackward, PartKind::kBackwardAccumulate, PartKind::kBackwardReduce}) {
      std::vector<OperatorId>& part = graph_.part(kind);
      if (!part.empty()) part = hooked(part);
    }
    return found_;
  }

 private:
  using Stage = std::vector<OperatorId>;

  [[nodiscard]] bool is_bucket(OperatorId id) const {
    const Collective& collective = graph_.operators[id].work.collective;
    if (graph_.operators[id].work.op_class != OperatorClass::kCollective) return false;
    if (collective.kind != CollectiveKind::kAllReduce || collective.group != MeshDimension::kData)
      return false;
    return graph_.storages[graph_.touches_of(id).front().storage].role == Role::kGradientBucket;
  }

  // Notes which gradient goes into which bucket.
  void note_copy(OperatorId id) {
    const auto touches = graph_.touches_of(id);
    if (graph_.operators[id].part != OperatorPart::kCopyIntoBucket || touches.size() != 2) return;
    const auto parameter = parameter_of_.find(touches[0].storage);
    if (parameter != parameter_of_.end()) members_[touches[1].storage].push_back(parameter->second);
  }

  [[nodiscard]] Bucket bucket_of(OperatorId id) const {
    Bucket bucket{.all_reduce = id};
    for (const Touch& touch : graph_.touches_of(id)) {
      bucket.storages.push_back(touch.storage);
      bucket.bytes += graph_.storages[touch.storage].bytes;
      bucket.elements += graph_.storages[touch.storage].elements.count;
      const auto own = parameter_of_.find(touch.storage);
      if (own != parameter_of_.end()) bucket.parameters.push_back(own->second);
      const auto packed = members_.find(touch.storage);
      if (own == parameter_of_.end() && packed != members_.end())
        bucket.parameters = packed->second;
    }
    return bucket;
  }

  // Stages of a bucket run at its own place and at those of the buckets after it, at the latest
  // before somebody reads what was reduced.
  std::vector<OperatorId> hooked(const std::vector<OperatorId>& part) {
    std::vector<OperatorId> result;
    std::deque<std::deque<Stage>> under_way;
    std::map<StorageId, char> reduced;
    const auto advance = [&] {
      for (std::deque<Stage>& stages : under_way) {
        result.insert(result.end(), stages.front().begin(), stages.front().end());
        stages.pop_front();
      }
      while (!under_way.empty() && under_way.front().empty())
        under_way.pop_front();
    };
    const auto drain = [&] {
      while (!under_way.empty())
        advance();
    };
    for (const OperatorId id : part) {
      note_copy(id);
      if (is_bucket(id)) {
        found_ = true;
        const Bucket bucket = bucket_of(id);
        for (const StorageId storage : bucket.storages)
          reduced[storage] = 1;
        std::deque<Stage> stages = stages_of(bucket);
        under_way.push_back(std::move(stages));
        advance();
        continue;
      }
      const auto touches = graph_.touches_of(id);
      const bool reads = std::any_of(touches.begin(), touches.end(), [&](const Touch& touch) {
        return reduced.contains(touch.storage);
      });
      if (reads) drain();
      result.push_back(id);
    }
    drain();
    return result;
  }

  std::deque<Stage> stages_of(const Bucket& bucket) {
    switch (options_.kind) {
      case Kind::kBf16:
        return cast_stages(bucket, DType::kBFloat16);
      case Kind::kFp16:
        return cast_stages(bucket, DType::kFloat16);
      case Kind::kPowerSgd:
        return low_rank_stages(bucket);
      case Kind::kOneBit:
        return sign_stages(bucket);
    }
    return {};
  }

  std::deque<Stage> cast_stages(const Bucket& bucket, DType dtype);
  std::deque<Stage> low_rank_stages(const Bucket& bucket);
  std::deque<Stage> sign_stages(const Bucket& bucket);

  [[nodiscard]] std::string name_of_bucket(const Bucket& bucket) const {
    return graph_.storages[bucket.storages.front()].name;
  }

  StorageId add_storage(const Bucket& bucket, std::string_view what, DType dtype,
                        std::int64_t elements, bool stays) {
    const std::string name = fmt::format("{}.{}", name_of_bucket(bucket), what);
    // The hook's state is found by the bucket, whichever part of the step it is in.
    if (stays && state_.contains(name)) return state_.at(name);
    Storage storage{.bytes = bytes_of(dtype, Elements(elements)),
                    .dtype = dtype,
                    .elements = Elements(elements),
                    .role = stays ? Role::kGradientBucket : Role::kCommunication,
                    .initial = stays,
                    .persistent = stays};
    storage.name = name;
    const StorageId id = graph_.storages.push_back(std::move(storage));
    if (stays) state_[name] = id;
    return id;
  }

  [[nodiscard]] std::vector<Touch> whole(const Bucket& bucket, Access access) const {
    std::vector<Touch> touches;
    for (const StorageId storage : bucket.storages)
      touches.push_back({storage, access});
    return touches;
  }

  OperatorId add_kernel(const Bucket& bucket, std::string_view name, std::vector<Touch> touches,
                        double flops = 0) {
    const Operator& reduce = graph_.operators[bucket.all_reduce];
    Operator op{.name = std::string(name), .phase = reduce.phase, .layer = reduce.layer};
    op.work = {
        .op_class = OperatorClass::kElementwise, .dtype = reduce.work.dtype, .flops = Flops(flops)};
    for (const Touch& touch : touches) {
      const Bytes bytes = graph_.storages[touch.storage].bytes;
      if (touch.access == Access::kRead || touch.access == Access::kMutate) op.work.read += bytes;
      if (touch.access != Access::kRead) op.work.written += bytes;
    }
    return graph_.add_operator(std::move(op), touches);
  }

  OperatorId add_collective(const Bucket& bucket, CollectiveKind kind,
                            const std::vector<StorageId>& sent) {
    const Operator& reduce = graph_.operators[bucket.all_reduce];
    Operator op{.name = std::string(tidemark::name_of(kind)),
                .phase = reduce.phase,
                .layer = reduce.layer,
                .work = reduce.work};
    op.work.read = Bytes(0);
    std::vector<Touch> touches;
    for (const StorageId storage : sent) {
      op.work.read += graph_.storages[storage].bytes;
      touches.push_back({storage, Access::kMutate});
    }
    op.work.written = op.work.collective.bytes = op.work.read;
    op.work.dtype = graph_.storages[sent.front()].dtype;
    op.work.collective.kind = kind;
    return graph_.add_operator(std::move(op), touches);
  }

  TrainingGraph& graph_;
  const Options& options_;
  int ranks_;
  bool found_ = false;
  std::map<StorageId, ParameterId> parameter_of_;          // by gradient
  std::map<StorageId, std::vector<ParameterId>> members_;  // by bucket
  std::map<std::string, StorageId> state_;
};

// buffer.to(fp16).div_(world), all-reduced, then copied over the bucket.
std::deque<Hooks::Stage> Hooks::cast_stages(const Bucket& bucket, DType dtype) {
  const StorageId narrow = add_storage(bucket, "compressed", dtype, bucket.elements, false);
  std::vector<Touch> cast = whole(bucket, Access::kRead);
  cast.push_back({narrow, Access::kCreate});
  std::vector<Touch> copy = whole(bucket, Access::kOverwrite);
  copy.push_back({narrow, Access::kRead});
  return {{add_kernel(bucket, "compress_bucket", std::move(cast)),
           add_collective(bucket, CollectiveKind::kAllReduce, {narrow})},
          {add_kernel(bucket, "decompress_bucket", std::move(copy))}};
}

// Matrices of the bucket are sent as P [n, rank] and Q [m, rank]; vectors, and matrices that would
// shrink too little, together in a copy. P, Q and the error stay from one step to the next.
std::deque<Hooks::Stage> Hooks::low_rank_stages(const Bucket& bucket) {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t rest = 0;
  double product = 0;
  for (const ParameterId id : bucket.parameters) {
    const Parameter& parameter = graph_.parameters[id];
    const std::int64_t n = parameter.shape.rank() > 1 ? parameter.shape[0] : 0;
    const std::int64_t m = n > 0 ? parameter.elements.count / n : 0;
    const std::int64_t rank = std::min({n, m, options_.rank});
    const auto sent = static_cast<double>((n + m) * rank);
    if (n == 0 || sent * options_.min_compression_rate >= static_cast<double>(n * m)) {
      rest += parameter.elements.count;
      continue;
    }
    rows += n * rank;
    columns += m * rank;
    product += 2.0 * static_cast<double>(n * m * rank);
  }
  const DType dtype = graph_.storages[bucket.storages.front()].dtype;
  Stage first;
  StorageId clone;
  StorageId error;
  if (options_.error_feedback) {
    error = add_storage(bucket, "error", dtype, bucket.elements, true);
    clone = add_storage(bucket, "clone", dtype, bucket.elements, false);
    std::vector<Touch> add = whole(bucket, Access::kMutate);
    add.push_back({error, Access::kRead});
    first.push_back(add_kernel(bucket, "add_error", std::move(add)));
    std::vector<Touch> copy = whole(bucket, Access::kRead);
    copy.push_back({clone, Access::kCreate});
    first.push_back(add_kernel(bucket, "clone_bucket", std::move(copy)));
  }
  StorageId uncompressed;
  if (rest > 0) {
    uncompressed = add_storage(bucket, "uncompressed", dtype, rest, false);
    std::vector<Touch> cat = whole(bucket, Access::kRead);
    cat.push_back({uncompressed, Access::kCreate});
    first.push_back(add_kernel(bucket, "gather_uncompressed", std::move(cat)));
    first.push_back(add_collective(bucket, CollectiveKind::kAllReduce, {uncompressed}));
  }
  Stage last;
  Stage second;
  std::vector<Touch> restore = whole(bucket, Access::kOverwrite);
  if (uncompressed.valid()) restore.push_back({uncompressed, Access::kRead});
  if (rows > 0) {
    const StorageId p = add_storage(bucket, "P", dtype, rows, true);
    const StorageId q = add_storage(bucket, "Q", dtype, columns, true);
    std::vector<Touch> make_p = whole(bucket, Access::kRead);
    make_p.push_back({q, Access::kRead});
    make_p.push_back({p, Access::kOverwrite});
    first.push_back(add_kernel(bucket, "low_rank_p", std::move(make_p), product));
    first.push_back(add_collective(bucket, CollectiveKind::kAllReduce, {p}));
    std::vector<Touch> make_q = whole(bucket, Access::kRead);
    make_q.push_back({p, Access::kMutate});  // orthogonalised in place
    make_q.push_back({q, Access::kOverwrite});
    second.push_back(add_kernel(bucket, "low_rank_q", std::move(make_q), product));
    second.push_back(add_collective(bucket, CollectiveKind::kAllReduce, {q}));
    restore.push_back({p, Access::kRead});
    restore.push_back({q, Access::kRead});
  }
  last.push_back(add_kernel(bucket, "decompress_bucket", std::move(restore), product));
  if (options_.error_feedback) {
    std::vector<Touch> keep = whole(bucket, Access::kRead);
    keep.push_back({clone, Access::kRead});
    keep.push_back({error, Access::kOverwrite});
    last.push_back(add_kernel(bucket, "keep_error", std::move(keep)));
    // error_dict gets a new tensor while the old one is still in it.
    graph_.operators[last.back()].workspace = bucket.bytes;
  }
  return {first, second, last};
}

// A bit per element goes to the rank that averages its part, and the signs of the averages to all.
// Both ends keep what the signs leave out.
std::deque<Hooks::Stage> Hooks::sign_stages(const Bucket& bucket) {
  const std::int64_t packed = (bucket.elements + kBitsPerByte - 1) / kBitsPerByte;
  const std::int64_t part = (bucket.elements + ranks_ - 1) / ranks_;
  const StorageId error =
      add_storage(bucket, "worker_error", DType::kFloat32, bucket.elements, true);
  const StorageId server = add_storage(bucket, "server_error", DType::kFloat32, part, true);
  const StorageId sent = add_storage(bucket, "signs", DType::kByte, packed, false);
  const StorageId averages = add_storage(bucket, "average_signs", DType::kByte, packed, false);
  std::vector<Touch> signs = whole(bucket, Access::kRead);
  signs.push_back({error, Access::kMutate});
  signs.push_back({sent, Access::kCreate});
  std::vector<Touch> restore = whole(bucket, Access::kOverwrite);
  restore.push_back({averages, Access::kRead});
  return {
      {add_kernel(bucket, "pack_signs", std::move(signs)),
       add_collective(bucket, CollectiveKind::kAllToAll, {sent})},
      {add_kernel(bucket, "average_signs",
                  {{sent, Access::kRead}, {server, Access::kMutate}, {averages, Access::kCreate}}),
       add_collective(bucket, CollectiveKind::kAllGather, {averages})},
      {add_kernel(bucket, "unpack_signs", std::move(restore))}};
}

}  // namespace
}  // namespace gradient_hooks_detail

bool hook_gradients(TrainingGraph& graph, const GradientHookOptions& options, int ranks) {
  return gradient_hooks_detail::Hooks(graph, options, ranks).run();
}

}  // namespace tidemark
