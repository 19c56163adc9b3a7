#include "graph/rewrite/merge_chunks.hpp"

#include <algorithm>
#include <utility>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace merge_chunks_detail {
namespace {

class ChunkMerger {
 public:
  ChunkMerger(std::vector<ChunkGraph> chunks, int rank) : chunks_(std::move(chunks)), rank_(rank) {}

  TrainingGraph run() {
    result_ = std::move(chunks_.front().training);
    storage_.resize(chunks_.size());
    for (const StorageId id : ids_of(result_.storages))
      storage_[0].push_back(id);
    for (std::size_t c = 1; c < chunks_.size(); ++c)
      append(c);
    hand_on_gradients();
    drop_local_transfers();
    return std::move(result_);
  }

 private:
  void append(std::size_t chunk);
  void map_storages(std::size_t chunk, const TrainingGraph& source);
  [[nodiscard]] StorageId buffer_of_rank(const Storage& storage) const;
  void append_parts(std::size_t chunk, const TrainingGraph& source, std::uint32_t first_operator);
  void append_layers(const TrainingGraph& source);
  void hand_on_gradients();
  void drop_local_transfers();
  [[nodiscard]] bool is_local_transfer(OperatorId id) const {
    const Work& work = result_.operators[id].work;
    if (work.op_class != OperatorClass::kCollective) return false;
    const Collective& message = work.collective;
    const bool is_message =
        message.kind == CollectiveKind::kSend || message.kind == CollectiveKind::kReceive;
    return is_message && message.group == MeshDimension::kPipeline && message.peer == rank_;
  }
  [[nodiscard]] StorageId at(std::size_t chunk, StorageId id) const {
    return id.valid() ? storage_[chunk][id] : StorageId();
  }

