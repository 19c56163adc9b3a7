#include "sim/step/arrivals.hpp"

#include <algorithm>

namespace tidemark {

std::vector<Arrival> arrivals_of(const StepProgram& program, const Scratch& scratch) {
  std::vector<Arrival> arrivals;
  for (const Message& message : program.messages) {
    const std::int64_t ended = scratch.finished[message.instruction];
    if (!message.sends && ended >= 0) arrivals.push_back({message.instruction, Duration(ended)});
  }
  return arrivals;
}

std::vector<Arrival> arrivals_at_once(const StepProgram& program) {
  std::vector<Arrival> arrivals;
  for (const Message& message : program.messages) {
    if (!message.sends) arrivals.push_back({message.instruction, Duration(0)});
  }
  return arrivals;
}

ArrivalsByStep arrivals_by_step(std::span<const Arrival> arrivals, const StepProgram& program,
                                const ProgramOrder& order) {
  ArrivalsByStep steps(static_cast<std::size_t>(order.steps));
  for (const Arrival& arrival : arrivals)
    steps[order.at[program.position[arrival.receive]].step].push_back(arrival.at);
  return steps;
}

std::vector<Arrival> repeated_arrivals(const ArrivalsByStep& known, const StepProgram& program,
                                       const ProgramOrder& order) {
  std::vector<Arrival> arrivals;
  if (known.empty() || known.back().empty()) return arrivals;
  const std::vector<Duration>& last = known.back();
  const bool repeats = known.size() > 1 && known[known.size() - 2].size() == last.size();
  const Duration period = repeats ? last.back() - known[known.size() - 2].back() : last.back();
  std::vector<std::size_t> next(static_cast<std::size_t>(order.steps), 0);
  for (const Message& message : program.messages) {
    if (message.sends) continue;
    const std::size_t step = order.at[program.position[message.instruction]].step;
    const std::vector<Duration>& times = known[std::min(step, known.size() - 1)];
    const std::size_t index = std::min(next[step]++, times.size() - 1);
    const auto periods = static_cast<std::int64_t>(step - std::min(step, known.size() - 1));
    arrivals.push_back({message.instruction, times[index] + periods * period});
  }
  return arrivals;
}

}  // namespace tidemark
