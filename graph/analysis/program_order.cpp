#include "graph/analysis/program_order.hpp"

#include <algorithm>

namespace tidemark {

ProgramOrder program_order(const TrainingGraph& graph, int steps) {
  ProgramOrder order;
  order.steps = steps;
  order.micro_batches = graph.micro_batches;
  const std::size_t per_micro_batch =
      graph.forward.size() + graph.backward.size() + graph.backward_accumulate.size();
  order.at.reserve(static_cast<std::size_t>(steps) *
                   (graph.optimizer.size() + graph.optimizer_first.size() + 2 +
                    per_micro_batch * static_cast<std::size_t>(graph.micro_batches)));
  for (int step = 0; step < steps; ++step) {
    const auto run = [&](std::span<const OperatorId> part, int micro_batch) {
      for (OperatorId op : part) {
        order.at.push_back({.op = op,
                            .step = static_cast<std::uint16_t>(step),
                            .micro_batch = static_cast<std::uint16_t>(micro_batch)});
      }
    };
    const bool gradients_exist = graph.gradients_persist && step > 0;
    // Filling gradients with zeros needs gradients.
    if (!graph.gradients_persist || gradients_exist) run(graph.zero_grad, 0);
    for (int m = 0; m < graph.micro_batches; ++m) {
      run(graph.forward, m);
      const bool accumulates = (m > 0 || gradients_exist) && !graph.backward_accumulate.empty();
      run(accumulates ? graph.backward_accumulate : graph.backward, m);
    }
    const int last = graph.micro_batches - 1;
    if (step == 0) run(graph.optimizer_first, last);
    run(graph.optimizer, last);
    run(graph.end_of_step, last);
  }
  return order;
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
  result.at.reserve(order.at.size() + extra);
  IdVector<Position, Position> moved;  // where each position went
  moved.reserve(order.at.size());
  auto next = repeats.begin();
  for (Position p : ids_of(order.at)) {
    for (; next != repeats.end() && next->before == p; ++next) {
      for (const Occurrence& occurrence : next->occurrences)
        result.at.push_back(occurrence);
    }
    moved.push_back(result.at.push_back(order.at[p]));
  }
  result.kept = order.kept;
  for (Kept& kept : result.kept) {
    if (kept.since.valid()) kept.since = moved[kept.since];
    kept.until = moved[kept.until];
  }
  return result;
}

}  // namespace tidemark
