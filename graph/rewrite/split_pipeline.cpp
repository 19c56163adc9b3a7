#include "graph/rewrite/split_pipeline.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace split_pipeline_detail {
namespace {

constexpr int kNobody = -1;

// Returns the chunk of each node. Nodes outside of blocks belong to the chunk of the block before
// them; chunks never go backwards.
IdVector<NodeId, int> chunks_of_nodes(const Graph& graph, std::span<const int> blocks_by_chunk) {
  std::vector<int> chunk_of_block;
  for (std::size_t c = 0; c < blocks_by_chunk.size(); ++c) {
    chunk_of_block.insert(chunk_of_block.end(), static_cast<std::size_t>(blocks_by_chunk[c]),
                          static_cast<int>(c));
  }
  IdVector<NodeId, int> chunks(graph.nodes.size(), 0);
  NodeId last_in_block;
  int current = 0;
  for (const NodeId id : ids_of(graph.nodes)) {
    const LayerId layer = graph.nodes[id].layer;
    const int block = graph.block_of(layer);
    if (block != kNoBlock) {
      current = std::max(current, chunk_of_block[static_cast<std::size_t>(block)]);
      last_in_block = id;
    }
    chunks[id] = current;
  }
  const int last = static_cast<int>(blocks_by_chunk.size()) - 1;
  for (std::size_t i = last_in_block.valid() ? last_in_block.index() + 1 : 0;
       i < graph.nodes.size(); ++i)
    chunks[NodeId(i)] = last;
  return chunks;
}

// The roots that a tensor of the whole model depends on, and the chunks that touch it.
struct Origin {
  bool of_samples = false;
  bool of_parameters = false;
  NodeId maker;  // invalid for a root
  int made_in = kNobody;
  int last_reader = kNobody;  // the last chunk that reads it

  // Every reader computes it for itself.
  [[nodiscard]] bool is_local() const { return !of_samples || !of_parameters; }
};

class PipelineSplitter {
 public:
  PipelineSplitter(const Graph& source, std::span<const int> blocks_by_chunk)
      : source_(source),
        blocks_by_chunk_(blocks_by_chunk),
        chunk_of_node_(chunks_of_nodes(source, blocks_by_chunk)),
        origin_(source.tensors.size()),
        parameter_(source.tensors.size()) {
    for (const ParameterId id : ids_of(source.parameters))
      parameter_[source.parameters[id].tensor] = id;
    trace_origins();
    find_readers();
  }

  std::vector<PipelineChunk> run() {
    std::vector<PipelineChunk> chunks;
    int first_block = 0;
    for (std::size_t c = 0; c < blocks_by_chunk_.size(); ++c) {
      chunks.push_back(build(static_cast<int>(c), first_block));
      first_block += blocks_by_chunk_[c];
    }
    return chunks;
  }

 private:
  void trace_origins();
  void find_readers();
  [[nodiscard]] std::vector<char> nodes_of(int chunk) const;
  [[nodiscard]] bool crosses_into(TensorId id, int chunk) const {
    const Origin& origin = origin_[id];
    return origin.maker.valid() && !origin.is_local() && origin.made_in < chunk &&
           origin.last_reader >= chunk;
  }
  [[nodiscard]] bool holds_unread(ParameterId id, int chunk) const;
  PipelineChunk build(int chunk, int first_block);
  void copy_roots(int chunk, const std::vector<char>& is_run, PipelineChunk& result);
  void copy_layers(int chunk, int first_block, Graph& graph) const;
  void copy_nodes(const std::vector<char>& is_run, Graph& graph);
  void copy_results(int chunk, Graph& graph) const;
  [[nodiscard]] TensorId at(TensorId id) const { return id.valid() ? tensor_[id] : TensorId(); }

