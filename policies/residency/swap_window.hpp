// The choice of the operators between which a value is off device so that a step stays within a
// budget.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "policies/residency/memory_curve.hpp"
#include "policies/residency/saved_gaps.hpp"

namespace tidemark {

// Returns the departure of a value that `curve` counts as kept. Its memory is freed where the
// budget is first exceeded: compute waits there if the copy is not over. It comes back at the
// latest operator from which the predicted compute covers the copy, later where there is no room.
//
//   curve      ____/~~~~~~\______      budget between _ and ~
//   copies   <out> .         <in>
//                  release_at fetch_at
[[nodiscard]] Departure swap_window(const PolicyContext& context,
                                    const std::vector<Duration>& starts, const MemoryCurve& curve,
                                    const SavedGap& gap, Bytes budget);

// Returns the free time of Capuchin: (t_back - t_swap_in) - (t_evict + t_swap_out). Negative:
// compute waits.
[[nodiscard]] Duration free_time(const PolicyContext& context, const std::vector<Duration>& starts,
                                 const SavedGap& gap);

// The copies of departures as they queue in the two directions of the host link. Compute waits
// where a departure is to be freed before its copy is over, and where it is used before it is back.
class CopyQueues {
 public:
  // Both arguments outlive the queues. `starts`: the operators' starts in a step without copies.
  CopyQueues(const PolicyContext& context, const std::vector<Duration>& starts)
      : context_(context), starts_(starts) {}
  void add(const Departure& departure);
  // Returns how much longer compute waits where `departure` is copied, too.
  [[nodiscard]] Duration added_wait(const Departure& departure) const;

 private:
  enum class Moment : std::uint8_t { kCopyOut, kFreed, kCopyIn, kUsed };
  struct Event {
    Position at;
    Moment moment = Moment::kCopyOut;
    std::size_t copy = 0;  // index of the departure
  };
  [[nodiscard]] static bool comes_before(const Event& a, const Event& b);
  static void insert(const Departure& departure, std::size_t copy, std::vector<Event>& events);
  [[nodiscard]] Duration wait(const std::vector<Event>& events,
                              const std::vector<Bytes>& bytes) const;

  const PolicyContext& context_;
  const std::vector<Duration>& starts_;
  std::vector<Event> events_;  // events sorted by position
  std::vector<Bytes> bytes_;   // bytes of each departure
  Duration wait_{};
};

// Subtracts the value from the curve while it is off device.
void take_off(const Departure& departure, MemoryCurve& curve);

}  // namespace tidemark
