// Reversal of a chain of blocks, or of nodes, with few checkpoints.
#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "graph/core/units.hpp"
#include "policies/plan/budget.hpp"
#include "policies/recompute/entries.hpp"
#include "policies/remat/reversal.hpp"
#include "policies/remat/spread_evenly.hpp"
#include "policies/sequence/laid_out_peaks.hpp"
#include "policies/solver/chain.hpp"
#include "policies/solver/choose_schedule.hpp"

namespace tidemark {
namespace revolve_detail {
namespace {

constexpr std::string_view kRevolveSource = "Griewank and Walther 2000, algorithm 799";

// Reverses the chain of blocks, or of a cost graph's nodes, with the fewest repeated forwards for
// the checkpoints given, or for as many as a budget has room for.
class Revolve final : public SequencePolicy {
 public:
  static Revolve decode(const Decoder& d) {
    Revolve policy;
    policy.checkpoints_ = d.optional<int>("checkpoints", 0, at_least(0));
    return policy;
  }
  void decode_budget(const Decoder& d) {
    budget_ = tidemark::decode_budget(d, above(0));
    d.finish();
    if (budget_ && checkpoints_ > 0) {
      d.fail("give one of checkpoints and budget; the budget says how many checkpoints there are");
    }
  }
  [[nodiscard]] std::string_view name() const override { return "revolve"; }
  [[nodiscard]] std::optional<Bytes> budget() const override { return budget_; }
  // Takes a budget only where `checkpoints` is not given, which decides what is kept.
  [[nodiscard]] bool set_budget(Bytes budget) override {
    if (checkpoints_ > 0) return false;
    budget_ = budget;
    return true;
  }

  [[nodiscard]] ProgramOrder order(const PolicyContext& context,
                                   PolicyOutcome& outcome) const override {
    const int blocks = context.graph.blocks;
    if (budget_) return within_budget(context, outcome);
    if (blocks < 2) return context.order;
    // sqrt(L) checkpoints where none are given.
    const int wanted = checkpoints_ > 0
                           ? checkpoints_
                           : static_cast<int>(std::lround(std::sqrt(static_cast<double>(blocks))));
    return reversed(context, std::min(wanted, blocks - 1));
  }
  // Considers the schedules of a cost graph that is a chain, among which its budget chooses: one
  // for each number of checkpoints where none is given.
  [[nodiscard]] PlanResult plan(const RematProblem& problem, const PlanRequest& request) const {
    ScheduleChoice choice(problem, request, "revolve");
    std::vector<int> numbers{checkpoints_};
    if (checkpoints_ == 0) {
      for (auto kept = static_cast<int>(chain_length(problem, "revolve")) - 1; kept > 0; --kept)
        numbers.push_back(kept);
    }
    for (const int kept : spread_evenly(std::move(numbers))) {
      if (choice.late()) break;
      choice.consider(revolve_schedule(problem, kept));
    }
    return choice.result();
  }

 private:
  [[nodiscard]] static ProgramOrder reversed(const PolicyContext& context, int checkpoints) {
    const int blocks = context.graph.blocks;
    const std::vector<std::vector<int>> repeats = revolve_repeats(blocks, checkpoints);
    std::vector<Repeat> inserted;
    const std::vector<BlockRegion> forward = block_segments(context, 1);
    for (std::size_t first = 0; first < forward.size(); first += static_cast<std::size_t>(blocks)) {
      const std::vector<Position> begins =
          backward_begins(context, forward[first].step, forward[first].micro_batch);
      for (std::size_t b = 0; b < static_cast<std::size_t>(blocks); ++b) {
        Repeat repeat{.before = begins[b], .occurrences = {}};
        if (!repeat.before.valid()) continue;
        for (int again : repeats[b]) {
          for (Position p : forward[first + static_cast<std::size_t>(again)].forward) {
            Occurrence occurrence = context.order.at[p];
            if (writes_persistent(context.graph, occurrence.op)) continue;
            occurrence.recompute = true;
            repeat.occurrences.push_back(occurrence);
          }
        }
        inserted.push_back(std::move(repeat));
      }
    }
    return insert_repeats(context.order, std::move(inserted));
  }

