#include <array>
#include <string_view>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/residency/entries.hpp"
#include "policies/residency/hybrid_chooser.hpp"

namespace tidemark {
namespace hybrid_detail {
namespace {

// Pass 1 chooses between all three, or takes the plan of a simpler policy where that is better;
// pass 2 offloads what recomputation has brought back above the budget.
class Hybrid final : public PrefetchingPolicy {
 public:
  struct Options {
    bool exhaustive = false;
    int tries = 64;
    Bytes min_bytes;
  };
  Hybrid(Prefetch prefetch, Options options) : PrefetchingPolicy(prefetch), options_(options) {}
  [[nodiscard]] std::string_view name() const override { return "hybrid"; }

  void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const override {
    const ResidencyPlan before = plan;
    HybridChooser chooser(context, before, fetching(), options_.min_bytes);
    if (options_.exhaustive) {
      if (chooser.size() > kMostSites) {
        throw UserError({}, "policies.hybrid.search",
                        fmt::format("an exhaustive search takes at most {} values, here are {}; "
                                    "raise min_bytes or use search: greedy",
                                    kMostSites, chooser.size()));
      }
      chooser.search_all();
    } else {
      if (chooser.fits_as_it_is()) return;
      chooser.choose_best(true);
      chooser.improve(options_.tries);
    }
    chooser.apply_best(true, plan);
  }

  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override {
    if (options_.exhaustive) return;
    const ResidencyPlan before = plan;
    HybridChooser chooser(context, before, fetching(), options_.min_bytes);
    if (chooser.fits_as_it_is()) return;
    chooser.choose_best(false);
    chooser.apply_best(false, plan);
  }

 private:
  static constexpr std::size_t kMostSites = 10;  // 3^10 trial runs

  Options options_;
};

constexpr std::array<std::string_view, 2> kSearches{"greedy", "exhaustive"};

}  // namespace
}  // namespace hybrid_detail

const PolicyEntry& hybrid_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "hybrid",
      .kind = "residency",
      .summary =
          "for each saved tensor keep, recompute or offload, whichever costs the step least under "
          "the `budget`; choices are improved by `tries` trial runs, or all are tried (search: "
          "exhaustive, small graphs)",
      .source = "Beaumont et al. 2021, Efficient Combination of Rematerialization and Offloading",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        const Prefetch prefetch = decode_prefetch(d, "earliest");
        hybrid_detail::Hybrid::Options options;
        options.exhaustive =
            d.optional_word("search", hybrid_detail::kSearches, "greedy") == "exhaustive";
        options.tries = d.optional<int>("tries", 64, at_least(0));
        options.min_bytes = d.optional<Bytes>("min_bytes", kKiB);
        d.finish();
        return std::make_unique<hybrid_detail::Hybrid>(prefetch, options);
      }};
  return kEntry;
}

}  // namespace tidemark
