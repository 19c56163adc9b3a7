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

}  // namespace
}  // namespace expected_contents_detail

ExpectedContents expected_contents(const TrainingGraph& graph, const ProgramOrder& plain) {
  ExpectedContents result;
  expected_contents_detail::PlainContents contents(graph, plain);
  result.read.reserve(plain.at.size() * 2);
  for (const Occurrence& occurrence : plain.at) {
    Content hash = start_of(occurrence);
    const std::span<const Touch> touches = graph.touches_of(occurrence.op);
    for (const Touch& t : touches) {
      if (reads_content(t.access)) {
        hash = mix_content(hash, contents.of(t.storage, occurrence.micro_batch));
      }
    }
    result.read[key_of(occurrence)] = hash;
    for (std::size_t i = 0; i < touches.size(); ++i) {
      if (touches[i].access == Access::kRead) continue;
      contents.of(touches[i].storage, occurrence.micro_batch) = mix_content(hash, i);
    }
  }
  result.at_end.reserve(graph.storages.size());
  for (StorageId s : ids_of(graph.storages))
    result.at_end.push_back(contents.of(s, 0));
  return result;
}

}  // namespace tidemark