  // Returns the first order that fits. More checkpoints take more memory and less time, so it is
  // the fastest; if none fits, that of the least peak is laid out. Keeping all is the chain without
  // repeats.
  [[nodiscard]] ProgramOrder within_budget(const PolicyContext& context,
                                           PolicyOutcome& outcome) const {
    const auto stretch_of = [&](const ProgramOrder& order) {
      return micro_batches(context, order);
    };
    const auto peak_of = [&](const ProgramOrder& order) {
      const std::vector<Bytes> peaks = laid_out_peaks(context, order, stretch_of(order));
      return peaks.empty() ? Bytes(0) : *std::max_element(peaks.begin(), peaks.end());
    };
    const auto cost_of = [&](const ProgramOrder& order) {
      const Stretch last = stretch_of(order).back();
      std::int64_t cost = 0;
      for (Position p = last.begin; p < last.end; ++p.value)
        cost += context.durations[order.at[p].op].count();
      return cost;
    };
    ProgramOrder best = context.order;
    Bytes peak = peak_of(best);
    for (int checkpoints = context.graph.blocks - 1; checkpoints > 0 && peak > *budget_;
         --checkpoints) {
      ProgramOrder next = reversed(context, checkpoints);
      const Bytes taken = peak_of(next);
      if (taken >= peak) continue;
      peak = taken;
      best = std::move(next);
    }
    const bool fits = peak <= *budget_;
    outcome.plan = {.status = fits ? PlanStatus::kFeasible : PlanStatus::kUnknown,
                    .schedule_class = "fixed",
                    .budget = *budget_,
                    .peak = peak,
                    .cost = Duration(cost_of(best)),
                    .base_cost = Duration(cost_of(context.order))};
    if (!fits) {
      outcome.plan->infeasible =
          fmt::format("revolve needs at least {} ({} bytes) here; another policy may fit",
                      format_bytes(peak), peak.count);
    }
    return best;
  }

  // Returns the forward and backward of each micro-batch of each step.
  [[nodiscard]] static std::vector<Stretch> micro_batches(const PolicyContext& context,
                                                          const ProgramOrder& order) {
    std::vector<Stretch> found;
    for (const Position p : ids_of(order.at)) {
      const Occurrence& at = order.at[p];
      if (context.graph.operators[at.op].phase == Phase::kOptimizer) continue;
      const Occurrence* before = found.empty() ? nullptr : &order.at[found.back().begin];
      const bool same = before != nullptr && found.back().end == p && before->step == at.step &&
                        before->micro_batch == at.micro_batch;
      if (!same) found.push_back({p, p});
      found.back().end = Position(p.value + 1);
    }
    return found;
  }

  // Returns the first backward position of each block in one micro-batch.
  [[nodiscard]] static std::vector<Position> backward_begins(const PolicyContext& context, int step,
                                                             int micro_batch) {
    std::vector<Position> begins(static_cast<std::size_t>(context.graph.blocks));
    for (Position p : ids_of(context.order.at)) {
      const Occurrence& occurrence = context.order.at[p];
      const int block = context.block_at(p);
      if (occurrence.step != step || occurrence.micro_batch != micro_batch || block == kNoBlock ||
          context.op_at(p).phase != Phase::kBackward) {
        continue;
      }
      Position& begin = begins[static_cast<std::size_t>(block)];
      if (!begin.valid()) begin = p;
    }
    return begins;
  }

  // Number of checkpoints; 0: the square root of the number of blocks, or as many as fit a budget
  // or a cost graph's.
  int checkpoints_ = 0;
  std::optional<Bytes> budget_;
};

}  // namespace
}  // namespace revolve_detail

const PolicyEntry& revolve_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "revolve",
      .kind = "sequence",
      .summary =
          "keep the inputs of `checkpoints` blocks beside the first, or of as many as `budget` has "
          "room for, and reverse the chain with the fewest repeated block forwards",
      .source = revolve_detail::kRevolveSource,
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        revolve_detail::Revolve policy = revolve_detail::Revolve::decode(d);
        policy.decode_budget(d);
        return std::make_unique<revolve_detail::Revolve>(std::move(policy));
      },
      .plan = revolve_plan};
  return kEntry;
}

const PlanPolicy& revolve_plan() {
  static constexpr PlanPolicy kPolicy{
      .name = "revolve",
      .summary = "reverses a chain with the fewest repeated forwards for `checkpoints` kept nodes",
      .source = revolve_detail::kRevolveSource,
      .decode = [](const Decoder& d) -> PlanFunction {
        return [policy = revolve_detail::Revolve::decode(d)](const RematProblem& problem,
                                                             const PlanRequest& request) {
          return policy.plan(problem, request);
        };
      }};
  return kPolicy;
}

}  // namespace tidemark
