#include "scenarios/results/time_terms.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include "graph/analysis/module_names.hpp"
#include "scenarios/results/peak_terms.hpp"

namespace tidemark {
namespace time_terms_detail {
namespace {

void add(TimeTerm& to, const TimeTerm& term) {
  to.count += term.count;
  to.forward += term.forward;
  to.backward += term.backward;
  to.optimizer += term.optimizer;
  to.recompute += term.recompute;
  to.work += term.work;
}

// Sums of kernels by a name.
class Sums {
 public:
  void add_to(std::string_view name, const TimeTerm& term) {
    const auto [entry, added] = index_.try_emplace(std::string(name), terms_.size());
    if (added) terms_.push_back({.name = std::string(name)});
    add(terms_[entry->second], term);
  }
  [[nodiscard]] std::vector<TimeTerm> sorted() && {
    std::stable_sort(terms_.begin(), terms_.end(),
                     [](const TimeTerm& a, const TimeTerm& b) { return a.total() > b.total(); });
    return std::move(terms_);
  }

 private:
  std::map<std::string, std::size_t> index_;
  std::vector<TimeTerm> terms_;
};

// Returns the kernels of the last step by operator.
IdVector<OperatorId, TimeTerm> by_operator_id(const PointDetail& detail) {
  const StepProgram& program = detail.compiled.program;
  const Scratch& scratch = detail.scratch;
  const TrainingGraph& graph = detail.model->training;
  const CostTable& costs = detail.compiled.costs;
  IdVector<OperatorId, TimeTerm> terms(graph.operators.size());
  for_each_kernel(program, scratch, [&](OperatorId id, const Slot& slot, Duration duration) {
    TimeTerm& term = terms[id];
    Duration* const of_phase[] = {&term.forward, &term.backward, &term.optimizer};
    Duration& own = slot.recompute ? term.recompute : *of_phase[static_cast<int>(slot.phase)];
    own += duration;
    term.work.add(graph.operators[id], bound_of(costs, id), duration);
    ++term.count;
  });
  for (std::size_t i = 0; i < scratch.restored.size(); ++i) {
    // With eviction a launch first recomputes what it reads.
    const bool compute = program.stream[i] == static_cast<std::uint8_t>(Stream::kCompute);
    if (program.opcode[i] != Opcode::kLaunch || !compute || scratch.finished[i] < 0) continue;
    if (!program.slot[program.position[i].index()].last_step) continue;
    terms[OperatorId(program.subject[i])].recompute += Duration(scratch.restored[i]);
  }
  return terms;
}

}  // namespace
}  // namespace time_terms_detail

TimeTerms time_terms(const PointResult& point, const PointDetail& detail) {
  const TrainingGraph& graph = detail.model->training;
  const ModuleNames modules(graph);
  const IdVector<OperatorId, TimeTerm> by_id = time_terms_detail::by_operator_id(detail);
  time_terms_detail::Sums by_operator;
  time_terms_detail::Sums by_module;
  time_terms_detail::Sums by_pattern;
  TimeTerms terms{.step = point.run.step};
  for (const OperatorId op : ids_of(by_id)) {
    const TimeTerm& term = by_id[op];
    if (term.count == 0) continue;
    by_operator.add_to(graph.operators[op].name, term);
    by_module.add_to(modules.of(op), term);
    by_pattern.add_to(pattern_of(std::string(modules.of(op))), term);
    terms.busy += term.total();
  }
  terms.by_operator = std::move(by_operator).sorted();
  terms.by_module = std::move(by_module).sorted();
  terms.by_pattern = std::move(by_pattern).sorted();
  return terms;
}

}  // namespace tidemark
