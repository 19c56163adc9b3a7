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
  IdVector<OperatorId, TimeTerm> terms(detail.model->training.operators.size());
  for (std::size_t i = 0; i < program.size(); ++i) {
    const bool compute = program.stream[i] == static_cast<std::uint8_t>(Stream::kCompute);
    if (program.opcode[i] != Opcode::kLaunch || !compute || scratch.finished[i] < 0) continue;
    const Slot& slot = program.slot[program.position[i].index()];
    if (!slot.last_step) continue;
    // With eviction a launch first recomputes what it reads.
    const Duration restored(scratch.restored.empty() ? 0 : scratch.restored[i]);
    TimeTerm& term = terms[OperatorId(program.subject[i])];
    Duration* const of_phase[] = {&term.forward, &term.backward, &term.optimizer};
    Duration& own = slot.recompute ? term.recompute : *of_phase[static_cast<int>(slot.phase)];
    own += Duration(scratch.finished[i] - scratch.started[i]) - restored;
    term.recompute += restored;
    ++term.count;
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
