// Data parallelism as DistributedDataParallel does it: every rank has the whole model, and backward
// brings the gradients of all ranks together, bucket by bucket, while it goes on.
//
//   compute   ... dW9 dW8 [copy in] dW7 dW6 [copy in] ... dW0 [copy in]          [copy out]
//   optimizer data                  [ all_reduce 0 ][ all_reduce 1 ]          [ all_reduce n ]
//
// A gradient is copied into its bucket and divided by the number of ranks when it is complete. A
// bucket is reduced when all of its gradients are there and all buckets before it are under way.
// After backward, compute waits for each bucket in order and copies the averages back to `.grad`.
// With gradient_as_bucket_view `.grad` is the bucket's memory: nothing is copied back.
//
// Only the last of several micro-batches communicates in its backward (no_sync).
//
// The first iteration has all gradients of a type in one bucket, which is reduced when backward is
// over; in it DistributedDataParallel learns the order in which they become ready, and fills the
// buckets above anew. With find_unused, and without static_graph, it does not: all iterations are
// alike (Reducer::should_rebuild_buckets in torch/csrc/distributed/c10d/reducer.hpp).
#pragma once

#include <memory>
#include <string_view>

#include "policies/plan/rewrite.hpp"
#include "policies/rewrite/gradient_buckets.hpp"

namespace tidemark {

struct DataParallelOptions {
  BucketLimits limits;
  bool gradient_as_bucket_view = false;
  bool rebuilds = true;  // the buckets, after the first iteration
};

class DataParallel final : public TrainingRewrite {
 public:
  explicit DataParallel(const DataParallelOptions& options = {}) : options_(options) {}
  [[nodiscard]] std::string_view name() const override { return "data_parallel"; }
  [[nodiscard]] bool acts_in_evaluation(bool /*computes_loss*/) const override { return false; }
  [[nodiscard]] std::optional<TrainingSystem> system() const override {
    return TrainingSystem::kTorch;
  }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kPartition; }
  [[nodiscard]] bool reduces_gradients() const override { return true; }
  // Leaves the graph as it is where the mesh has one data rank.
  void apply(TrainingGraph& graph, const RewriteContext& context) const override;

 private:
  DataParallelOptions options_;
};

}  // namespace tidemark
