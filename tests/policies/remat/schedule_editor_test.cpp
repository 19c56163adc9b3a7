#include "policies/remat/schedule_editor.hpp"

#include <doctest/doctest.h>

#include "tests/policies/remat/remat_cases.hpp"

namespace tidemark::schedule_editor_test {

using namespace tidemark::testing;

namespace {

// Bytes during every computation, counted anew.
std::vector<std::int64_t> memory_of(const RematProblem& problem, const Schedule& schedule) {
  std::vector<std::size_t> newest(problem.size());
  std::vector<std::size_t> end(schedule.size());
  for (std::size_t p = 0; p < schedule.size(); ++p) {
    end[p] = p;
    for (const NodeIndex dep : problem.deps[schedule[p]])
      end[newest[dep]] = p;
    newest[schedule[p]] = p;
  }
  std::vector<std::int64_t> memory;
  for (std::size_t p = 0; p < schedule.size(); ++p) {
    std::int64_t bytes = problem.fixed + problem.workspace[schedule[p]];
    for (std::size_t q = 0; q <= p; ++q)
      bytes += end[q] >= p ? problem.bytes[schedule[q]] : 0;
    memory.push_back(bytes);
  }
  return memory;
}

void check_memory(const RematProblem& problem, const ScheduleEditor& list, std::int64_t budget) {
  const Schedule schedule = list.schedule();
  const std::vector<std::int64_t> memory = memory_of(problem, schedule);
  std::size_t p = 0;
  std::int64_t overflow = 0;
  std::vector<ScheduleEditor::Occ> newest(problem.size(), ScheduleEditor::kNone);
  for (const ScheduleEditor::Occ occ : list.order()) {
    const NodeIndex node = list.node(occ);
    REQUIRE(list.memory(occ) == memory[p]);
    REQUIRE(list.is_first(occ) == (newest[node] == ScheduleEditor::kNone));
    if (list.is_first(occ)) CHECK(list.first(node) == occ);
    for (NodeIndex other = 0; other < problem.size(); ++other)
      REQUIRE(list.copy_before(other, occ) == newest[other]);
    newest[node] = occ;
    overflow += memory[p] > budget ? 1 + memory[p] - budget : 0;
    ++p;
  }
  REQUIRE(list.length() == schedule.size());
  CHECK(list.overflow() == overflow);
  CHECK(list.cost() == evaluate(problem, schedule).cost);
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("memory along an edited schedule is that of its evaluation, and edits can be undone") {
    std::mt19937_64 rng(13);
    for (int round = 0; round < 30; ++round) {
      const RematProblem problem = random_problem(rng, 12, round % 2 == 0);
      Schedule once(problem.size());
      std::iota(once.begin(), once.end(), NodeIndex{0});
      // A repeat may be last: it is taken out and put back as any other.
      if (round % 3 == 0) once.push_back(static_cast<NodeIndex>(rng() % problem.size()));
      const std::int64_t budget = peak_without_repeats(problem) * 2 / 3;
      ScheduleEditor list(problem, budget, once);
      check_memory(problem, list, budget);
      for (int step = 0; step < 60; ++step) {
        const Schedule before = list.schedule();
        const std::size_t mark = list.mark();
        for (int edit = 0; edit < 3; ++edit) {
          const auto at = list.order()[1 + rng() % (list.length() - 1)];
          if (!list.is_first(at) && rng() % 2 == 0) {
            list.erase(at);
          } else {
            const auto node = static_cast<NodeIndex>(rng() % problem.size());
            if (list.copy_before(node, at) != ScheduleEditor::kNone) list.insert(node, at);
          }
        }
        check_memory(problem, list, budget);
        if (rng() % 2 == 0) {
          list.undo_to(mark);
          CHECK(list.schedule() == before);
          check_memory(problem, list, budget);
        } else {
          list.commit();
        }
      }
    }
  }
}

}  // namespace tidemark::schedule_editor_test
