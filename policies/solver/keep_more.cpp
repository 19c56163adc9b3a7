#include "policies/solver/keep_more.hpp"

#include <algorithm>
#include <vector>

#include "policies/remat/schedule_editor.hpp"

namespace tidemark {
namespace keep_more_detail {
namespace {

using Clock = std::chrono::steady_clock;
using Occ = ScheduleEditor::Occ;

// Limit of repeats x length over all passes: each repeat that is tried costs time in proportion to
// the list's length.
constexpr std::size_t kMostWork = 200'000'000;
constexpr int kPasses = 4;

enum class First : std::uint8_t { kMostPerByte, kMost };

class Keeper {
 public:
  Keeper(const RematProblem& problem, std::int64_t budget, const Schedule& schedule,
         Clock::time_point deadline)
      : problem_(problem),
        deadline_(deadline),
        list_(problem, budget, schedule),
        parts_(problem.size()) {
    for (NodeIndex node = 0; node < problem.size(); ++node) {
      // Only parts have a negative workspace.
      if (problem.workspace[node] < 0) parts_[problem.deps[node].front()].push_back(node);
    }
  }

  [[nodiscard]] bool fits() const { return list_.overflow() == 0; }
  [[nodiscard]] std::int64_t cost() const { return list_.cost(); }
  [[nodiscard]] Schedule schedule() const { return list_.schedule(); }

  void run(First first) {
    std::size_t work = 0;
    for (int pass = 0; pass < kPasses; ++pass) {
      const std::vector<Repeat> repeats = ranked(first);
      work += repeats.size() * list_.length();
      bool changed = false;
      for (const Repeat& repeat : repeats) {
        if (late()) break;
        if (!list_.exists(repeat.occ) || list_.is_first(repeat.occ)) continue;
        const std::size_t mark = list_.mark();
        take_out(repeat.occ);
        if (list_.overflow() > 0) {
          list_.undo_to(mark);
        } else {
          changed = true;
        }
      }
      list_.commit();
      if (!changed || work > kMostWork || late()) break;
    }
  }

 private:
  struct Repeat {
    Occ occ;
    double worth;
  };

  [[nodiscard]] bool late() const { return Clock::now() > deadline_; }

  // Returns the repeats that can be taken out alone, the most worth first.
  std::vector<Repeat> ranked(First first) {
    std::vector<Occ> all;
    for (const Occ p : list_.order()) {
      if (!list_.is_first(p)) all.push_back(p);
    }
    std::vector<Repeat> repeats;
    for (const Occ occ : all) {
      if (late()) break;
      const std::size_t mark = list_.mark();
      const std::int64_t before = list_.cost();
      const std::int64_t bytes = std::max<std::int64_t>(problem_.bytes[list_.node(occ)], 1);
      take_out(occ);
      const auto spared = static_cast<double>(before - list_.cost());
      const bool helps = list_.overflow() == 0 && spared > 0;
      list_.undo_to(mark);
      if (!helps) continue;
      repeats.push_back(
          {occ, first == First::kMost ? spared : spared / static_cast<double>(bytes)});
    }
    std::stable_sort(repeats.begin(), repeats.end(),
                     [](const Repeat& a, const Repeat& b) { return a.worth > b.worth; });
    return repeats;
  }

  // Erases a repeat, the parts that were recomputed from it, and all repeats that nobody reads
  // then.
  void take_out(Occ occ) {
    erase_parts(occ);
    stack_.assign(1, occ);
    while (!stack_.empty()) {
      const Occ o = stack_.back();
      stack_.pop_back();
      if (!list_.exists(o) || list_.is_first(o)) continue;
      if (o != occ && !list_.read_by_nobody(o)) continue;
      const std::size_t begin = stack_.size();
      for (const NodeIndex dep : problem_.deps[list_.node(o)])
        stack_.push_back(list_.copy_before(dep, o));
      std::reverse(stack_.begin() + static_cast<std::ptrdiff_t>(begin), stack_.end());
      list_.erase(o);
    }
  }
  void erase_parts(Occ occ) {
    for (const NodeIndex part : parts_[list_.node(occ)]) {
      std::vector<Occ> made;
      for (const Occ copy : list_.copies(part)) {
        if (!list_.is_first(copy) && list_.copy_before(list_.node(occ), copy) == occ)
          made.push_back(copy);
      }
      for (const Occ copy : made) {
        erase_parts(copy);
        list_.erase(copy);
      }
    }
  }

  const RematProblem& problem_;
  Clock::time_point deadline_;
  ScheduleEditor list_;
  std::vector<std::vector<NodeIndex>> parts_;  // by node: the nodes that are parts of its output
  std::vector<Occ> stack_;
};

}  // namespace
}  // namespace keep_more_detail

Schedule keep_more(const RematProblem& problem, std::int64_t budget, const Schedule& schedule,
                   std::chrono::steady_clock::time_point deadline) {
  using keep_more_detail::First;
  keep_more_detail::Keeper per_byte(problem, budget, schedule, deadline);
  if (!per_byte.fits() || schedule.size() == problem.size()) return schedule;
  per_byte.run(First::kMostPerByte);
  keep_more_detail::Keeper most(problem, budget, schedule, deadline);
  most.run(First::kMost);
  return (most.cost() < per_byte.cost() ? most : per_byte).schedule();
}

}  // namespace tidemark
