#include "policies/solver/exact_search.hpp"

#include <algorithm>
#include <chrono>
#include <queue>

#include "graph/core/errors.hpp"
#include "policies/solver/ranked_problem.hpp"

namespace tidemark {
namespace exact_search_detail {
namespace {

// Largest graph whose states are looked up when they are made, beyond it when they are expanded: a
// look-up for every value costs more than the bound saves.
constexpr NodeIndex kEagerNodes = 40;

// Best first over sets of computed and resident nodes.
template <std::size_t W>
class ExactSearch {
  using Set = NodeSet<W>;
  using Need = typename RankedProblem<W>::Need;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct State {
    Set computed;
    Set resident;
    std::int64_t extra = 0;        // cost of repeats so far
    std::uint32_t parent = 0;      // state
    std::uint32_t node = kNone;    // rank, computed in the step from the parent
    std::uint32_t stage_last = 0;  // class checkmate: 1 + the last node (not rank) of the stage
    bool closed = false;
  };
  struct Slot {
    std::uint32_t state = kNone;
    std::uint32_t tag = 0;  // part of the hash: most mismatches need no look at the state
  };
  struct Open {
    std::int64_t bound;  // bound of the extra cost
    std::uint32_t depth;
    std::uint32_t state;
    std::int64_t extra;
    friend bool operator<(const Open& a, const Open& b) {  // priority_queue takes the greatest
      if (a.bound != b.bound) return a.bound > b.bound;
      if (a.depth != b.depth) return a.depth < b.depth;
      return a.state > b.state;
    }
  };

 public:
  ExactSearch(const RematProblem& problem, const ExactOptions& options)
      : problem_(problem),
        options_(options),
        n_(problem.size()),
        fixed_order_(options.schedule_class != ScheduleClass::kUnrestricted),
        checkmate_(options.schedule_class == ScheduleClass::kCheckmate),
        limit_(options.better_than ? *options.better_than - problem.base_cost : kInfinite),
        ranked_(problem, options.budget, fixed_order_) {}

  ExactResult run() {
    table_.assign(std::size_t{1} << 16, Slot{});
    ExactResult result;
    push(State{});
    std::int64_t proven = 0;
    while (!open_.empty()) {
      const Open top = open_.top();
      open_.pop();
      State& state = states_[top.state];
      if (state.closed || state.extra != top.extra) continue;
      proven = std::max(proven, top.bound);
      if (top.depth == n_) {
        result.schedule = trace(top.state);
        result.complete = true;
        break;
      }
      state.closed = true;
      if (!dominated(state)) expand(top.state);
      // Its steps may be incomplete then, and so the bound stays what it was before them.
      if (late() || states_.size() >= options_.state_limit) return stopped(proven);
    }
    if (!result.schedule) {
      result.complete = true;
      proven = limit_;
    }
    result.lower_bound =
        limit_ == kInfinite && !result.schedule ? kInfinite : problem_.base_cost + proven;
    result.states = states_.size();
    return result;
  }

 private:
  ExactResult stopped(std::int64_t proven) const {
    return {.lower_bound = problem_.base_cost + proven, .states = states_.size()};
  }
  // Called for every step, since one state may have very many.
  bool late() {
    if (!late_ && (++clock_ & 1023U) == 0) {
      late_ = std::chrono::steady_clock::now() > options_.deadline;
    }
    return late_;
  }

