#include "policies/residency/prefetch.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string>

#include <fmt/format.h>

#include "policies/plan/budget.hpp"
#include "policies/residency/memory_curve.hpp"

namespace tidemark {
namespace prefetch_detail {
namespace {

// Reads "3", "8 operators", "2 blocks".
bool read_distance(std::string_view text, Prefetch& prefetch) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, prefetch.distance);
  if (error != std::errc() || prefetch.distance < 0) return false;
  std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  prefetch.rule = unit.starts_with("operator") ? PrefetchRule::kOperators : PrefetchRule::kBlocks;
  return unit.empty() || unit == "block" || unit == "blocks" || unit == "operator" ||
         unit == "operators";
}

// Returns the first operator of each micro-batch's backward.
std::vector<Position> backward_begins(const PolicyContext& context) {
  std::vector<Position> begins(static_cast<std::size_t>(context.order.steps) *
                               static_cast<std::size_t>(context.order.micro_batches));
  for (Position p : ids_of(context.order.at)) {
    Position& begin = begins[micro_batch_index(context, context.order.at[p])];
    if (begin.valid() || context.op_at(p).phase == Phase::kOptimizer) continue;
    if (context.order.at[p].recompute || context.op_at(p).phase == Phase::kBackward) begin = p;
  }
  return begins;
}

// Returns the first operator at which the departure may be fetched.
Position first_fetch(const Departure& d) {
  return d.release_at.valid() || d.copy_at.valid() ? Position(away_from(d).value + 1)
                                                   : Position(d.gap.release.value + 1);
}

std::vector<std::size_t> by_use(const std::vector<Departure>& departures) {
  std::vector<std::size_t> order(departures.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return departures[a].gap.to < departures[b].gap.to;
  });
  return order;
}

void fetch_blocks_ahead(const PolicyContext& context, int distance,
                        std::vector<Departure>& departures) {
  const std::vector<std::vector<BlockSpan>> spans = block_spans(context);
  const int last = context.graph.blocks - 1;
  for (Departure& d : departures) {
    d.fetch_at = d.gap.to;
    if (distance == 0 || last < 0) continue;
    const int block = d.gap.needed_by + std::min(distance, last - d.gap.needed_by);
    const Position begin = spans[d.gap.micro_batch][static_cast<std::size_t>(block)].backward_begin;
    if (begin.valid()) d.fetch_at = std::min(begin, d.gap.to);
  }
}

// Places fetches from the last use to the first: a copy must end before its use and before the copy
// that follows it on the link.
void fetch_just_in_time(const PolicyContext& context, std::vector<Departure>& departures) {
  const std::vector<Duration> starts = predicted_starts(context);
  const std::vector<Position> begins = backward_begins(context);
  const std::vector<std::size_t> order = by_use(departures);
  Duration link_needed = Duration::max();
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    Departure& d = departures[*i];
    const Position first = std::max(begins[d.gap.micro_batch], Position(d.gap.release.value + 1));
    const Duration end = std::min(starts[d.gap.to.index()], link_needed);
    const Duration begin =
        std::max(end - copy_in_time(context, d.gap.bytes), starts[first.index()]);
    link_needed = begin;
    const auto next = std::upper_bound(starts.begin(), starts.end(), begin);
    const Position latest(static_cast<std::size_t>(next - starts.begin()) - 1);
    d.fetch_at = std::clamp(latest, std::min(first, d.gap.to), d.gap.to);
  }
}

// Returns the live bytes while everything that leaves is off device.
MemoryCurve curve_without(const PolicyContext& context, const ResidencyPlan& plan,
                          const std::vector<Departure>& departures) {
  MemoryCurve curve(context, plan);
  for (const Departure& d : departures) {
    if (!plan.decided(d.gap.id)) curve.add(away_from(d), d.gap.to, -d.gap.bytes);
  }
  return curve;
}

