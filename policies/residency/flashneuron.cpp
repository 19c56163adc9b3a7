#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/residency/entries.hpp"
#include "policies/residency/memory_curve.hpp"
#include "policies/residency/prefetch.hpp"

namespace tidemark {
namespace flashneuron_detail {
namespace {

// Returns the last operator that wrote the content behind a gap: a relu in place, not the one that
// made its memory.
const Operator* writer_of(const PolicyContext& context, GapId gap) {
  const StorageId storage = context.live.gaps[gap].storage;
  while (context.live.gaps[gap].storage == storage) {
    const Position p = context.live.gaps[gap].from;
    for (const Touch& touch : context.graph.touches_of(context.order.at[p].op)) {
      if (touch.storage == storage && touch.access != Access::kRead) return &context.op_at(p);
    }
    if (gap.value == 0) return nullptr;
    gap = GapId(gap.value - 1);
  }
  return nullptr;
}

// Divisors of the bytes that copies carry: by the kind of the operator that wrote the value, as
// sparse rows or any other form of known ratio, or by 2 where fp32 is sent as fp16.
struct Compression {
  std::map<std::string, double, std::less<>> by_kind;
  bool half = false;

  void check(const TrainingGraph& graph) const {
    std::set<std::string> known;
    for (const OperatorId op : graph.part(PartKind::kForward))
      known.emplace(graph.operators[op].forward_family());
    known.erase("");  // operators that a rewrite has added
    const std::vector<std::string> names(known.begin(), known.end());
    for (const auto& [kind, ratio] : by_kind) {
      if (known.contains(kind)) continue;
      std::string hint = did_you_mean(kind, names);
      if (hint.empty()) hint = fmt::format("; it has {}", fmt::join(names, ", "));
      throw UserError(
          {}, "policies.flashneuron.compression",
          fmt::format("the model's forward has no operator of kind '{}'{}", kind, hint));
    }
  }
  [[nodiscard]] Bytes of(const PolicyContext& context, const SavedGap& gap) const {
    const Operator* op = writer_of(context, gap.id);
    if (op == nullptr) return gap.bytes;
    const auto known = by_kind.find(op->forward_family());
    double ratio = known != by_kind.end() ? known->second : 1;
    if (half && op->work.dtype == DType::kFloat32) ratio = std::max(ratio, 2.0);
    return Bytes(std::llround(std::ceil(static_cast<double>(gap.bytes.count) / ratio)));
  }
};

// Selects saved tensors until they make up for the predicted peak above the budget:
//   phase 1   in forward order;
//   phase 2   where their copies take longer than the forward pass: those that can be compressed
//             first; then the last ones are dropped until forward never waits.
// The SSD is reached through a page-locked buffer of the host where FlashNeuron's GPUDirect writes
// to it directly: the slower of link and disk counts. Compression takes no time here.
class FlashNeuron final : public PrefetchingPolicy {
 public:
  FlashNeuron(Prefetch prefetch, Tier tier, Compression compression, Bytes min_bytes)
      : PrefetchingPolicy(prefetch),
        tier_(tier),
        compression_(std::move(compression)),
        min_bytes_(min_bytes) {}
  [[nodiscard]] std::string_view name() const override { return "flashneuron"; }

  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override {
    compression_.check(context.graph);
    Prefetch prefetch = fetching();
    prefetch.budget = curve_budget(context, plan, fetching().budget);
    const Bytes excess = MemoryCurve(context, plan).peak() - *prefetch.budget;
    if (excess <= Bytes(0)) return;
    std::vector<Duration> forward(static_cast<std::size_t>(context.order.steps) *
                                  static_cast<std::size_t>(context.order.micro_batches));
    for (const Occurrence& o : context.order.at) {
      if (o.recompute || context.graph.operators[o.op].phase != Phase::kForward) continue;
      forward[micro_batch_index(context, o)] += context.durations[o.op];
    }
    std::vector<std::vector<Departure>> saved(forward.size());
    for (const SavedGap& gap : saved_gaps(context, min_bytes_)) {
      if (plan.decided(gap.id)) continue;
      saved[gap.micro_batch].push_back(
          {.gap = gap, .release_at = {}, .fetch_at = {}, .tier = tier_});
    }
    std::vector<Departure> departures;
    for (std::size_t micro_batch = 0; micro_batch < saved.size(); ++micro_batch) {
      const std::vector<Departure> selected =
          select(context, std::move(saved[micro_batch]), excess, forward[micro_batch]);
      departures.insert(departures.end(), selected.begin(), selected.end());
    }
    place_fetches(context, plan, prefetch, departures);
    decide_offloads(context, departures, plan);
  }