  void expand(std::uint32_t index) {
    const State state = states_[index];
    const Need need = ranked_.need_of(state.computed);
    const std::int64_t used = problem_.fixed + ranked_.bytes_of(state.resident);
    const std::uint32_t next = state.computed.count();  // the only first evaluation in fixed order
    const std::int64_t again =
        ranked_.cost_of(ranked_.missing(state.computed, state.resident, need.direct));
    for (std::uint32_t r = 0; r < n_; ++r) {
      if (state.resident.has(r) || !state.resident.contains(ranked_.deps(r))) continue;
      const NodeIndex node = ranked_.node(r);
      const bool first = !state.computed.has(r);
      if (first && fixed_order_ && node != next) continue;
      if (!first && (!need.useful.has(r) || ranked_.once(r))) continue;
      if (checkmate_ && !first && node + 1 <= state.stage_last) continue;
      const std::int64_t extra = state.extra + (first ? 0 : ranked_.cost(r));
      if (extra >= limit_) continue;
      const std::int64_t excess =
          used + ranked_.bytes(r) + problem_.workspace[node] - options_.budget;
      Set removable = state.resident - ranked_.deps(r);
      // A value that was computed for nothing need not have been computed.
      if (state.node != kNone && !first_time(index)) removable.remove(state.node);
      Step step{.from = index,
                .rank = r,
                .first = first,
                .extra = extra,
                .recomputed = again,
                .direct = need.direct};
      if (excess <= 0) {
        take(state, step, state.resident);
        continue;
      }
      list_members(removable);
      evict(state, step, state.resident, excess, 0, 0);
    }
  }

  // Lists the values that may be dropped, in descending order of bytes.
  void list_members(const Set& removable) {
    members_.clear();
    removable.for_each([&](std::uint32_t m) {
      if (ranked_.bytes(m) > 0) members_.push_back(m);
    });
    std::stable_sort(members_.begin(), members_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return ranked_.bytes(a) > ranked_.bytes(b);
    });
    suffix_.assign(members_.size() + 1, 0);
    for (std::size_t i = members_.size(); i-- > 0;)
      suffix_[i] = suffix_[i + 1] + ranked_.bytes(members_[i]);
  }

  struct Step {
    std::uint32_t from;
    std::uint32_t rank;
    bool first;
    std::int64_t extra;
    std::int64_t recomputed;  // cost of the missing values before the step
    Set direct;
  };

  bool first_time(std::uint32_t index) const {
    const State& state = states_[index];
    return !states_[state.parent].computed.has(state.node);
  }

  // Tries every smallest set of members that frees `excess` bytes: in descending order of bytes, a
  // set is smallest when its last member is needed. `dropped`: cost of those dropped that are still
  // read.
  void evict(const State& state, const Step& step, const Set& kept, std::int64_t excess,
             std::size_t from, std::int64_t dropped) {
    if (excess <= 0) {
      take(state, step, kept);
      return;
    }
    for (std::size_t i = from; i < members_.size() && suffix_[i] >= excess; ++i) {
      const std::uint32_t m = members_[i];
      const std::int64_t lost = dropped + (step.direct.has(m) ? ranked_.cost(m) : 0);
      // The step itself may compute a missing one.
      if (step.extra + step.recomputed - (step.first ? 0 : ranked_.cost(step.rank)) + lost >=
          limit_)
        continue;
      Set rest = kept;
      rest.remove(m);
      evict(state, step, rest, excess - ranked_.bytes(m), i + 1, lost);
      if (late() || states_.size() >= options_.state_limit) return;
    }
  }

  void take(const State& state, const Step& step, const Set& kept) {
    State to;
    to.computed = state.computed;
    to.resident = kept;
    to.computed.add(step.rank);
    to.resident.add(step.rank);
    to.extra = step.extra;
    to.parent = step.from;
    to.node = step.rank;
    if (checkmate_) to.stage_last = step.first ? 0 : ranked_.node(step.rank) + 1;
    push(to);
  }

  void push(State to) {
    const Need need = ranked_.need_of(to.computed);
    to.resident = to.resident & need.useful;
    const std::uint32_t found = look_up(to);
    if (found != kNone && states_[found].extra <= to.extra) return;
    if (n_ <= kEagerNodes && dominated(to)) {
      to.closed = true;  // kept, since it dominates others in turn
      if (found == kNone) {
        states_.push_back(to);
        insert(static_cast<std::uint32_t>(states_.size() - 1));
      } else {
        states_[found] = to;
      }
      return;
    }
    const std::int64_t total = to.extra + ranked_.bound(to.computed, to.resident, need.direct);
    if (total >= limit_) return;
    std::uint32_t index = found;
    if (found == kNone) {
      index = static_cast<std::uint32_t>(states_.size());
      states_.push_back(to);
      insert(index);
    } else {
      states_[found] = to;
    }
    open_.push({total, to.computed.count(), index, to.extra});
  }