  const Graph& source_;
  std::span<const int> blocks_by_chunk_;
  IdVector<NodeId, int> chunk_of_node_;
  IdVector<TensorId, Origin> origin_;
  IdVector<TensorId, ParameterId> parameter_;
  // Tensors and nodes of the source to those of the chunk that is being built.
  IdVector<TensorId, TensorId> tensor_;
  IdVector<NodeId, NodeId> node_;
};

void PipelineSplitter::trace_origins() {
  for (const TensorId id : ids_of(source_.tensors)) {
    const Role role = source_.storages[source_.tensors[id].storage].role;
    origin_[id].of_samples = role == Role::kInput;
    origin_[id].of_parameters = parameter_[id].valid();
  }
  for (const NodeId id : ids_of(source_.nodes)) {
    const Node& node = source_.nodes[id];
    for (const TensorId out : node.outputs) {
      origin_[out] = {.maker = id, .made_in = chunk_of_node_[id]};
      for (const TensorId in : node.inputs) {
        if (!in.valid()) continue;
        origin_[out].of_samples = origin_[out].of_samples || origin_[in].of_samples;
        origin_[out].of_parameters = origin_[out].of_parameters || origin_[in].of_parameters;
      }
    }
  }
}

// A node that is computed by every reader of its result reads in all of their chunks.
void PipelineSplitter::find_readers() {
  for (std::size_t i = source_.nodes.size(); i-- > 0;) {
    const Node& node = source_.nodes[NodeId(i)];
    int last = chunk_of_node_[NodeId(i)];
    for (const TensorId out : node.outputs) {
      if (origin_[out].is_local()) last = std::max(last, origin_[out].last_reader);
    }
    for (const TensorId in : node.inputs) {
      if (in.valid()) origin_[in].last_reader = std::max(origin_[in].last_reader, last);
    }
  }
}

// Returns by node whether the chunk runs it: its own nodes, and those whose results it computes for
// itself although they belong to another.
std::vector<char> PipelineSplitter::nodes_of(int chunk) const {
  std::vector<char> is_run(source_.nodes.size(), 0);
  IdVector<TensorId, char> is_read(source_.tensors.size(), 0);
  for (std::size_t i = source_.nodes.size(); i-- > 0;) {
    const Node& node = source_.nodes[NodeId(i)];
    bool runs = chunk_of_node_[NodeId(i)] == chunk;
    for (const TensorId out : node.outputs)
      runs = runs || (is_read[out] != 0 && origin_[out].is_local());
    if (!runs) continue;
    is_run[i] = 1;
    for (const TensorId in : node.inputs) {
      if (in.valid()) is_read[in] = 1;
    }
  }
  return is_run;
}

// A parameter that nothing reads stays with the block that it belongs to, or in the first chunk.
bool PipelineSplitter::holds_unread(ParameterId id, int chunk) const {
  const Parameter& parameter = source_.parameters[id];
  if (origin_[parameter.tensor].last_reader != kNobody) return false;
  const int block = source_.block_of(parameter.layer);
  int first = 0;
  for (int c = 0; c < chunk; ++c)
    first += blocks_by_chunk_[static_cast<std::size_t>(c)];
  if (block == kNoBlock) return chunk == 0;
  return block >= first && block < first + blocks_by_chunk_[static_cast<std::size_t>(chunk)];
}

// Copies what the chunk holds from the start, and makes fresh tensors for what it receives.
void PipelineSplitter::copy_roots(int chunk, const std::vector<char>& is_run,
                                  PipelineChunk& result) {
  Graph& graph = result.graph;
  IdVector<TensorId, char> is_read(source_.tensors.size(), 0);
  for (const NodeId id : ids_of(source_.nodes)) {
    if (is_run[id.index()] == 0) continue;
    for (const TensorId in : source_.nodes[id].inputs) {
      if (in.valid()) is_read[in] = 1;
    }
  }
  IdVector<StorageId, StorageId> storage(source_.storages.size());
  for (const TensorId id : ids_of(source_.tensors)) {
    const Origin& origin = origin_[id];
    const ParameterId parameter = parameter_[id];
    Tensor tensor = source_.tensors[id];
    if (origin.maker.valid()) {
      if (!crosses_into(id, chunk)) continue;
      Storage fresh = source_.storages[tensor.storage];
      fresh.bytes = tensor.bytes();
      fresh.dtype = tensor.dtype;
      fresh.elements = tensor.elements();
      fresh.role = Role::kCommunication;
      fresh.layer = {};
      fresh.name = "received " + fresh.name;
      tensor.storage = graph.storages.push_back(std::move(fresh));
      tensor.strides = contiguous_strides(tensor.shape);
      result.received.push_back(graph.tensors.push_back(tensor));
      tensor_[id] = result.received.back();
      continue;
    }
    const bool unread = parameter.valid() ? holds_unread(parameter, chunk)
                                          : origin.last_reader == kNobody && chunk == 0;
    if (is_read[id] == 0 && !unread) continue;
    StorageId& own = storage[tensor.storage];
    if (!own.valid()) own = graph.storages.push_back(source_.storages[tensor.storage]);
    tensor.storage = own;
    tensor_[id] = graph.tensors.push_back(tensor);
  }
  for (const ParameterId id : ids_of(source_.parameters)) {
    const Parameter& parameter = source_.parameters[id];
    const TensorId copy = tensor_[parameter.tensor];
    if (!copy.valid()) continue;
    Parameter own = parameter;
    own.tensor = copy;
    own.storage = graph.tensors[copy].storage;
    graph.parameters.push_back(std::move(own));
    result.held.push_back(id);
  }
}

void PipelineSplitter::copy_layers(int chunk, int first_block, Graph& graph) const {
  graph.layers = source_.layers;
  graph.blocks = blocks_by_chunk_[static_cast<std::size_t>(chunk)];
  for (Layer& layer : graph.layers) {
    const int block = layer.block - first_block;
    const bool is_own = layer.block != kNoBlock && block >= 0 && block < graph.blocks;
    layer.block = is_own ? block : kNoBlock;
  }
}

void PipelineSplitter::copy_nodes(const std::vector<char>& is_run, Graph& graph) {
  for (const NodeId id : ids_of(source_.nodes)) {
    if (is_run[id.index()] != 0) {
      const Node& node = source_.nodes[id];
      std::vector<TensorId> inputs;
      for (const TensorId in : node.inputs) {
        inputs.push_back(at(in));
        if (in.valid() && !inputs.back().valid()) {
          throw InternalError(source_.describe(id) + " reads what its chunk does not have");
        }
      }
      const NodeId copy =
          graph.add_node(*node.family, std::move(inputs), node.attributes, node.layer);
      for (std::size_t i = 0; i < node.outputs.size(); ++i)
        tensor_[node.outputs[i]] = graph.nodes[copy].outputs[i];
    }
    // A variable that lives until a node of another chunk lives until the last one before it here.
    if (!graph.nodes.empty()) node_[id] = NodeId(graph.nodes.size() - 1);
  }
}

void PipelineSplitter::copy_results(int chunk, Graph& graph) const {
  const auto made_here = [&](TensorId id) {
    return id.valid() && at(id).valid() &&
           (!origin_[id].maker.valid() || origin_[id].made_in == chunk || origin_[id].is_local());
  };
  for (const LocalVariable& local : source_.locals) {
    if (!made_here(local.tensor)) continue;
    const NodeId until = local.until.valid() ? node_[local.until] : NodeId();
    if (local.until.valid() && !until.valid()) continue;
    graph.locals.push_back(
        {at(local.tensor), until, local.only_in_evaluation, {}, local.returned, local.leaf});
  }
  const int last = static_cast<int>(blocks_by_chunk_.size()) - 1;
  if (made_here(source_.logits) && chunk == last) graph.logits = at(source_.logits);
  if (made_here(source_.loss) && chunk == last) graph.loss = at(source_.loss);
  for (const TensorId output : source_.other_outputs) {
    if (made_here(output)) graph.other_outputs.push_back(at(output));
  }
}

PipelineChunk PipelineSplitter::build(int chunk, int first_block) {
  PipelineChunk result{.graph = {},
                       .received = {},
                       .sent = {},
                       .held = {},
                       .first_block = first_block,
                       .blocks = blocks_by_chunk_[static_cast<std::size_t>(chunk)]};
  Graph& graph = result.graph;
  graph.name = source_.name;
  graph.samples = source_.samples;
  graph.fixes_samples = source_.fixes_samples;
  graph.tokens = source_.tokens;
  copy_layers(chunk, first_block, graph);
  tensor_.assign(source_.tensors.size(), TensorId());
  node_.assign(source_.nodes.size(), NodeId());
  const std::vector<char> is_run = nodes_of(chunk);
  copy_roots(chunk, is_run, result);
  copy_nodes(is_run, graph);
  copy_results(chunk, graph);
  for (const TensorId id : ids_of(source_.tensors)) {
    if (crosses_into(id, chunk + 1)) result.sent.push_back(at(id));
  }
  return result;
}

}  // namespace
}  // namespace split_pipeline_detail

std::vector<PipelineChunk> split_pipeline(const Graph& graph,
                                          std::span<const int> blocks_by_chunk) {
  if (std::accumulate(blocks_by_chunk.begin(), blocks_by_chunk.end(), 0) != graph.blocks) {
    throw InternalError(fmt::format("a pipeline's chunks do not sum to the {} blocks of '{}'",
                                    graph.blocks, graph.name));
  }
  return split_pipeline_detail::PipelineSplitter(graph, blocks_by_chunk).run();
}

}  // namespace tidemark
