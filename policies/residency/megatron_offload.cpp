#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/residency/entries.hpp"
#include "policies/residency/prefetch.hpp"

namespace tidemark {
namespace megatron_offload_detail {
namespace {

// The values that one module of one layer saves in one micro-batch.
struct Group {
  std::string module;  // "attn.qkv" of "h.3.attn.qkv"
  std::size_t micro_batch = 0;
  Position end;             // forward leaves its last tensor after this operator
  Position backward_begin;  // backward of the module
  std::vector<SavedGap> gaps;
};

// Returns a layer's name after its last number: the module within the repeated block.
std::string module_of(const std::string& layer) {
  std::size_t begin = 0;
  for (std::size_t part = 0; part < layer.size();) {
    const std::size_t dot = std::min(layer.find('.', part), layer.size());
    const bool number = dot > part && layer.find_first_not_of("0123456789", part) >= dot;
    if (number) begin = std::min(dot + 1, layer.size());
    part = dot + 1;
  }
  return layer.substr(begin);
}

// Copies groups of (layer, module) when the module's forward has ended and fetches them when the
// backward of the group after begins, so one group is ahead. The last `margin` groups of each
// module stay, since they would be needed at once; of the others the first `fraction` moves. A
// tensor's memory returns at its copy's event; with `in_flight` k compute waits until at most k
// groups of the module are being copied, and frees there.
class MegatronOffload final : public PrefetchingPolicy {
 public:
  struct Options {
    std::vector<std::string> modules;  // all when empty
    int margin = 1;
    double fraction = 1;
    std::optional<int> in_flight;
    SmallestMoved smallest;
  };
  MegatronOffload(Prefetch prefetch, Options options)
      : PrefetchingPolicy(prefetch), options_(std::move(options)) {}
  [[nodiscard]] std::string_view name() const override { return "megatron_offload"; }
  [[nodiscard]] bool looks_at_capacity() const override { return false; }
  [[nodiscard]] std::optional<TrainingSystem> system() const override {
    return TrainingSystem::kMegatron;
  }

  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override {
    const std::vector<Group> groups = collect(context);
    std::vector<Departure> departures;
    for (std::size_t begin = 0; begin < groups.size();) {
      std::size_t end = begin;
      while (end < groups.size() && groups[end].micro_batch == groups[begin].micro_batch)
        ++end;
      depart(std::span(groups).subspan(begin, end - begin), departures);
      begin = end;
    }
    place_fetches(context, plan, fetching(), departures);
    decide_offloads(context, departures, plan);
  }

 private:
  // Collects the groups by micro-batch index, then by the end of the group's forward.
  [[nodiscard]] std::vector<Group> collect(const PolicyContext& context) const {
    std::map<std::pair<std::size_t, LayerId>, Group> found;
    std::set<std::string> known;
    for (Position p : ids_of(context.order.at)) {
      if (context.block_at(p) != kNoBlock)
        known.insert(module_of(context.graph.layers[context.op_at(p).layer].name));
    }
    for (const std::string& module : options_.modules) {
      if (known.contains(module)) continue;
      throw UserError(
          {}, "policies.megatron_offload.modules",
          fmt::format("no block has a module '{}'; it has {}", module, fmt::join(known, ", ")));
    }
    for (const SavedGap& gap : saved_gaps(context, options_.smallest)) {
      if (gap.block == kNoBlock) continue;
      const LayerId layer = context.op_at(gap.from).layer;
      const std::string module = module_of(context.graph.layers[layer].name);
      const std::vector<std::string>& chosen = options_.modules;
      if (!chosen.empty() && std::find(chosen.begin(), chosen.end(), module) == chosen.end())
        continue;
      Group& group = found[{gap.micro_batch, layer}];
      group.module = module;
      group.micro_batch = gap.micro_batch;
      group.end = gap.release;
      group.backward_begin = group.gaps.empty() ? gap.to : std::min(group.backward_begin, gap.to);
      group.gaps.push_back(gap);
    }
    for (Position p : ids_of(context.order.at)) {
      if (context.op_at(p).phase != Phase::kBackward) continue;
      const auto group =
          found.find({micro_batch_index(context, context.order.at[p]), context.op_at(p).layer});
      if (group != found.end()) {
        group->second.backward_begin = std::min(group->second.backward_begin, p);
      }
    }
    std::vector<Group> groups;
    groups.reserve(found.size());
    for (auto& [key, group] : found)
      groups.push_back(std::move(group));
    std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
      return std::pair(a.micro_batch, a.end) < std::pair(b.micro_batch, b.end);
    });
    return groups;
  }

  // Decides for the groups of one micro-batch, in forward order.
  void depart(std::span<const Group> groups, std::vector<Departure>& departures) const {
    std::vector<char> moves(groups.size(), 1);
    std::map<std::string, int> of_module;
    for (std::size_t i = groups.size(); i-- > 0;) {
      if (of_module[groups[i].module]++ < options_.margin) moves[i] = 0;
    }
    const auto eligible = static_cast<double>(std::count(moves.begin(), moves.end(), 1));
    int kept = static_cast<int>(eligible * (1 - options_.fraction));
    for (std::size_t i = groups.size(); i-- > 0 && kept > 0;) {
      if (moves[i] == 1) {
        moves[i] = 0;
        --kept;
      }
    }
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (moves[i] == 0) continue;
      const Position release_at = waited_for(groups, moves, i);
      const Position fetch_at = i + 1 < groups.size() ? groups[i + 1].backward_begin : Position();
      for (const SavedGap& gap : groups[i].gaps) {
        departures.push_back({.gap = gap, .release_at = release_at, .fetch_at = fetch_at});
      }
    }
  }
  // Returns where compute waits for the copies of group i: at the end of the k-th moving group of
  // the module after it.
  [[nodiscard]] Position waited_for(std::span<const Group> groups, const std::vector<char>& moves,
                                    std::size_t i) const {
    if (!options_.in_flight) return {};
    int behind = 0;
    for (std::size_t j = i; j < groups.size(); ++j) {
      if (moves[j] == 0 || groups[j].module != groups[i].module) continue;
      if (behind++ == *options_.in_flight) return Position(groups[j].end.value + 1);
    }
    return {};
  }

  Options options_;
};

}  // namespace
}  // namespace megatron_offload_detail

const PolicyEntry& megatron_offload_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "megatron_offload",
      .kind = "residency",
      .summary =
          "copy what single modules of the blocks save, group by group; the last `margin` groups "
          "of each module stay, compute waits beyond `in_flight` copies",
      .source = "NVIDIA/Megatron-LM core/pipeline_parallel/fine_grained_activation_offload.py",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        megatron_offload_detail::MegatronOffload::Options options;
        options.modules = d.list<std::string>("modules");
        options.margin = d.optional<int>("margin", 1, at_least(0));
        options.fraction = d.optional<double>("fraction", 1.0, between(0, 1));
        options.in_flight = d.maybe<int>("in_flight", at_least(0));
        options.smallest =
            decode_smallest(d, Elements(std::int64_t{1} << 20));  // min_offloaded_tensor_size
        const Prefetch prefetch = decode_prefetch(d);
        d.finish();
        return std::make_unique<megatron_offload_detail::MegatronOffload>(prefetch,
                                                                          std::move(options));
      }};
  return kEntry;
}

}  // namespace tidemark