 private:
  // Selects among the values of one micro-batch, in forward order.
  [[nodiscard]] std::vector<Departure> select(const PolicyContext& context,
                                              std::vector<Departure> saved, Bytes excess,
                                              Duration forward) const {
    Duration copies{};
    const std::size_t linear = first_that_suffice(context, saved, excess, copies);
    if (copies <= forward) {
      saved.resize(linear);
      return saved;
    }
    for (Departure& d : saved) {
      const Bytes sent = compression_.of(context, d.gap);
      if (sent < d.gap.bytes) d.compressed = sent;
    }
    std::stable_partition(saved.begin(), saved.end(),
                          [](const Departure& d) { return d.compressed > Bytes(0); });
    copies = Duration(0);
    saved.resize(first_that_suffice(context, saved, excess, copies));
    while (!saved.empty() && copies > forward) {
      copies -= time_out(context, saved.back());
      saved.pop_back();
    }
    std::stable_sort(saved.begin(), saved.end(), [](const Departure& a, const Departure& b) {
      return a.gap.release < b.gap.release;
    });
    return saved;
  }

  // Returns how many values of the list make up for `excess`; adds up their copies.
  [[nodiscard]] std::size_t first_that_suffice(const PolicyContext& context,
                                               const std::vector<Departure>& saved, Bytes excess,
                                               Duration& copies) const {
    std::size_t count = 0;
    for (Bytes bytes; count < saved.size() && bytes < excess; ++count) {
      bytes += saved[count].gap.bytes;
      copies += time_out(context, saved[count]);
    }
    return count;
  }

  [[nodiscard]] Duration time_out(const PolicyContext& context, const Departure& d) const {
    const Bytes sent = d.compressed > Bytes(0) ? d.compressed : d.gap.bytes;
    const Duration link = copy_out_time(context, sent);
    const NvmeProfile& disk = context.device.nvme;
    const double rate = disk.reached(disk.write).value;
    if (tier_ != Tier::kNvme || rate <= 0) return link;
    const double ns = static_cast<double>(sent.count) * 1e9 / rate;
    return std::max(link, disk.latency + Duration(std::llround(ns)));
  }

  Tier tier_;
  Compression compression_;
  Bytes min_bytes_;
};

Compression decode_compression(const Decoder& d) {
  Compression compression;
  for (const auto& [kind, ratio] : d.optional_child("compression").entries())
    compression.by_kind[kind] = ratio.as<double>(at_least(1));
  compression.half = d.optional<bool>("half", false);
  return compression;
}

}  // namespace
}  // namespace flashneuron_detail

const PolicyEntry& flashneuron_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "flashneuron",
      .kind = "residency",
      .summary =
          "copy the first saved tensors to NVMe, or only to the host, until the `budget` is met, "
          "but "
          "no more than forward can hide",
      .source = "Bae et al. 2021, FlashNeuron (FAST'21)",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        static constexpr std::array<std::string_view, 2> kTierWords{"nvme", "host"};
        const Prefetch prefetch = decode_prefetch(d, "earliest");
        const bool nvme = d.optional_word("tier", kTierWords, "nvme") == "nvme";
        flashneuron_detail::Compression compression = flashneuron_detail::decode_compression(d);
        const Bytes min_bytes = d.optional<Bytes>("min_bytes", kKiB);
        d.finish();
        return std::make_unique<flashneuron_detail::FlashNeuron>(
            prefetch, nvme ? Tier::kNvme : Tier::kHost, std::move(compression), min_bytes);
      }};
  return kEntry;
}

}  // namespace tidemark
