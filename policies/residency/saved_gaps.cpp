#include "policies/residency/saved_gaps.hpp"

#include <algorithm>
#include <cmath>

namespace tidemark {
namespace saved_gaps_detail {
namespace {

Duration copy_time(const LinkProfile& link, Bytes bytes) {
  if (link.alone.value <= 0) return link.latency;
  const double ns = static_cast<double>(bytes.count) * 1e9 / link.alone.value;
  return link.latency + Duration(std::llround(ns));
}

}  // namespace
}  // namespace saved_gaps_detail

std::size_t micro_batch_index(const PolicyContext& context, const Occurrence& occurrence) {
  return static_cast<std::size_t>(occurrence.step) *
             static_cast<std::size_t>(context.order.micro_batches) +
         occurrence.micro_batch;
}

std::vector<SavedGap> saved_gaps(const PolicyContext& context, Bytes min_bytes) {
  std::vector<SavedGap> found;
  for (GapId id : ids_of(context.live.gaps)) {
    const Gap& gap = context.live.gaps[id];
    if (!gap.open()) continue;
    const Storage& storage = context.graph.storages[gap.storage];
    if (storage.initial || storage.persistent || storage.bytes < min_bytes) continue;
    // Autograd does not save what ranks gather and send.
    if (storage.role == Role::kGatheredParameter || storage.role == Role::kCommunication) continue;
    const Occurrence& from = context.order.at[gap.from];
    const Occurrence& to = context.order.at[gap.to];
    if (from.recompute || context.op_at(gap.from).phase != Phase::kForward) continue;
    if (!to.recompute && context.op_at(gap.to).phase != Phase::kBackward) continue;
    found.push_back({.id = id,
                     .storage = gap.storage,
                     .bytes = storage.bytes,
                     .from = gap.from,
                     .release = gap.release,
                     .to = gap.to,
                     .block = context.block_at(gap.from),
                     .needed_by = std::max(context.block_at(gap.to), 0),
                     .micro_batch = micro_batch_index(context, from)});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const SavedGap& a, const SavedGap& b) { return a.release < b.release; });
  return found;
}

Position creator_of(const PolicyContext& context, GapId gap) {
  const StorageId storage = context.live.gaps[gap].storage;
  while (true) {
    const Position p = context.live.gaps[gap].from;
    for (const Touch& touch : context.graph.touches_of(context.order.at[p].op)) {
      if (touch.storage == storage && touch.access == Access::kCreate) return p;
    }
    if (gap.value == 0 || context.live.gaps[GapId(gap.value - 1)].storage != storage) return {};
    gap = GapId(gap.value - 1);
  }
}

SmallestMoved decode_smallest(const Decoder& decoder, Elements elements) {
  SmallestMoved smallest{.elements = elements, .bytes = decoder.maybe<Bytes>("min_bytes")};
  if (smallest.bytes && decoder.has("min_elements")) {
    decoder.fail_at("min_elements", "min_bytes says the same in bytes; give one of them");
  }
  smallest.elements =
      Elements(decoder.optional<std::int64_t>("min_elements", elements.count, at_least(0)));
  return smallest;
}

std::vector<SavedGap> saved_gaps(const PolicyContext& context, const SmallestMoved& smallest) {
  if (smallest.bytes) return saved_gaps(context, *smallest.bytes);
  std::vector<SavedGap> found = saved_gaps(context, Bytes(1));
  std::erase_if(found, [&](const SavedGap& gap) {
    return context.graph.storages[gap.storage].elements < smallest.elements;
  });
  return found;
}

std::vector<std::vector<BlockSpan>> block_spans(const PolicyContext& context) {
  const std::size_t micro_batches = static_cast<std::size_t>(context.order.steps) *
                                    static_cast<std::size_t>(context.order.micro_batches);
  std::vector<std::vector<BlockSpan>> all(
      micro_batches, std::vector<BlockSpan>(static_cast<std::size_t>(context.graph.blocks)));
  for (Position p : ids_of(context.order.at)) {
    const Occurrence& occurrence = context.order.at[p];
    const int block = context.block_at(p);
    if (block == kNoBlock || context.op_at(p).phase == Phase::kOptimizer) continue;
    BlockSpan& span = all[micro_batch_index(context, occurrence)][static_cast<std::size_t>(block)];
    if (context.op_at(p).phase == Phase::kForward && !occurrence.recompute) {
      if (!span.forward_begin.valid()) span.forward_begin = p;
      span.forward_end = p;
    } else {
      if (!span.backward_begin.valid()) span.backward_begin = p;
      span.backward_end = p;
    }
  }
  return all;
}

std::vector<Duration> predicted_starts(const PolicyContext& context) {
  std::vector<Duration> starts;
  starts.reserve(context.order.at.size() + 1);
  Duration now{};
  for (const Occurrence& occurrence : context.order.at) {
    starts.push_back(now);
    now += context.durations[occurrence.op];
  }
  starts.push_back(now);
  return starts;
}

Duration copy_out_time(const PolicyContext& context, Bytes bytes) {
  return saved_gaps_detail::copy_time(context.device.links.device_to_host, bytes);
}
Duration copy_in_time(const PolicyContext& context, Bytes bytes) {
  return saved_gaps_detail::copy_time(context.device.links.host_to_device, bytes);
}

Position away_from(const Departure& d) {
  if (d.release_at.valid()) return d.release_at;
  return d.copy_at.valid() ? d.copy_at : Position(d.gap.release.value + 1);
}

bool frees_memory(const Departure& d) {
  const Position fetch_at = d.fetch_at.valid() ? std::min(d.fetch_at, d.gap.to) : d.gap.to;
  if (d.copy_at.valid() && (d.copy_at <= d.gap.release || d.copy_at >= fetch_at)) return false;
  if (!d.release_at.valid()) return fetch_at > d.gap.release;
  if (d.copy_at.valid() && d.copy_at > d.release_at) return false;
  return d.release_at > d.gap.release && fetch_at > d.release_at;
}

void decide_offloads(const PolicyContext& context, const std::vector<Departure>& departures,
                     ResidencyPlan& plan) {
  PolicyOutcome& outcome = plan.outcome();
  for (const Departure& d : departures) {
    if (!frees_memory(d)) continue;
    const Position fetch_at = d.fetch_at.valid() ? std::min(d.fetch_at, d.gap.to) : d.gap.to;
    const Offload offload{.fetch_at = fetch_at,
                          .release_at = d.release_at,
                          .tier = d.tier,
                          .copy_at = d.copy_at,
                          .compressed = d.compressed};
    if (!plan.decide(d.gap.id, offload)) continue;
    if (context.order.at[d.gap.from].step + 1 == context.order.steps) {
      outcome.offloaded += d.gap.bytes;
    }
  }
}

}  // namespace tidemark
