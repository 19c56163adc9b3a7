// Frees that wait for events of streams, as cudaEventQuery tells the caching allocator of PyTorch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/core/ids.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// Allocations that the program has freed while streams may still use them. A stream ends its
// instructions in the order of their issue, so of each stream's events only the first that has not
// ended needs a look, however many frees wait.
//
//   frees    0  1  2  3         issue order
//   d2h      a  a     c         events; `next` points to the first that was not seen to have ended
//   h2d         b  b
class DeferredFrees {
 public:
  // Makes room for the frees of a program that name streams, and returns their number.
  std::size_t prepare(const StepProgram& program);

  // Adds a free; wait_for() then adds what it waits for: the end of an instruction of a stream.
  void add(AllocationId allocation) {
    frees_.push_back({.allocation = allocation});
    ++held_;
  }
  void wait_for(Stream stream, std::uint32_t instruction) {
    const auto free = static_cast<std::uint32_t>(frees_.size() - 1);
    ++frees_.back().events;
    streams_[static_cast<std::size_t>(stream)].events.push_back({instruction, free});
  }
  // Whether no free waits, neither for events nor because it was refused below.
  [[nodiscard]] bool empty() const { return held_ == 0; }

  // Calls release(allocation) for each free whose events have all ended, in the order of the frees;
  // it returns false where the free has to stay. `finished`: by instruction, negative until its
  // end.
  template <class Release>
  void release_ended(std::span<const std::int64_t> finished, std::size_t streams,
                     Release&& release);

  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  struct Free {
    AllocationId allocation;
    std::uint32_t events = 0;  // number of events that it waits for
  };
  struct Event {
    std::uint32_t instruction;
    std::uint32_t free;  // index in frees_
  };
  struct Events {
    std::vector<Event> events;  // events in issue order
    std::size_t next = 0;       // the first that was not seen to have ended
  };

  void collect_ended(std::span<const std::int64_t> finished, std::size_t streams);

  std::vector<Free> frees_;  // frees in issue order
  std::array<Events, kStreams> streams_;
  std::vector<std::uint32_t> ended_;  // frees that wait for no event and were not released yet
  std::size_t held_ = 0;              // frees that were not released yet
};

template <class Release>
void DeferredFrees::release_ended(std::span<const std::int64_t> finished, std::size_t streams,
                                  Release&& release) {
  collect_ended(finished, streams);
  std::size_t kept = 0;
  for (const std::uint32_t free : ended_) {
    if (!release(frees_[free].allocation)) ended_[kept++] = free;
  }
  held_ -= ended_.size() - kept;
  ended_.resize(kept);
}

}  // namespace tidemark
