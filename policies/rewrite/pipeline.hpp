// Pipeline parallelism: the model is cut into stages at its repeated blocks, one per rank, and a
// schedule says in which order each stage runs its micro-batches.
//
// The policy decides the cut and the orders; splitting the graph is done where the step is built
// (graph/rewrite/split_pipeline.hpp), since a stage is differentiated by itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/analysis/pipeline_schedule.hpp"
#include "policies/plan/rewrite.hpp"

namespace tidemark {

// The ways in which blocks are shared among chunks.
enum class PipelineSplit : std::uint8_t {
  kEven,      // kUniform, or kBalanced where only that comes out even
  kUniform,   // the same number in each
  kBalanced,  // embedding and head count as a block each (torchtitan, Megatron's account_for_*)
  kListed,
};

struct PipelineOptions {
  int size = 1;    // stages
  int chunks = 1;  // pieces of the model on each
  PipelineOrder order = PipelineOrder::k1F1B;
  // Orders from a table, by rank; empty: those of `order`.
  std::vector<std::vector<ScheduledPart>> table;
  std::string table_name;
  PipelineSplit split = PipelineSplit::kEven;
  std::vector<int> layers;  // kListed: blocks by piece
  int group = 0;            // micro-batches that go through a chunk together; 0: as many as stages
  bool frees_outputs = true;
  int divides = 0;  // errors suggest sizes that divide this, as GPUs can be divided; 0: any

  [[nodiscard]] int pieces() const { return size * chunks; }
  [[nodiscard]] bool in_v() const { return order == PipelineOrder::kZeroBubbleV && table.empty(); }
  [[nodiscard]] std::string_view schedule_name() const {
    return table.empty() ? name_of(order) : std::string_view(table_name);
  }
};

// Returns the blocks of each piece, in forward order. Throws UserError that names the nearest valid
// numbers where the blocks cannot be shared so.
[[nodiscard]] std::vector<int> blocks_by_piece(const PipelineOptions& options, int blocks);

// Returns the parts of one stage's step. Throws UserError where the schedule cannot run so many
// micro-batches.
[[nodiscard]] std::vector<ScheduledPart> stage_work(const PipelineOptions& options, int stage,
                                                    int micro_batches);
// Whether the schedule runs weight gradients as parts of their own.
[[nodiscard]] bool splits_backward(const PipelineOptions& options);

class Pipeline final : public ForwardRewrite {
 public:
  explicit Pipeline(PipelineOptions options) : options_(std::move(options)) {}
  [[nodiscard]] std::string_view name() const override { return "pipeline"; }
  [[nodiscard]] ForwardStage stage() const override { return ForwardStage::kParallel; }
  // Leaves the graph as it is: the stages are cut when all rewrites have been applied.
  [[nodiscard]] Graph apply(const Graph& graph, const RewriteContext& context) const override {
    static_cast<void>(context);
    return graph;
  }
  [[nodiscard]] const PipelineOptions* pipeline() const override { return &options_; }

 private:
  PipelineOptions options_;
};

}  // namespace tidemark
