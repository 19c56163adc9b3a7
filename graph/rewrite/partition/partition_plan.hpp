// Decides how a forward graph is divided among the ranks of a tensor or context group.
//
// Tensor ranks (Megatron-LM): a product whose input every rank has gets columns of its weight, and
// what follows works on a part of the features, until a product takes them in with the rows that
// belong to them; its sum over the ranks is whole again. Which product is which follows from where
// the features go: columns that no product takes in again are not cut.
//
//   x -> [columns of fc1] -> gelu -> [rows of fc2] -> sum over the ranks
//
// With `sequence`, everything between the sums is cut by tokens: what comes before columns is
// gathered, and after rows each rank gets its tokens of the sum.
//
// Context ranks: samples stay whole, and each rank has a part of their positions.
#pragma once

#include <string>
#include <vector>

#include "graph/ir/collective.hpp"
#include "graph/ir/graph.hpp"
#include "graph/rewrite/partition/cut.hpp"

namespace tidemark {

enum class ContextKind { kRing, kAllGather, kAllToAll };

struct PartitionOptions {
  MeshDimension group = MeshDimension::kTensor;  // kTensor or kContext
  int ranks = 1;
  bool sequence = false;                  // kTensor: tokens are cut between the sums
  bool pad_vocabulary = true;             // kTensor: to 128 x ranks
  ContextKind kind = ContextKind::kRing;  // kContext
  std::string path;                       // key that names the number of ranks, for errors
  int divides = 0;  // errors suggest divisors of this, of which GPUs can be divided; 0: any size
};

// The change that the partition makes to a node.
enum class Treatment {
  kPlain,                // the same operator on other extents
  kColumns,              // a product with columns of its weight
  kRows,                 // a product with rows of its weight, then the sum over the ranks
  kVocabularyEmbedding,  // rows of a part of the table, then the sum over the ranks
  kScores,               // log-softmax of a cut vocabulary: part of the loss
  kVocabularyLoss,
  kContextAttention,  // attention of a part of the positions to all of them
};

struct NodePartition {
  Treatment treatment = Treatment::kPlain;
  std::vector<Layout> wanted;  // layout needed of each input
  // By input: whether each rank makes a part of the sum of its gradient.
  std::vector<char> sums;
  std::vector<Layout> made;  // layout made of each output
};

struct Partition {
  IdVector<NodeId, NodePartition> nodes;
  // Layout in which each tensor is made; of parameters and inputs: in which one rank holds them.
  IdVector<TensorId, Layout> tensors;
  // Parameters that every rank has whole and whose gradients are parts of a sum.
  IdVector<ParameterId, char> summed;
};

// Throws UserError where heads, features, vocabulary or positions cannot be divided, or nothing in
// the model can.
[[nodiscard]] Partition plan_partition(const Graph& graph, const PartitionOptions& options);

// Returns the ranks' rows of a vocabulary, with the padding that makes them equal.
[[nodiscard]] std::int64_t vocabulary_part(std::int64_t rows, const PartitionOptions& options);

}  // namespace tidemark
