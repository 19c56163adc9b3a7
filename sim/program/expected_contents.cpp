#include "sim/program/expected_contents.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace tidemark {
namespace expected_contents_detail {
namespace {

// Contents computed in a micro-batch are its own, whatever else is in flight: contents of storages
// that end with it are kept by micro-batch, not by the instances that the order gives them. What a
// rank has one of is the exception.
class PlainContents {
 public:
  PlainContents(const TrainingGraph& graph, const ProgramOrder& plain)
      : graph_(graph),
        per_storage_(plain.in_flight > 1 ? static_cast<std::size_t>(plain.micro_batches) : 1),
        contents_(graph.storages.size() * per_storage_) {
    for (StorageId s : ids_of(graph.storages))
      of(s, 0) = mix_content(0, s.value);
  }
  [[nodiscard]] Content& of(StorageId s, std::uint16_t micro_batch) {
    const Storage& storage = graph_.storages[s];
    const bool own =
        per_storage_ > 1 && !storage.initial && !storage.persistent && !storage.one_per_rank;
    return contents_[s.index() * per_storage_ + (own ? micro_batch : 0)];
  }

 private:
  const TrainingGraph& graph_;
  std::size_t per_storage_;
  std::vector<Content> contents_;
};

// Operators that recompute in the place of others, by the storages that they read and have not made
// themselves.
using Readers = IdVector<StorageId, std::vector<OperatorId>>;

Readers readers_of_kept(const TrainingGraph& graph,
                        const IdVector<OperatorId, OperatorId>& stands_in_for) {
  Readers readers;
  for (const OperatorId id : ids_of(stands_in_for)) {
    if (!stands_in_for[id].valid()) continue;
    readers.resize(graph.storages.size());
    for (const Touch& touch : graph.touches_of(id)) {
      if (reads_content(touch.access)) readers[touch.storage].push_back(id);
    }
  }
  return readers;
}

}  // namespace
}  // namespace expected_contents_detail

Content start_of(const TrainingGraph& graph, const Occurrence& occurrence) {
  const Content start = mix_content(occurrence.op.value + 1, occurrence.step);
  return mix_content(start, gathers_parameters(graph, occurrence.op) ? 0 : occurrence.micro_batch);
}

Content ExpectedContents::written(const TrainingGraph& graph, const Occurrence& occurrence,
                                  StorageId storage, std::size_t index, Content hash) const {
  const OperatorId other = stands_in_for[occurrence.op];
  if (!other.valid()) return mix_content(hash, index);
  Occurrence first = occurrence;
  first.op = other;
  const Content* const known = read.find(first);
  const std::span<const Touch> touches = graph.touches_of(other);
  for (std::size_t i = 0; i < touches.size(); ++i) {
    const bool same = touches[i].storage == storage && touches[i].access != Access::kRead;
    if (same && known != nullptr && *known != 0) return mix_content(*known, i);
  }
  return mix_content(hash, index);
}

namespace expected_contents_detail {
namespace {

// Returns what an occurrence reads, with its start.
Content content_read(const TrainingGraph& graph, PlainContents& contents,
                     const Occurrence& occurrence) {
  Content hash = start_of(graph, occurrence);
  for (const Touch& t : graph.touches_of(occurrence.op)) {
    if (reads_content(t.access))
      hash = mix_content(hash, contents.of(t.storage, occurrence.micro_batch));
  }
  return hash;
}

// Returns the operator that each operator recomputes in the place of.
IdVector<OperatorId, OperatorId> stand_ins_of(const TrainingGraph& graph) {
  IdVector<OperatorId, OperatorId> stands_in_for(graph.operators.size());
  for (const OperatorId id : ids_of(graph.operators)) {
    if (const OperatorId other = graph.operators[id].recomputed_by; other.valid())
      stands_in_for[other] = id;
  }
  return stands_in_for;
}

// Notes anew what stand-ins read where an occurrence has written something that they read.
void note_stand_ins(const TrainingGraph& graph, const Readers& stand_ins, PlainContents& contents,
                    const Occurrence& occurrence, ExpectedContents& result) {
  if (stand_ins.empty()) return;
  for (const Touch& t : graph.touches_of(occurrence.op)) {
    if (t.access == Access::kRead) continue;
    for (const OperatorId reader : stand_ins[t.storage]) {
      Occurrence stand_in = occurrence;
      stand_in.op = reader;
      *result.read.find(stand_in) = content_read(graph, contents, stand_in);
    }
  }
}

}  // namespace
}  // namespace expected_contents_detail

ExpectedContents expected_contents(const TrainingGraph& graph, const ProgramOrder& plain) {
  namespace detail = expected_contents_detail;
  ExpectedContents result(graph, plain);
  detail::PlainContents contents(graph, plain);
  result.stands_in_for = detail::stand_ins_of(graph);
  const detail::Readers stand_ins = detail::readers_of_kept(graph, result.stands_in_for);
  for (const Occurrence& occurrence : plain.at) {
    const Content hash = detail::content_read(graph, contents, occurrence);
    *result.read.find(occurrence) = hash;
    const std::span<const Touch> touches = graph.touches_of(occurrence.op);
    for (std::size_t i = 0; i < touches.size(); ++i) {
      if (touches[i].access == Access::kRead) continue;
      contents.of(touches[i].storage, occurrence.micro_batch) = mix_content(hash, i);
    }
    detail::note_stand_ins(graph, stand_ins, contents, occurrence, result);
  }
  result.at_end.reserve(graph.storages.size());
  for (StorageId s : ids_of(graph.storages))
    result.at_end.push_back(contents.of(s, 0));
  return result;
}

}  // namespace tidemark