  std::vector<ChunkGraph> chunks_;
  int rank_;
  TrainingGraph result_;
  std::vector<IdVector<StorageId, StorageId>> storage_;  // by chunk, to those of the result
};

// Returns the buffer that an earlier chunk has brought for the whole rank; invalid for any other
// storage.
StorageId ChunkMerger::buffer_of_rank(const Storage& storage) const {
  if (!storage.rank_buffer) return {};
  for (const StorageId id : ids_of(result_.storages)) {
    if (result_.storages[id].rank_buffer == storage.rank_buffer) return id;
  }
  return {};
}

// The next chunk of the same rank receives the very storages that the one before it sends.
void ChunkMerger::map_storages(std::size_t chunk, const TrainingGraph& source) {
  const ChunkGraph& before = chunks_[chunk - 1];
  const StageTransfers& own = chunks_[chunk].transfers;
  IdVector<StorageId, StorageId>& map = storage_[chunk];
  map.resize(source.storages.size());
  if (before.hands_on) {
    for (std::size_t i = 0; i < own.received.size(); ++i)
      map[own.received[i]] = at(chunk - 1, before.transfers.sent[i]);
  }
  for (const StorageId id : ids_of(source.storages)) {
    if (!map[id].valid()) map[id] = buffer_of_rank(source.storages[id]);
    if (!map[id].valid()) map[id] = result_.storages.push_back(source.storages[id]);
  }
}

void ChunkMerger::append_layers(const TrainingGraph& source) {
  if (result_.layers.size() != source.layers.size())
    throw InternalError("chunks of one model differ in their layers");
  for (const LayerId id : ids_of(source.layers)) {
    if (source.layers[id].block != kNoBlock)
      result_.layers[id].block = source.layers[id].block + result_.blocks;
  }
  result_.blocks += source.blocks;
}

void ChunkMerger::append_parts(std::size_t chunk, const TrainingGraph& source,
                               std::uint32_t first_operator) {
  for (const StepPart& part : source.parts.all()) {
    const bool of_chunk =
        part.kind == PartKind::kForward || is_backward(part.kind) || is_weight_backward(part.kind);
    // The step ends once: variables of all chunks live until the first one's marker.
    if (part.kind == PartKind::kEndOfStep) continue;
    std::vector<OperatorId>& target =
        result_.part(part.kind, of_chunk ? static_cast<std::uint16_t>(chunk) : part.chunk);
    for (const OperatorId op : part.operators)
      target.push_back(OperatorId(op.value + first_operator));
  }
}

void ChunkMerger::append(std::size_t chunk) {
  const TrainingGraph& source = chunks_[chunk].training;
  const auto first_operator = static_cast<std::uint32_t>(result_.operators.size());
  const auto first_touch = static_cast<std::uint32_t>(result_.touches.size());
  std::uint32_t first_node = 0;
  for (const Operator& op : result_.operators) {
    if (op.node.valid()) first_node = std::max(first_node, op.node.value + 1);
  }
  map_storages(chunk, source);
  const auto map = [&](StorageId id) { return at(chunk, id); };
  for (Operator op : source.operators) {
    op.first_touch += first_touch;
    if (op.node.valid()) op.node = NodeId(op.node.value + first_node);
    result_.operators.push_back(std::move(op));
  }
  for (const Touch& touch : source.touches)
    result_.touches.push_back({map(touch.storage), touch.access});
  const std::vector<OperatorId>& ends = source.part(PartKind::kEndOfStep);
  const OperatorId end = result_.part(PartKind::kEndOfStep).front();
  const auto map_operator = [&](OperatorId id) {
    if (!id.valid()) return id;
    const bool is_end = std::find(ends.begin(), ends.end(), id) != ends.end();
    return is_end ? end : OperatorId(id.value + first_operator);
  };
  for (const Hold& hold : source.holds) {
    result_.holds.push_back(
        {map(hold.storage), map_operator(hold.since), map_operator(hold.until), hold.kind});
  }
  const auto first_parameter = static_cast<std::uint32_t>(result_.parameters.size());
  for (Parameter parameter : source.parameters) {
    parameter.storage = map(parameter.storage);
    parameter.gradient = map(parameter.gradient);
    parameter.ready_after = map_operator(parameter.ready_after);
    if (parameter.remaining) parameter.remaining->storage = map(parameter.remaining->storage);
    result_.parameters.push_back(std::move(parameter));
  }
  for (UpdatedTensor update : source.updates) {
    if (update.parameter.valid())
      update.parameter = ParameterId(update.parameter.value + first_parameter);
    update.weights = map(update.weights);
    update.updated = map(update.updated);
    update.gradient = map(update.gradient);
    result_.updates.push_back(std::move(update));
  }
  for (const ParameterId id : source.trained)
    result_.trained.push_back(ParameterId(id.value + first_parameter));
  if (source.loss.valid()) result_.loss = map(source.loss);
  for (const StorageId id : source.module_state)
    result_.module_state.push_back(map(id));
  append_layers(source);
  append_parts(chunk, source, first_operator);
  result_.tensors += source.tensors;
}

// A chunk waits for the very gradient that the next one has made, where that is on the same rank.
// Other chunks receive theirs.
void ChunkMerger::hand_on_gradients() {
  IdVector<StorageId, StorageId> made(result_.storages.size());
  for (std::size_t c = 0; c + 1 < chunks_.size(); ++c) {
    if (!chunks_[c].hands_on) continue;
    const StageTransfers& first = chunks_[c].transfers;
    const StageTransfers& second = chunks_[c + 1].transfers;
    for (std::size_t i = 0; i < first.received_gradients.size(); ++i) {
      const StorageId waited = at(c, first.received_gradients[i]);
      if (waited.valid()) made[waited] = at(c + 1, second.sent_gradients[i]);
    }
  }
  for (Touch& touch : result_.touches) {
    if (made[touch.storage].valid()) touch.storage = made[touch.storage];
  }
  for (Hold& hold : result_.holds) {
    if (made[hold.storage].valid()) hold.storage = made[hold.storage];
  }
}

// A hold that a transfer would end ends with the operator before it.
void ChunkMerger::drop_local_transfers() {
  IdVector<OperatorId, OperatorId> before(result_.operators.size());
  for (const PartId id : ids_of(result_.parts.all())) {
    const StepPart& part = result_.parts.all()[id];
    std::vector<OperatorId>& operators = result_.part(part.kind, part.chunk);
    OperatorId last;
    for (const OperatorId op : operators) {
      if (is_local_transfer(op)) {
        before[op] = last;
      } else {
        last = op;
      }
    }
    std::erase_if(operators, [&](OperatorId op) { return is_local_transfer(op); });
  }
  for (Hold& hold : result_.holds) {
    if (before[hold.until].valid()) hold.until = before[hold.until];
  }
}

}  // namespace
}  // namespace merge_chunks_detail

TrainingGraph merge_chunks(std::vector<ChunkGraph> chunks, int rank) {
  return merge_chunks_detail::ChunkMerger(std::move(chunks), rank).run();
}

}  // namespace tidemark
