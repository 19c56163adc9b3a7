#include "sim/engine/deferred_frees.hpp"

#include <algorithm>

namespace tidemark {

std::size_t DeferredFrees::prepare(const StepProgram& program) {
  frees_.clear();
  ended_.clear();
  held_ = 0;
  std::size_t frees = 0;
  std::array<std::size_t, kStreams> events{};
  for (std::size_t i = 0; i < program.size(); ++i) {
    const std::uint16_t mask = program.stream[i];
    if (program.opcode[i] != Opcode::kFree || mask == 0) continue;
    ++frees;
    for (std::size_t s = 0; s < kStreams; ++s)
      events[s] += (mask >> s) & 1U;
  }
  frees_.reserve(frees);
  ended_.reserve(frees);
  for (std::size_t s = 0; s < kStreams; ++s) {
    streams_[s].events.clear();
    streams_[s].events.reserve(events[s]);
    streams_[s].next = 0;
  }
  return frees;
}

void DeferredFrees::collect_ended(std::span<const std::int64_t> finished, std::size_t streams) {
  for (std::size_t s = 0; s < streams; ++s) {
    Events& stream = streams_[s];
    while (stream.next < stream.events.size()) {
      const Event& event = stream.events[stream.next];
      if (finished[event.instruction] < 0) break;
      ++stream.next;
      if (--frees_[event.free].events == 0) ended_.push_back(event.free);
    }
  }
  if (ended_.size() > 1) std::sort(ended_.begin(), ended_.end());
}

std::size_t DeferredFrees::memory_bytes() const {
  std::size_t bytes = frees_.capacity() * sizeof(Free) + ended_.capacity() * sizeof(std::uint32_t);
  for (const Events& stream : streams_)
    bytes += stream.events.capacity() * sizeof(Event);
  return bytes;
}

}  // namespace tidemark
