#include "sim/engine/eviction.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/engine/content_check.hpp"

namespace tidemark {
namespace eviction_detail {
namespace {

constexpr std::uint32_t kNever = Id<void>::kNone;

bool runs_on_compute(const StepProgram& program, std::uint32_t i) {
  return program.opcode[i] == Opcode::kLaunch &&
         program.stream[i] == static_cast<std::uint8_t>(Stream::kCompute);
}

// Instructions at which something is there, in ascending order; `until` is the first one after.
struct Window {
  std::uint32_t from = 0;
  std::uint32_t until = kNever;
};
using Windows = std::vector<Window>;

// A recipe that reads parameters which many micro-batches gather has a window in each of them.
constexpr std::size_t kMostWindows = 16;

Windows common(const Windows& a, const Windows& b) {
  Windows both;
  for (std::size_t i = 0, k = 0; i < a.size() && k < b.size() && both.size() < kMostWindows;) {
    const Window window{std::max(a[i].from, b[k].from), std::min(a[i].until, b[k].until)};
    if (window.from < window.until) both.push_back(window);
    a[i].until < b[k].until ? ++i : ++k;
  }
  return both;
}

Windows either(Windows windows, Window other) {
  windows.push_back(other);
  std::sort(windows.begin(), windows.end(),
            [](const Window& a, const Window& b) { return a.from < b.from; });
  Windows merged;
  for (const Window& window : windows) {
    if (!merged.empty() && window.from <= merged.back().until) {
      merged.back().until = std::max(merged.back().until, window.until);
    } else {
      merged.push_back(window);
    }
  }
  return merged;
}

bool contains(const Windows& windows, std::uint32_t at) {
  return std::any_of(windows.begin(), windows.end(),
                     [at](const Window& w) { return w.from <= at && at < w.until; });
}

class FactFinder {
 public:
  FactFinder(const StepProgram& program, EvictionFacts& facts)
      : program_(program),
        facts_(facts),
        writes_(program.allocations.size()),
        uses_(program.allocations.size()),
        first_computed_(program.allocations.size(), kNever),
        valid_(program.allocations.size()),
        elsewhere_(program.allocations.size(), 0),
        freed_(program.allocations.size(), 0) {}

  void run() {
    index_uses();
    find_twins();
    for (std::uint32_t i = 0; i < program_.size(); ++i) {
      if (runs_on_compute(program_, i)) judge(i);
    }
  }

 private:
  void index_uses() {
    for (std::uint32_t i = 0; i < program_.size(); ++i) {
      if (program_.opcode[i] == Opcode::kFree) freed_[program_.subject[i]] = 1;
      const bool on_compute = runs_on_compute(program_, i);
      const bool launches = program_.opcode[i] == Opcode::kLaunch;
      if (launches && is_communication(static_cast<Stream>(program_.stream[i])))
        communicates_ = true;
      for (AllocationUse use : program_.uses_of(i)) {
        const std::size_t b = use.allocation().index();
        uses_[b].push_back(i);
        if (!on_compute) elsewhere_[b] = 1;
        if (on_compute) first_computed_[b] = std::min(first_computed_[b], i);
        if (use.access() == Access::kRead) continue;
        writes_[b].push_back(i);
        if (facts_.producer[b] == kNever && on_compute) facts_.producer[b] = i;
      }
    }
  }

  // Parameters that are gathered twice have the same content as long as their shards do.
  void find_twins() {
    const bool gathers =
        std::any_of(program_.allocations.begin(), program_.allocations.end(),
                    [](const Allocation& a) { return a.role == Role::kGatheredParameter; });
    if (!gathers) return;
    ContentCheck contents(program_);
    for (std::uint32_t i = 0; i < program_.size(); ++i) {
      if (program_.uses_of(i).empty()) continue;
      contents.execute(i);
      for (AllocationUse use : program_.uses_of(i)) {
        const AllocationId id = use.allocation();
        const Allocation& allocation = program_.allocations[id];
        if (use.access() != Access::kCreate || allocation.role != Role::kGatheredParameter ||
            !allocation.storage.valid() || writes_[id.index()].size() != 1)
          continue;
        const std::pair<StorageId, std::uint64_t> key{allocation.storage, contents.expected(id)};
        twins_[key].push_back(id);
        twin_key_.try_emplace(id, key);
      }
    }
  }

  // Returns where an input of `launch` that cannot be recomputed itself is there, with the content
  // that it has now.
  [[nodiscard]] Windows resident(AllocationId id, std::uint32_t launch) const {
    const std::size_t b = id.index();
    if (const auto key = twin_key_.find(id); key != twin_key_.end()) return gathered(key->second);
    // Memory that is never freed and that exists from the start must not change.
    const Role role = program_.allocations[id].role;
    const bool stays = is_parameter(role) || role == Role::kBuffer || role == Role::kInput ||
                       role == Role::kTeacher;
    const auto next = std::upper_bound(writes_[b].begin(), writes_[b].end(), launch);
    const std::uint32_t written = next == writes_[b].end() ? kNever : *next;
    if (stays && freed_[b] == 0) return {{launch, written}};
    if (!communicates_) return {};
    return {{launch, std::min(written, uses_[b].back() + 1)}};
  }

