#include "graph/rewrite/partition/partition_plan.hpp"

#include "graph/rewrite/partition/partition_planner.hpp"

namespace tidemark {

std::int64_t vocabulary_part(std::int64_t rows, const PartitionOptions& options) {
  // Megatron-LM's make-vocab-size-divisible-by, per tensor rank.
  constexpr std::int64_t kPaddedRows = 128;
  const std::int64_t step = options.pad_vocabulary ? kPaddedRows : 1;
  const std::int64_t all = step * options.ranks;
  return (rows + all - 1) / all * step;
}

Partition plan_partition(const Graph& graph, const PartitionOptions& options) {
  return PartitionPlanner(graph, options).plan();
}

}  // namespace tidemark
