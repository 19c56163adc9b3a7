#include "policies/adapt/precision_search.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

namespace tidemark {
namespace precision_search_detail {
namespace {

constexpr std::size_t kStates = 512;  // of the knapsack's front
constexpr int kProposals = 24;

class Search {
 public:
  explicit Search(const PrecisionProblem& problem) : problem_(problem) {}

  PrecisionChoice run() {
    const std::vector<int> widest(problem_.cost.size(), 0);
    if (evaluate(widest)) return std::move(best_);
    const std::optional<std::size_t> choices = number_of_choices();
    if (choices && *choices <= problem_.exhaustive) {
      enumerate(*choices);
    } else {
      propose();
    }
    best_.evaluations = evaluations_;
    return std::move(best_);
  }

 private:
  struct State {
    double cost = 0;
    std::int64_t saved = 0;
    std::vector<int> option;
  };

  [[nodiscard]] std::optional<std::size_t> number_of_choices() const {
    std::size_t choices = 1;
    for (const std::vector<double>& options : problem_.cost) {
      choices *= options.size();
      if (choices > problem_.exhaustive) return std::nullopt;
    }
    return choices;
  }

  [[nodiscard]] double cost_of(const std::vector<int>& option) const {
    double cost = 0;
    for (std::size_t b = 0; b < option.size(); ++b)
      cost += problem_.cost[b][static_cast<std::size_t>(option[b])];
    return cost;
  }

  // Evaluates a choice and keeps it if it is the best so far: the cheapest that meets the budget,
  // else the one of the least peak. Returns whether it meets the budget.
  bool evaluate(const std::vector<int>& option) {
    const Bytes peak = problem_.peak(option);
    ++evaluations_;
    last_peak_ = peak;
    const bool meets = peak <= problem_.budget;
    const double cost = cost_of(option);
    const bool better = meets ? !best_.meets || cost < best_.cost
                              : !best_.meets && (best_.option.empty() || peak < best_.peak);
    if (better) best_ = {option, cost, peak, meets, evaluations_};
    return meets;
  }

  void enumerate(std::size_t choices) {
    std::vector<std::pair<double, std::vector<int>>> all;
    for (std::size_t code = 1; code < choices; ++code) {
      std::vector<int> option;
      std::size_t rest = code;
      for (const std::vector<double>& options : problem_.cost) {
        option.push_back(static_cast<int>(rest % options.size()));
        rest /= options.size();
      }
      const double cost = cost_of(option);
      all.emplace_back(cost, std::move(option));
    }
    std::sort(all.begin(), all.end());
    for (const auto& [cost, option] : all) {
      if (evaluate(option)) return;
    }
  }

  // Returns the bytes that each option of each block saves by itself, measured once for blocks that
  // are alike, at the middle one.
  std::vector<std::vector<std::int64_t>> savings(Bytes widest) {
    std::map<std::vector<double>, std::vector<std::size_t>> alike;
    for (std::size_t b = 0; b < problem_.cost.size(); ++b)
      alike[problem_.cost[b]].push_back(b);
    std::vector<std::vector<std::int64_t>> saved(problem_.cost.size());
    for (const auto& [costs, blocks] : alike) {
      std::vector<std::int64_t> of_kind(costs.size(), 0);
      for (std::size_t o = 1; o < costs.size(); ++o) {
        std::vector<int> option(problem_.cost.size(), 0);
        option[blocks[blocks.size() / 2]] = static_cast<int>(o);
        evaluate(option);
        of_kind[o] = (widest - last_peak_).count;
      }
      for (const std::size_t b : blocks)
        saved[b] = of_kind;
    }
    return saved;
  }

  // Returns choices that no other beats in both cost and savings, cheapest first.
  [[nodiscard]] std::vector<State> front(
      const std::vector<std::vector<std::int64_t>>& saved) const {
    std::vector<State> states{State{}};
    for (std::size_t b = 0; b < problem_.cost.size(); ++b) {
      std::vector<State> next;
      for (const State& state : states) {
        for (std::size_t o = 0; o < problem_.cost[b].size(); ++o) {
          if (o > 0 && saved[b][o] <= 0) continue;
          State longer = state;
          longer.cost += problem_.cost[b][o];
          longer.saved += saved[b][o];
          longer.option.push_back(static_cast<int>(o));
          next.push_back(std::move(longer));
        }
      }
      std::sort(next.begin(), next.end(), [](const State& x, const State& y) {
        return x.cost != y.cost ? x.cost < y.cost : x.saved > y.saved;
      });
      states.clear();
      for (State& state : next) {
        if (states.empty() || state.saved > states.back().saved) states.push_back(std::move(state));
      }
      thin(states);
    }
    return states;
  }

  static void thin(std::vector<State>& states) {
    if (states.size() <= kStates) return;
    std::vector<State> kept;
    for (std::size_t i = 0; i < kStates; ++i)
      kept.push_back(std::move(states[i * (states.size() - 1) / (kStates - 1)]));
    states = std::move(kept);
  }

  void propose() {
    const Bytes widest = last_peak_;
    const std::vector<State> states = front(savings(widest));
    std::int64_t needed = (widest - problem_.budget).count;
    for (int i = 0; i < kProposals; ++i) {
      const auto state = std::find_if(states.begin(), states.end(), [&](const State& candidate) {
        return candidate.saved >= needed;
      });
      if (state == states.end()) break;
      if (evaluate(state->option)) break;
      // Less was saved than the sum of what each saves: ask for as much more.
      needed = std::max(needed, state->saved) +
               std::max<std::int64_t>((last_peak_ - problem_.budget).count, 1);
    }
    if (!best_.meets && !states.empty()) evaluate(states.back().option);
    if (best_.meets) raise();
  }

  // Raises blocks while the budget is met, dearest first.
  void raise() {
    std::vector<std::size_t> order(problem_.cost.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const std::vector<int> from = best_.option;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return problem_.cost[a][static_cast<std::size_t>(from[a])] >
             problem_.cost[b][static_cast<std::size_t>(from[b])];
    });
    int misses = 0;
    for (const std::size_t b : order) {
      for (int o = 0; o < best_.option[b]; ++o) {
        std::vector<int> option = best_.option;
        option[b] = o;
        if (cost_of(option) >= best_.cost) continue;
        if (evaluate(option)) break;
        if (++misses > kProposals) return;
      }
    }
  }

  const PrecisionProblem& problem_;
  PrecisionChoice best_;
  Bytes last_peak_;
  int evaluations_ = 0;
};

}  // namespace
}  // namespace precision_search_detail

PrecisionChoice cheapest_precision(const PrecisionProblem& problem) {
  return precision_search_detail::Search(problem).run();
}

}  // namespace tidemark