  // Whether a known state has one value more at no more cost: everything that follows from this one
  // follows from it, too.
  bool dominated(const State& state) {
    const Set more = ranked_.need_of(state.computed).useful;
    State other = state;
    bool found = false;
    ((more & state.computed) - state.resident).until([&](std::uint32_t r) {
      other.resident = state.resident;
      other.resident.add(r);
      other.stage_last = state.stage_last;
      found = known_at_most(other, state.extra);
      if (!found && state.stage_last > 0) {
        other.stage_last = 0;
        found = known_at_most(other, state.extra);
      }
      return found;
    });
    return found;
  }
  bool known_at_most(const State& state, std::int64_t extra) const {
    const std::uint32_t at = look_up(state);
    return at != kNone && states_[at].extra <= extra;
  }

  static std::uint64_t hash_of(const State& s) {
    std::uint64_t h =
        s.computed.hash() * 31 + s.resident.hash() + s.stage_last * 0x9e3779b97f4a7c15U;
    h *= 0xc4ceb9fe1a85ec53U;
    return h ^ h >> 29;
  }
  std::uint32_t look_up(const State& s) const {
    const std::size_t mask = table_.size() - 1;
    const std::uint64_t hash = hash_of(s);
    for (std::size_t slot = hash & mask;; slot = (slot + 1) & mask) {
      const Slot& at = table_[slot];
      if (at.state == kNone) return kNone;
      if (at.tag != tag_of(hash)) continue;
      const State& other = states_[at.state];
      if (other.resident == s.resident && other.computed == s.computed &&
          other.stage_last == s.stage_last) {
        return at.state;
      }
    }
  }
  void insert(std::uint32_t index) {
    if (states_.size() * 2 > table_.size()) {
      table_.assign(table_.size() * 2, Slot{});
      for (std::uint32_t i = 0; i < index; ++i)
        place(i);
    }
    place(index);
  }
  void place(std::uint32_t index) {
    const std::size_t mask = table_.size() - 1;
    const std::uint64_t hash = hash_of(states_[index]);
    std::size_t slot = hash & mask;
    while (table_[slot].state != kNone)
      slot = (slot + 1) & mask;
    table_[slot] = {index, tag_of(hash)};
  }
  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }

  Schedule trace(std::uint32_t index) const {
    Schedule schedule;
    for (; states_[index].node != kNone; index = states_[index].parent)
      schedule.push_back(ranked_.node(states_[index].node));
    std::reverse(schedule.begin(), schedule.end());
    return schedule;
  }

  const RematProblem& problem_;
  const ExactOptions& options_;
  NodeIndex n_;
  bool fixed_order_;
  bool checkmate_;
  std::int64_t limit_;  // limit of the extra cost, exclusive
  std::uint64_t clock_ = 0;
  bool late_ = false;

  RankedProblem<W> ranked_;
  std::vector<State> states_;
  std::vector<Slot> table_;  // open addressing
  std::priority_queue<Open> open_;
  std::vector<std::uint32_t> members_;  // members of the step being expanded
  std::vector<std::int64_t> suffix_;
};

}  // namespace
}  // namespace exact_search_detail

ExactResult exact_search(const RematProblem& problem, const ExactOptions& options) {
  if (problem.size() > kExactNodes) {
    throw InternalError("the exact search was given a graph that is too large for it");
  }
  if (problem.size() <= 64) return exact_search_detail::ExactSearch<1>(problem, options).run();
  return exact_search_detail::ExactSearch<2>(problem, options).run();
}

}  // namespace tidemark
