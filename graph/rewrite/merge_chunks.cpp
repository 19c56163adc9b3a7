#include "graph/rewrite/merge_chunks.hpp"

#include <algorithm>
#include <utility>

#include "graph/core/errors.hpp"
#include "graph/rewrite/append_graph.hpp"

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
        is_forward(part.kind) || is_backward(part.kind) || is_weight_backward(part.kind);
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
  map_storages(chunk, source);
  AppendedIds ids{.storages = storage_[chunk],
                  .layers = {},
                  .parameters = IdVector<ParameterId, ParameterId>(source.parameters.size())};
  for (const LayerId id : ids_of(source.layers))
    ids.layers.push_back(id);
  append_graph(result_, source, ids);
  const OperatorId end = result_.part(PartKind::kEndOfStep).front();
  for (const OperatorId own : source.part(PartKind::kEndOfStep)) {
    for (std::size_t i = ids.first_hold; i < result_.holds.size(); ++i) {
      if (result_.holds[i].until == ids.of(own)) result_.holds[i].until = end;
    }
  }
  append_layers(source);
  append_parts(chunk, source, ids.first_operator);
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
