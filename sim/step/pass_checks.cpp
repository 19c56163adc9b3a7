#include "sim/step/pass_checks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace pass_checks_detail {
namespace {

// Returns how often each operator runs in all steps of a schedule.
IdVector<OperatorId, std::uint32_t> scheduled_runs(const TrainingGraph& graph,
                                                   const StepSchedule& schedule, int steps) {
  IdVector<OperatorId, std::uint32_t> runs(graph.operators.size(), 0);
  const auto add = [&](const std::vector<ScheduledPart>& parts, std::uint32_t times) {
    for (const ScheduledPart& part : parts) {
      for (const OperatorId op : graph.part(part.part, part.chunk))
        runs[op] += times;
    }
  };
  for (int step = 0; step < steps; ++step)
    add(schedule.of(step), 1);
  return runs;
}

[[noreturn]] void fail_touch(const TrainingGraph& graph, OperatorId op, Position p,
                             StorageId storage, const char* problem) {
  throw InternalError(fmt::format("operator '{}' at position {} touches '{}' {}",
                                  graph.describe(op), p.value, graph.storages[storage].name,
                                  problem));
}

// Whether a touch opens a gap without fault that continues the one before it, as nearly all do.
bool continues(std::span<const Gap> gaps, GapId id, Touch touch, Position p) {
  if (id.index() == 0 || id.index() >= gaps.size()) return false;
  const Gap& gap = gaps[id.index()];
  return gap.storage == touch.storage && gap.from == p && gap.release >= p &&
         gap.release <= gap.to && gaps[id.index() - 1].to == p;
}

// Returns what is wrong with the gap that a touch opens; null when nothing is. Ids that are invalid
// are larger than all others.
const char* fault_of(const TrainingGraph& graph, const Liveness& live, GapId id, Touch touch,
                     Position p) {
  if (id.index() >= live.gaps.size()) return "outside of every interval";
  const Gap& gap = live.gaps[id];
  if (gap.storage != touch.storage || gap.from != p) return "in an interval that begins elsewhere";
  if (gap.release < gap.from) return "in an interval that is released before it begins";
  if (gap.to < gap.release) return "in an interval that ends too early";
  const Position before = id.index() == 0 ? Position() : live.gaps[GapId(id.value - 1)].to;
  if (before == p) return nullptr;
  if (before.valid()) return "behind an interval that ends elsewhere";
  const bool exists = touch.access == Access::kCreate || graph.storages[touch.storage].initial;
  return exists ? nullptr : "before any operator has created it";
}

// The values in the allocations of a program, numbered in the order in which they are written.
class Values {
 public:
  explicit Values(const StepProgram& program)
      : program_(program), held_(program.allocations.size(), 0) {}

  // Goes on to the next launch or copy, past what is allocated and freed on the way; false at the
  // end.
  bool next() {
    for (++at_; at_ < program_.size(); ++at_) {
      const Opcode opcode = program_.opcode[at_];
      if (!program_.uses_of(at_).empty()) return true;
      const AllocationId subject(program_.subject[at_]);
      // memory that exists from the start holds the value with its own number
      if (opcode == Opcode::kAllocate) held_[subject] = subject.value + 1;
      if (opcode == Opcode::kFree) held_[subject] = 0;
    }
    return false;
  }
  // Returns the values that it reads; 0 for memory that is not allocated.
  [[nodiscard]] std::vector<std::uint64_t> reads() const {
    std::vector<std::uint64_t> values;
    for (AllocationUse use : program_.uses_of(at_)) {
      const bool reads = use.access() == Access::kRead || use.access() == Access::kMutate;
      if (reads) values.push_back(held_[use.allocation()]);
    }
    return values;
  }
  // Gives what it writes the numbers behind `last`; returns the last one.
  std::uint64_t write(std::uint64_t last) {
    for (AllocationUse use : program_.uses_of(at_)) {
      if (use.access() != Access::kRead) held_[use.allocation()] = ++last;
    }
    return last;
  }
  [[nodiscard]] std::size_t at() const { return at_; }

 private:
  const StepProgram& program_;
  IdVector<AllocationId, std::uint64_t> held_;
  std::size_t at_ = static_cast<std::size_t>(-1);
};

void check_duration(const TrainingGraph& graph, OperatorId op, const char* what, Duration value) {
  if (value >= Duration(0)) return;
  throw InternalError(fmt::format("operator '{}' has a negative {}: {} ns", graph.describe(op),
                                  what, value.count()));
}

void check_rate(const char* what, double value) {
  if (std::isfinite(value) && value >= 0) return;
  throw InternalError(fmt::format("{} is {}", what, value));
}

}  // namespace
}  // namespace pass_checks_detail

void check_scheduled(const TrainingGraph& graph, const StepSchedule& schedule,
                     const ProgramOrder& order) {
  IdVector<OperatorId, std::uint32_t> runs(graph.operators.size(), 0);
  for (const Occurrence& occurrence : order.at)
    ++runs[occurrence.op];
  const IdVector<OperatorId, std::uint32_t> scheduled =
      pass_checks_detail::scheduled_runs(graph, schedule, order.steps);
  for (const OperatorId op : ids_of(graph.operators)) {
    if (runs[op] == scheduled[op]) continue;
    throw InternalError(fmt::format("operator '{}' occurs {} times; its schedule says {}",
                                    graph.describe(op), runs[op], scheduled[op]));
  }
}