// Lets copies back wait until there is room for them, at most until their use.
void wait_for_room(const PolicyContext& context, const ResidencyPlan& plan, Bytes budget,
                   std::vector<Departure>& departures) {
  MemoryCurve curve = curve_without(context, plan, departures);
  for (std::size_t i : by_use(departures)) {
    Departure& d = departures[i];
    if (plan.decided(d.gap.id)) continue;
    d.fetch_at = curve.earliest_fit(d.fetch_at, d.gap.to, d.gap.bytes, budget);
    curve.add(d.fetch_at, d.gap.to, d.gap.bytes);
  }
}

void fetch_earliest(const PolicyContext& context, const ResidencyPlan& plan,
                    const Prefetch& prefetch, std::vector<Departure>& departures) {
  MemoryCurve curve = curve_without(context, plan, departures);
  const Bytes budget = prefetch.budget.value_or(curve.peak());
  std::vector<char> stays(departures.size(), 0);
  for (std::size_t i : by_use(departures)) {
    Departure& d = departures[i];
    if (plan.decided(d.gap.id)) continue;
    const Position fits = curve.earliest_fit(away_from(d), d.gap.to, d.gap.bytes, budget);
    stays[i] = static_cast<char>(fits == away_from(d) && fits < d.gap.to);
    d.fetch_at = std::clamp(fits, std::min(first_fetch(d), d.gap.to), d.gap.to);
    curve.add(stays[i] != 0 ? fits : d.fetch_at, d.gap.to, d.gap.bytes);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < departures.size(); ++i) {
    if (stays[i] == 0) departures[kept++] = departures[i];
  }
  departures.resize(kept);
}

}  // namespace
}  // namespace prefetch_detail

Prefetch decode_prefetch(const Decoder& decoder, std::string_view fallback) {
  auto text = decoder.optional<std::string>("prefetch", std::string(fallback));
  if (text == "own") text = fallback;
  Prefetch prefetch{
      .rule = PrefetchRule::kOwn, .distance = 0, .budget = decode_budget(decoder, above(0))};
  if (text == "own") return prefetch;
  if (text == "on_demand") {
    prefetch.rule = PrefetchRule::kOnDemand;
  } else if (text == "just_in_time") {
    prefetch.rule = PrefetchRule::kJustInTime;
  } else if (text == "earliest") {
    prefetch.rule = PrefetchRule::kEarliest;
  } else if (!prefetch_detail::read_distance(text, prefetch)) {
    decoder.fail_at("prefetch",
                    fmt::format("expected own, on_demand, just_in_time, earliest, a number of "
                                "blocks (2) or of operators ('8 operators'), found '{}'",
                                text));
  }
  return prefetch;
}

void place_fetches(const PolicyContext& context, const ResidencyPlan& plan,
                   const Prefetch& prefetch, std::vector<Departure>& departures) {
  switch (prefetch.rule) {
    case PrefetchRule::kOwn:
      return;
    case PrefetchRule::kOnDemand:
      return prefetch_detail::fetch_blocks_ahead(context, 0, departures);
    case PrefetchRule::kBlocks:
      return prefetch_detail::fetch_blocks_ahead(context, prefetch.distance, departures);
    case PrefetchRule::kOperators:
      for (Departure& d : departures) {
        const auto ahead = static_cast<std::uint32_t>(prefetch.distance);
        d.fetch_at = Position(d.gap.to.value - std::min(ahead, d.gap.to.value));
        d.fetch_at = std::max(d.fetch_at, std::min(prefetch_detail::first_fetch(d), d.gap.to));
      }
      return;
    case PrefetchRule::kJustInTime:
      prefetch_detail::fetch_just_in_time(context, departures);
      if (prefetch.budget)
        prefetch_detail::wait_for_room(context, plan, *prefetch.budget, departures);
      return;
    case PrefetchRule::kEarliest:
      return prefetch_detail::fetch_earliest(context, plan, prefetch, departures);
  }
}

}  // namespace tidemark
