// The choices of `hybrid`: whether each saved value of the model is kept, recomputed or offloaded.
#pragma once

#include <array>
#include <compare>
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
  Bytes over;  // bytes above the budget
  Duration step{};
  friend bool operator==(const HybridScore&, const HybridScore&) = default;
  friend std::strong_ordering operator<=>(const HybridScore& a, const HybridScore& b) {
    if (const auto order = a.over <=> b.over; std::is_neq(order)) return order;
    return a.step <=> b.step;
  }
};

class HybridChooser {
  struct Choices {
    std::vector<HybridChoice> of_sites;
    // Live bytes that the predicted curve may reach: less than the budget by what trial runs take
    // beyond the curve.
    Bytes room;
  };

 public:
  HybridChooser(const PolicyContext& context, const ResidencyPlan& plan, const Prefetch& prefetch,
                Bytes min_bytes)
      : context_(context),
        plan_(plan),
        prefetch_(prefetch),
        budget_(prefetch.budget.value_or(device_budget(context))),
        room_(curve_budget(context, plan, prefetch.budget)),
        min_bytes_(min_bytes),
        starts_(predicted_starts(context)),
        compute_(compute_of_last_step(context)),
        sites_(sites_of(context, plan, starts_, min_bytes)),
        choices_(sites_.size(), HybridChoice::kKeep) {}

  [[nodiscard]] std::size_t size() const { return sites_.size(); }
  [[nodiscard]] bool fits_as_it_is() {
    return MemoryCurve(context_, plan_).peak() <= budget_ && score(plan_).over == Bytes(0);
  }
  // Takes the best of the greedy choices without recomputation and, if it may `recompute`, with it,
  // for several shares of the link.
  void choose_best(bool recompute);
  void improve(int tries);
  void search_all();
  // Writes the choices into `plan` or, if that is better, what a simpler policy decides for the
  // budget; `recompute` as in choose_best().
  void apply_best(bool recompute, ResidencyPlan& plan);

 private:
  // Time of the link to the host and back: the compute that copies hide behind in forward and in
  // backward of the first micro-batch, and the copies that were chosen.
  struct LinkLoad {
    std::array<Duration, 2> compute{};
    std::array<Duration, 2> copies{};
    // Returns the time that compute waits longer for `more` time of copies in one direction.
    [[nodiscard]] Duration wait(std::size_t direction, Duration more) const;
  };
  // Recomputation as the greedy choice goes on.
  struct GreedyRecompute {
    bool allowed = false;
    std::vector<Duration> cost;  // cost of each site; -1: not known
    Repeated repeated;
  };
  struct Choice {
    std::size_t site = 0;
    HybridChoice way = HybridChoice::kKeep;
  };
  [[nodiscard]] LinkLoad link_load(double link_share) const;
  // Returns the choice that frees memory at a position at the least cost per byte, if any is left.
  [[nodiscard]] std::optional<Choice> cheapest_at(Position peak, const LinkLoad& link,
                                                  const ResidencyPlan& plan,
                                                  GreedyRecompute& recompute) const;
  // `link_share`: share of the compute time that copies are expected to hide behind.
  void choose_greedily(bool recompute, double link_share);
  // Chooses for less and less room until the trial run fits; the best goes into `best` and `found`.
  void choose_within(bool recompute, double link_share, HybridScore& best, Choices& found);
  // Writes the choices into a plan; false where a value cannot be recomputed.
  bool apply(ResidencyPlan& plan) const;
  [[nodiscard]] HybridScore score(const ResidencyPlan& plan);
  [[nodiscard]] std::vector<std::uint32_t> additions(const ResidencyPlan& plan) const;
  [[nodiscard]] HybridScore score_choices();
  // Returns no score, without a trial run, if the choices cannot be better than `best`.
  [[nodiscard]] std::optional<HybridScore> score_if_better(const HybridScore& best);
  [[nodiscard]] bool cannot_beat(const HybridScore& best, const ResidencyPlan& plan) const;
  Duration recompute_cost(const ResidencyPlan& plan, const Site& site, Repeated& repeated,
                          bool within_block) const;
  void search(std::size_t site, Duration recomputed, const Repeated& repeated, HybridScore& best,
              Choices& found);

  const PolicyContext& context_;
  const ResidencyPlan& plan_;  // decisions of the policies before
  const Prefetch& prefetch_;
  Bytes budget_;
  Bytes room_;  // see Choices
  Bytes min_bytes_;
  std::vector<Duration> starts_;
  Duration compute_{};  // device compute of the last step without recomputed operators
  std::vector<Site> sites_;
  std::vector<HybridChoice> choices_;
  std::map<std::vector<std::uint32_t>, HybridScore> tried_;  // scores of plans by their additions()
};

}  // namespace tidemark
