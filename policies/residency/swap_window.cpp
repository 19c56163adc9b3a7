#include "policies/residency/swap_window.hpp"

#include <algorithm>

namespace tidemark {

Departure swap_window(const PolicyContext& context, const std::vector<Duration>& starts,
                      const MemoryCurve& curve, const SavedGap& gap, Bytes budget) {
  const auto position_of = [](auto iterator, auto begin) {
    return Position(static_cast<std::size_t>(iterator - begin));
  };
  const Position first(gap.release.value + 1);
  const Position release_at =
      std::max(curve.first_above(first, gap.to, budget), std::min(first, gap.to));
  const Duration trigger = starts[gap.to.index()] - copy_in_time(context, gap.bytes);
  const auto later = std::upper_bound(starts.begin(), starts.end(), trigger);
  const Position latest =
      later == starts.begin() ? Position(0U) : position_of(later - 1, starts.begin());
  // The place where the curve, which still counts the value, stays within the budget until its use.
  const Position room = curve.earliest_fit(release_at, gap.to, Bytes(0), budget);
  const Position next = std::min(Position(release_at.value + 1), gap.to);
  return {.gap = gap,
          .release_at = release_at,
          .fetch_at = std::clamp(std::max(latest, room), next, gap.to)};
}

Duration free_time(const PolicyContext& context, const std::vector<Duration>& starts,
                   const SavedGap& gap) {
  const Duration evicted = starts[gap.release.index() + 1];
  return starts[gap.to.index()] - copy_in_time(context, gap.bytes) - evicted -
         copy_out_time(context, gap.bytes);
}

bool CopyQueues::comes_before(const Event& a, const Event& b) {
  if (a.at != b.at) return a.at < b.at;
  return a.copy != b.copy ? a.copy < b.copy : a.moment < b.moment;
}

void CopyQueues::insert(const Departure& departure, std::size_t copy, std::vector<Event>& events) {
  const Position out(departure.gap.release.value + 1);
  const Position freed = departure.release_at.valid() ? departure.release_at : out;
  for (const Event& event : {Event{out, Moment::kCopyOut, copy}, Event{freed, Moment::kFreed, copy},
                             Event{departure.fetch_at, Moment::kCopyIn, copy},
                             Event{departure.gap.to, Moment::kUsed, copy}})
    events.insert(std::upper_bound(events.begin(), events.end(), event, comes_before), event);
}

Duration CopyQueues::wait(const std::vector<Event>& events, const std::vector<Bytes>& bytes) const {
  std::vector<Duration> out(bytes.size());  // ends of the copies
  std::vector<Duration> in(bytes.size());
  Duration out_queue{};
  Duration in_queue{};
  Duration waited{};
  for (const Event& event : events) {
    const std::size_t c = event.copy;
    const Duration now = starts_[event.at.index()] + waited;
    switch (event.moment) {
      case Moment::kCopyOut:
        out_queue = std::max(out_queue, now) + copy_out_time(context_, bytes[c]);
        out[c] = out_queue;
        break;
      case Moment::kCopyIn:
        in_queue = std::max({in_queue, now, out[c]}) + copy_in_time(context_, bytes[c]);
        in[c] = in_queue;
        break;
      case Moment::kFreed:
        waited += std::max(out[c] - now, Duration(0));
        break;
      case Moment::kUsed:
        waited += std::max(in[c] - now, Duration(0));
        break;
    }
  }
  return waited;
}

void CopyQueues::add(const Departure& departure) {
  insert(departure, bytes_.size(), events_);
  bytes_.push_back(departure.gap.bytes);
  wait_ = wait(events_, bytes_);
}

Duration CopyQueues::added_wait(const Departure& departure) const {
  std::vector<Event> events = events_;
  std::vector<Bytes> bytes = bytes_;
  insert(departure, bytes.size(), events);
  bytes.push_back(departure.gap.bytes);
  return wait(events, bytes) - wait_;
}

void take_off(const Departure& departure, MemoryCurve& curve) {
  curve.add(departure.release_at, departure.fetch_at, -departure.gap.bytes);
}

}  // namespace tidemark
