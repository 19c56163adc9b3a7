// The choices of `hybrid`: whether each saved value of the model is kept, recomputed or offloaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "policies/residency/hybrid_sites.hpp"
#include "policies/residency/memory_curve.hpp"
#include "policies/residency/prefetch.hpp"
#include "policies/residency/recipe.hpp"

namespace tidemark {

enum class HybridChoice : std::uint8_t { kKeep, kRecompute, kOffload };

// The excess of choices that cannot be carried out.
inline constexpr Bytes kImpossible{std::numeric_limits<std::int64_t>::max()};

// The score of a plan: first whether it fits, then its time, or its memory where nothing fits.
struct HybridScore {
  Bytes over;  // above the budget
  Duration step{};
  friend auto operator<=>(const HybridScore&, const HybridScore&) = default;
};

class HybridChooser {
 public:
  HybridChooser(const PolicyContext& context, const ResidencyPlan& plan, const Prefetch& prefetch,
                Bytes min_bytes)
      : context_(context),
        plan_(plan),
        prefetch_(prefetch),
        budget_(prefetch.budget.value_or(device_budget(context))),
        starts_(predicted_starts(context)),
        compute_(compute_of_last_step(context)),
        sites_(sites_of(context, plan, starts_, min_bytes)),
        choices_(sites_.size(), HybridChoice::kKeep) {}

  [[nodiscard]] std::size_t size() const { return sites_.size(); }
  [[nodiscard]] Bytes budget() const { return budget_; }
  [[nodiscard]] bool fits_as_it_is() {
    return MemoryCurve(context_, plan_).peak() <= budget_ && score(plan_).over == Bytes(0);
  }
  // `link_share`: share of the compute time that copies are expected to hide behind. `target`: live
  // bytes, less than the budget where recomputation needs room.
  void choose_greedily(bool recompute, double link_share, Bytes target);
  // Takes the best of the greedy choices without recomputation and with it, for several shares of
  // the link.
  void choose_best();
  void improve(int tries);
  void search_all();
  // Writes the choices into a plan; false where a value cannot be recomputed.
  bool apply(ResidencyPlan& plan) const;

 private:
  [[nodiscard]] HybridScore score(const ResidencyPlan& plan);
  [[nodiscard]] std::vector<std::uint32_t> additions(const ResidencyPlan& plan) const;
  [[nodiscard]] HybridScore score_choices();
  // Returns no score, without a trial run, if the choices cannot be better than `best`.
  [[nodiscard]] std::optional<HybridScore> score_if_better(const HybridScore& best);
  [[nodiscard]] bool cannot_beat(const HybridScore& best, const ResidencyPlan& plan) const;
  Duration recompute_cost(const ResidencyPlan& plan, const Site& site, Repeated& repeated,
                          bool within_block) const;
  void recompute_chosen(ResidencyPlan& plan, const std::vector<Recipe>& recipes) const;
  void search(std::size_t site, Duration recomputed, const Repeated& repeated, HybridScore& best,
              std::vector<HybridChoice>& found);

  const PolicyContext& context_;
  const ResidencyPlan& plan_;  // decisions of the policies before
  const Prefetch& prefetch_;
  Bytes budget_;
  std::vector<Duration> starts_;
  Duration compute_{};  // on the device, last step, without recomputed operators
  std::vector<Site> sites_;
  std::vector<HybridChoice> choices_;
  std::map<std::vector<std::uint32_t>, HybridScore> tried_;  // by additions()
};

}  // namespace tidemark
