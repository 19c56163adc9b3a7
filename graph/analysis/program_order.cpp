#include "graph/analysis/program_order.hpp"

#include <algorithm>

namespace tidemark {

namespace program_order_detail {
namespace {

// Returns, by micro-batch, the lowest number that no other micro-batch in flight has.
std::vector<std::uint16_t> number_in_flight(const std::vector<ScheduledPart>& parts,
                                            int micro_batches) {
  std::vector<std::size_t> last(static_cast<std::size_t>(micro_batches), 0);
  for (std::size_t i = 0; i < parts.size(); ++i)
    last[parts[i].micro_batch] = i;
  std::vector<std::uint16_t> numbers(static_cast<std::size_t>(micro_batches), 0);
  std::vector<char> begun(numbers.size(), 0);
  std::vector<char> taken;  // by number
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t m = parts[i].micro_batch;
    if (begun[m] == 0) {
      const auto free = std::find(taken.begin(), taken.end(), 0);
      numbers[m] = static_cast<std::uint16_t>(free - taken.begin());
      if (free == taken.end()) {
        taken.push_back(1);
      } else {
        *free = 1;
      }
      begun[m] = 1;
    }
    if (last[m] == i) taken[numbers[m]] = 0;
  }
  return numbers;
}

}  // namespace
}  // namespace program_order_detail

ProgramOrder program_order(const TrainingGraph& graph, const StepSchedule& schedule, int steps) {
  ProgramOrder order;
  order.steps = steps;
  order.micro_batches = schedule.micro_batches;
  std::size_t per_step = 0;
  for (const ScheduledPart& part : schedule.first_step)
    per_step += graph.part(part.part, part.chunk).size();
  order.at.reserve(per_step * static_cast<std::size_t>(steps));
  for (int step = 0; step < steps; ++step) {
    const std::vector<ScheduledPart>& parts = schedule.of(step);
    const std::vector<std::uint16_t> numbers =
        program_order_detail::number_in_flight(parts, schedule.micro_batches);
    for (std::uint16_t number : numbers)
      order.in_flight = std::max(order.in_flight, number + 1);
    for (const ScheduledPart& part : parts) {
      for (OperatorId op : graph.part(part.part, part.chunk)) {
        order.at.push_back({.op = op,
                            .step = static_cast<std::uint16_t>(step),
                            .micro_batch = part.micro_batch,
                            .instance = numbers[part.micro_batch]});
      }
    }
  }
  return order;
}

ProgramOrder program_order(const TrainingGraph& graph, int steps) {
  return program_order(graph, training_schedule(graph), steps);
}

ProgramOrder insert_repeats(const ProgramOrder& order, std::vector<Repeat> repeats) {
  std::stable_sort(repeats.begin(), repeats.end(),
                   [](const Repeat& a, const Repeat& b) { return a.before < b.before; });
  std::size_t extra = 0;
  for (const Repeat& repeat : repeats)
    extra += repeat.occurrences.size();
  ProgramOrder result;
  result.steps = order.steps;
  result.micro_batches = order.micro_batches;
  result.in_flight = order.in_flight;
  result.at.reserve(order.at.size() + extra);
  IdVector<Position, Position> moved;  // new place of each position
  moved.reserve(order.at.size());
  std::vector<Kept> held;
  auto next = repeats.begin();
  for (Position p : ids_of(order.at)) {
    for (; next != repeats.end() && next->before == p; ++next) {
      const Position first(static_cast<std::uint32_t>(result.at.size()));
      Position last;
      for (const Occurrence& occurrence : next->occurrences)
        last = result.at.push_back(occurrence);
      if (next->held > Bytes(0) && last.valid())
        held.push_back({.storage = {}, .bytes = next->held, .since = first, .until = last});
    }
    moved.push_back(result.at.push_back(order.at[p]));
  }
  result.kept = order.kept;
  for (Kept& kept : result.kept) {
    if (kept.since.valid()) kept.since = moved[kept.since];
    kept.until = moved[kept.until];
  }
  result.kept.insert(result.kept.end(), held.begin(), held.end());
  return result;
}

}  // namespace tidemark