void check_liveness(const TrainingGraph& graph, const ProgramOrder& order, const Liveness& live) {
  const std::span<const Gap> gaps(live.gaps.data(), live.gaps.size());
  for (const Position p : ids_of(order.at)) {
    const Occurrence& occurrence = order.at[p];
    const std::span<const Touch> touches = graph.touches_of(occurrence.op);
    const GapId* const after = live.gap_after.data() + live.first_touch[p];
    for (std::size_t i = 0; i < touches.size(); ++i) {
      if (pass_checks_detail::continues(gaps, after[i], touches[i], p)) continue;
      if (is_scratch(occurrence, i)) continue;
      const char* fault = pass_checks_detail::fault_of(graph, live, after[i], touches[i], p);
      if (fault != nullptr) {
        pass_checks_detail::fail_touch(graph, occurrence.op, p, touches[i].storage, fault);
      }
    }
  }
}

void check_time(const TrainingGraph& graph, const CostTable& costs, int steps) {
  const auto real = [](Duration duration) { return static_cast<double>(duration.count()); };
  double nanoseconds = 0;
  for (const OperatorId op : ids_of(graph.operators))
    nanoseconds += real(costs.device[op]) + real(costs.dispatch[op]);
  const double around = 2 * real(costs.synchronize) + real(costs.device_malloc) +
                        real(costs.device_free) + real(costs.copy_dispatch);
  double bytes = 0;
  for (const Storage& storage : graph.storages)
    bytes += static_cast<double>(storage.bytes.count);
  for (const CostTable::Link* link :
       {&costs.copy_out, &costs.copy_in, &costs.nvme_read, &costs.nvme_write}) {
    nanoseconds += bytes * std::max(link->ns_per_byte_alone, link->ns_per_byte_duplex) +
                   static_cast<double>(graph.storages.size()) * real(link->latency);
  }
  nanoseconds += bytes * costs.page_locking_ns_per_byte;
  nanoseconds += static_cast<double>(graph.operators.size() + graph.storages.size()) * around;
  nanoseconds *= static_cast<double>(steps) * graph.micro_batches;
  constexpr double kYear = 365.25 * 24 * 3600 * 1e9;
  constexpr double kMost =
      4.0 * static_cast<double>(kLargestQuantity);  // half of what 64 bits hold
  if (nanoseconds <= kMost) return;
  throw UserError({}, "hardware",
                  fmt::format("on this device {} steps may take {:.3g} years, more than can be "
                              "counted in nanoseconds; are its rates and times in the units that "
                              "are meant?",
                              steps, nanoseconds / kYear));
}

void check_prices(const TrainingGraph& graph, const CostTable& costs) {
  if (costs.device.size() != graph.operators.size() ||
      costs.dispatch.size() != graph.operators.size()) {
    throw InternalError(fmt::format("{} operators have {} prices on the device and {} on the host",
                                    graph.operators.size(), costs.device.size(),
                                    costs.dispatch.size()));
  }
  std::int64_t total = 0;
  for (const OperatorId op : ids_of(graph.operators)) {
    pass_checks_detail::check_duration(graph, op, "time on the device", costs.device[op]);
    pass_checks_detail::check_duration(graph, op, "time to dispatch", costs.dispatch[op]);
    if (!checked_add(total, costs.device[op].count(), total) ||
        !checked_add(total, costs.dispatch[op].count(), total)) {
      throw InternalError(fmt::format(
          "the operators up to '{}' take more nanoseconds than 63 bits hold", graph.describe(op)));
    }
  }
  for (const CostTable::Link* link :
       {&costs.copy_out, &costs.copy_in, &costs.nvme_read, &costs.nvme_write}) {
    pass_checks_detail::check_rate("the time of a copied byte", link->ns_per_byte_alone);
    pass_checks_detail::check_rate("the time of a copied byte", link->ns_per_byte_duplex);
  }
}

void check_copies(const StepProgram& program, const StepProgram& copied) {
  pass_checks_detail::Values before(program);
  pass_checks_detail::Values after(copied);
  std::uint64_t values = copied.allocations.size();
  while (before.next()) {
    if (!after.next()) throw InternalError("copies on write lose the end of the program");
    const std::vector<std::uint64_t> reads = after.reads();
    const bool same = program.subject[before.at()] == copied.subject[after.at()] &&
                      reads == before.reads() && std::count(reads.begin(), reads.end(), 0U) == 0;
    if (!same) {
      throw InternalError(
          fmt::format("instruction {} reads other values after copies on write", before.at()));
    }
    const std::uint64_t last = before.write(values);
    if (after.write(values) != last) {
      throw InternalError(
          fmt::format("instruction {} writes other values after copies on write", before.at()));
    }
    values = last;
  }
}

}  // namespace tidemark
