#include "policies/eviction/coop.hpp"

#include <limits>

namespace tidemark {
namespace coop_detail {
namespace {

// cost = (own time + that of the adjacent evicted allocations, each with its class) / staleness,
// not divided by the size: a window that has to hold the request has about its size anyway.
//
//   address  | a 3.0 | free | b 0.5 | held | c 0.1 | d 0.2 | free |
//   windows  [..............]        |      [...............]        cost 3.0 or 0.3
//
// Two pointers run over the pieces once; pieces that have to stay end a window, free ones cost
// nothing.
class Coop final : public TrackedEviction {
 public:
  explicit Coop(const EvictionSettings& settings)
      : TrackedEviction(settings, Neighbourhood::kClasses) {}

  [[nodiscard]] std::unique_ptr<EvictionPolicy> copy() const override {
    return std::make_unique<Coop>(*this);
  }
  [[nodiscard]] std::string_view name() const override { return "coop"; }
  [[nodiscard]] bool looks_at_addresses() const override { return true; }
  [[nodiscard]] std::vector<std::size_t> choose(const MemoryView& view) override {
    cost_.clear();
    for (const EvictableAllocation& allocation : view.evictable)
      cost_.push_back(cost_of(allocation, view.now));
    std::vector<std::size_t> victims = cheapest_window(view);
    if (victims.empty()) victims = cheapest_run(view);
    return victims;
  }

 private:
  [[nodiscard]] double cost_of(const EvictableAllocation& allocation, Duration now) {
    const auto cost = static_cast<double>(allocation.recompute_cost.count() +
                                          costs().adjacent_cost(allocation.allocation.value));
    const auto stale = static_cast<double>((now - allocation.last_access).count());
    return stale > 0 ? cost / stale : std::numeric_limits<double>::max();
  }
  [[nodiscard]] double cost_of(const MemoryPiece& piece) const {
    return piece.content == MemoryPiece::kFree ? 0 : cost_[piece.content];
  }
  [[nodiscard]] static std::vector<std::size_t> contents(std::span<const MemoryPiece> pieces) {
    std::vector<std::size_t> found;
    for (const MemoryPiece& piece : pieces) {
      if (piece.content != MemoryPiece::kFree) found.push_back(piece.content);
    }
    return found;
  }

  // Returns the window of at least the request's size with the least sum of costs; the first of
  // equals.
  [[nodiscard]] std::vector<std::size_t> cheapest_window(const MemoryView& view) const {
    const std::span<const MemoryPiece> pieces = view.pieces;
    double best = std::numeric_limits<double>::infinity();
    std::span<const MemoryPiece> window;
    std::size_t begin = 0;
    std::int64_t bytes = 0;
    for (std::size_t end = 0; end < pieces.size(); ++end) {
      if (pieces[end].content == MemoryPiece::kHeld) {
        begin = end + 1;
        bytes = 0;
        continue;
      }
      if (!pieces[end].adjoins) {
        begin = end;
        bytes = 0;
      }
      bytes += pieces[end].bytes.count;
      while (begin < end && bytes - pieces[begin].bytes.count >= view.requested.count)
        bytes -= pieces[begin++].bytes.count;
      if (bytes < view.requested.count) continue;
      double cost = 0;
      const auto here = pieces.subspan(begin, end + 1 - begin);
      for (const MemoryPiece& piece : here)
        cost += cost_of(piece);
      if (cost >= best) continue;
      best = cost;
      window = here;
    }
    return contents(window);
  }

  // Returns whole stretches of memory that can all be evicted, the cheapest per byte first, until
  // the device has enough to give, if no single one is long enough. Coop's own allocator has one
  // stretch.
  [[nodiscard]] std::vector<std::size_t> cheapest_run(const MemoryView& view) const {
    const std::span<const MemoryPiece> pieces = view.pieces;
    double best = std::numeric_limits<double>::infinity();
    std::vector<std::size_t> victims;
    for (std::size_t begin = 0, end = 0; begin < pieces.size(); begin = end) {
      double cost = 0;
      std::int64_t bytes = 0;
      bool held = false;
      for (end = begin; end < pieces.size() && (end == begin || pieces[end].adjoins); ++end) {
        held = held || pieces[end].content == MemoryPiece::kHeld;
        if (held) continue;
        cost += cost_of(pieces[end]);
        bytes += pieces[end].bytes.count;
      }
      const auto run = pieces.subspan(begin, end - begin);
      const double per_byte = bytes > 0 ? cost / static_cast<double>(bytes) : best;
      if (held || per_byte >= best || contents(run).empty()) continue;
      best = per_byte;
      victims = contents(run);
    }
    if (!victims.empty()) return victims;
    // Every stretch has an allocation that stays: evict the cheapest one anywhere.
    std::size_t least = 0;
    for (std::size_t i = 1; i < cost_.size(); ++i) {
      if (cost_[i] < cost_[least]) least = i;
    }
    return {least};
  }

  std::vector<double> cost_;  // by index into the view
};

}  // namespace
}  // namespace coop_detail

std::unique_ptr<EvictionPolicy> make_coop(const EvictionSettings& settings) {
  return std::make_unique<coop_detail::Coop>(settings);
}

}  // namespace tidemark
