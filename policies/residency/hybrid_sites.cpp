#include "policies/residency/hybrid_sites.hpp"

#include <map>
#include <utility>

#include "policies/residency/swap_window.hpp"

namespace tidemark {

std::vector<Site> sites_of(const PolicyContext& context, const ResidencyPlan& plan,
                           const std::vector<Duration>& starts, Bytes min_bytes) {
  std::map<std::pair<StorageId, OperatorId>, std::size_t> index;
  std::vector<Site> sites;
  for (const SavedGap& gap : saved_gaps(context, min_bytes)) {
    if (plan.decided(gap.id)) continue;
    const OperatorId from = context.order.at[gap.from].op;
    const auto [at, added] = index.emplace(std::pair(gap.storage, from), sites.size());
    if (added) {
      sites.push_back({.gaps = {},
                       .free = {},
                       .bytes = gap.bytes,
                       .copy_out = copy_out_time(context, gap.bytes),
                       .copy_in = copy_in_time(context, gap.bytes)});
    }
    sites[at->second].gaps.push_back(gap);
    sites[at->second].free.push_back(free_time(context, starts, gap));
  }
  return sites;
}

Duration compute_of_last_step(const PolicyContext& context) {
  Duration compute{};
  for (const Occurrence& o : context.order.at) {
    const bool on_device = context.graph.operators[o.op].executor != Executor::kHost;
    if (on_device && o.step + 1 == context.order.steps) compute += context.durations[o.op];
  }
  return compute;
}

}  // namespace tidemark