  // Compute may read it behind its first operator that has waited for the gather.
  [[nodiscard]] Windows gathered(const std::pair<StorageId, std::uint64_t>& key) const {
    Windows windows;
    for (const AllocationId twin : twins_.at(key)) {
      const std::uint32_t first = first_computed_[twin.index()];
      if (first != kNever) windows.push_back({first, uses_[twin.index()].back() + 1});
    }
    return windows;
  }

  // Returns where an input of `launch` is there or can be recomputed.
  [[nodiscard]] Windows valid(AllocationId id, std::uint32_t launch) const {
    const std::size_t b = id.index();
    if (facts_.restorable[b] == 0) return resident(id, launch);
    if (facts_.evictable[b] != 0 || !communicates_) return valid_[b];
    return either(valid_[b], {writes_[b].front(), uses_[b].back() + 1});
  }

  void judge(std::uint32_t launch) {
    Windows windows{{launch, kNever}};
    for (AllocationUse use : program_.uses_of(launch)) {
      const std::size_t b = use.allocation().index();
      switch (use.access()) {
        case Access::kRead:
          windows = common(windows, valid(use.allocation(), launch));
          break;
        case Access::kCreate:
          if (writes_[b].size() != 1 || elsewhere_[b] != 0) return;
          break;
        default:
          return;
      }
    }
    if (windows.empty() || windows.back().until <= launch + 1) return;
    for (AllocationUse use : program_.uses_of(launch)) {
      const Allocation& allocation = program_.allocations[use.allocation()];
      const bool temporary =
          allocation.storage.valid() &&
          (allocation.role == Role::kSavedActivation || allocation.role == Role::kTemporary ||
           allocation.role == Role::kActivationGradient);
      if (use.access() != Access::kCreate || !temporary) continue;
      const std::size_t b = use.allocation().index();
      facts_.restorable[b] = 1;
      valid_[b] = windows;
      facts_.evictable[b] = std::all_of(uses_[b].begin(), uses_[b].end(),
                                        [&](std::uint32_t at) { return contains(windows, at); })
                                ? 1
                                : 0;
      for (AllocationUse input : program_.uses_of(launch)) {
        if (input.access() == Access::kRead && facts_.restorable[input.allocation().index()] != 0) {
          facts_.recipes.push_back({launch, input.allocation(), use.allocation()});
        }
      }
    }
  }

  const StepProgram& program_;
  EvictionFacts& facts_;
  // by allocation: the launches and copies that write it, and those that touch it
  std::vector<std::vector<std::uint32_t>> writes_;
  std::vector<std::vector<std::uint32_t>> uses_;
  std::vector<std::uint32_t> first_computed_;  // by allocation: the first launch on compute
  std::vector<Windows> valid_;   // by restorable allocation: where its recipe gives its content
  std::vector<char> elsewhere_;  // touched by a copy or another stream
  std::vector<char> freed_;
  // Other ranks take part. The recipes of a GPU alone go back to memory that is never freed.
  bool communicates_ = false;
  std::map<std::pair<StorageId, std::uint64_t>, std::vector<AllocationId>> twins_;
  std::map<AllocationId, std::pair<StorageId, std::uint64_t>> twin_key_;
};

EvictionFacts facts_without_costs(const StepProgram& program) {
  const std::size_t allocations = program.allocations.size();
  EvictionFacts facts{.producer = std::vector<std::uint32_t>(allocations, kNever),
                      .evictable = std::vector<char>(allocations, 0),
                      .restorable = std::vector<char>(allocations, 0),
                      .cost = std::vector<Duration>(allocations),
                      .recipes = {},
                      .next_launch = std::vector<std::uint32_t>(program.size(), kNever)};
  FactFinder(program, facts).run();
  return facts;
}

}  // namespace
}  // namespace eviction_detail

std::vector<std::uint32_t> producers(const StepProgram& program) {
  return eviction_detail::facts_without_costs(program).producer;
}

EvictionFacts eviction_facts(const StepProgram& program, const CostTable& costs) {
  const std::size_t allocations = program.allocations.size();
  EvictionFacts facts = eviction_detail::facts_without_costs(program);
  for (std::size_t b = 0; b < allocations; ++b) {
    if (facts.producer[b] == eviction_detail::kNever) continue;
    facts.cost[b] = costs.device[OperatorId(program.subject[facts.producer[b]])];
  }
  std::uint32_t next = eviction_detail::kNever;
  for (std::size_t i = program.size(); i-- > 0;) {
    if (program.opcode[i] == Opcode::kLaunch) next = static_cast<std::uint32_t>(i);
    facts.next_launch[i] = next;
    if (eviction_detail::runs_on_compute(program, static_cast<std::uint32_t>(i))) {
      facts.compute += costs.device[OperatorId(program.subject[i])];
    }
  }
  return facts;
}

}  // namespace tidemark
