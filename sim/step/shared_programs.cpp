#include "sim/step/shared_programs.hpp"

#include <algorithm>
#include <variant>

#include "sim/program/program_sizes.hpp"

namespace tidemark {
namespace shared_programs_detail {
namespace {

bool same_occurrence(const Occurrence& a, const Occurrence& b) {
  return a.op == b.op && a.step == b.step && a.micro_batch == b.micro_batch &&
         a.recompute == b.recompute && a.in_hooks == b.in_hooks && a.instance == b.instance &&
         a.scratch == b.scratch;
}

bool same_kept(const Kept& a, const Kept& b) {
  return a.storage == b.storage && a.bytes == b.bytes && a.since == b.since && a.until == b.until;
}

bool same_order(const ProgramOrder& a, const ProgramOrder& b) {
  return a.steps == b.steps && a.micro_batches == b.micro_batches && a.in_flight == b.in_flight &&
         std::equal(a.at.begin(), a.at.end(), b.at.begin(), b.at.end(), same_occurrence) &&
         std::equal(a.kept.begin(), a.kept.end(), b.kept.begin(), b.kept.end(), same_kept);
}

bool same_throttle(const Throttle& a, const Throttle& b) {
  return a.stream == b.stream && a.in_flight == b.in_flight && a.waits == b.waits &&
         a.counts_freed_units == b.counts_freed_units;
}

// Why a gap is kept, and which group recomputes a value, is nothing that lowering looks at.
bool same_decision(const Decision& a, const Decision& b) {
  if (a.index() != b.index()) return false;
  const auto* offload = std::get_if<Offload>(&a);
  if (offload == nullptr) return true;
  const auto& other = std::get<Offload>(b);
  return offload->fetch_at == other.fetch_at && offload->release_at == other.release_at &&
         offload->tier == other.tier && offload->copy_at == other.copy_at &&
         offload->compressed == other.compressed;
}

bool is_compressed(const Decision& decision) {
  const auto* offload = std::get_if<Offload>(&decision);
  return offload != nullptr && offload->compressed != Bytes(0);
}

bool is_decided(const Decision& decision) {
  return !std::holds_alternative<std::monostate>(decision);
}

// Whether the sizes of a program are those that take_sizes() gives it.
bool sizes_follow(const StepProgram& program, const TrainingGraph& graph, const ProgramOrder& order,
                  const LibraryWorkspaces& libraries, StepProgram& sized) {
  take_sizes(sized, graph, order, libraries);
  const auto same_bytes = [](const auto& a, const auto& b) { return a.bytes == b.bytes; };
  return std::equal(program.allocations.begin(), program.allocations.end(),
                    sized.allocations.begin(), same_bytes) &&
         std::equal(program.messages.begin(), program.messages.end(), sized.messages.begin(),
                    same_bytes);
}

}  // namespace
}  // namespace shared_programs_detail

bool is_planned_alike(const SharedProgram& known, const PlannedStep& planned) {
  const IdVector<GapId, Decision>& decisions = planned.movement.decisions();
  const auto decided = static_cast<std::size_t>(
      std::count_if(decisions.begin(), decisions.end(), shared_programs_detail::is_decided));
  const std::vector<Throttle>& throttles = planned.movement.throttles();
  return decided == known.decisions.size() &&
         std::all_of(known.decisions.begin(), known.decisions.end(),
                     [&](const std::pair<GapId, Decision>& before) {
                       return decisions.contains(before.first) &&
                              shared_programs_detail::same_decision(decisions[before.first],
                                                                    before.second);
                     }) &&
         std::equal(throttles.begin(), throttles.end(), known.throttles.begin(),
                    known.throttles.end(), shared_programs_detail::same_throttle) &&
         shared_programs_detail::same_order(known.order, planned.step.order);
}

std::optional<SharedProgram> shared_program(const TrainingGraph& graph, const PlannedStep& planned,
                                            const StepProgram& program,
                                            const LibraryWorkspaces& libraries) {
  // A factor below a half may round a workspace away.
  if (libraries.convolution > 0 && libraries.convolution < 0.5) return std::nullopt;
  SharedProgram shared{
      .order = planned.step.order, .throttles = planned.movement.throttles(), .program = program};
  const IdVector<GapId, Decision>& decisions = planned.movement.decisions();
  for (const GapId gap : ids_of(decisions)) {
    if (!shared_programs_detail::is_decided(decisions[gap])) continue;
    if (shared_programs_detail::is_compressed(decisions[gap])) return std::nullopt;
    shared.decisions.emplace_back(gap, decisions[gap]);
  }
  if (!shared_programs_detail::sizes_follow(program, graph, shared.order, libraries,
                                            shared.program)) {
    return std::nullopt;
  }
  return shared;
}

StructureId SharedPrograms::structure_of(const TrainingGraph& graph) {
  const StructureDigest digest = structure_digest(graph);
  const std::lock_guard lock(mutex_);
  return structures_.try_emplace(digest, StructureId(structures_.size())).first->second;
}

std::shared_ptr<const SharedProgram> SharedPrograms::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (known == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, known);
  return known->program;
}

void SharedPrograms::keep(const std::string& key, std::shared_ptr<const SharedProgram> program) {
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (known != entries_.end()) {
    instructions_ -= known->program->program.size();
    entries_.erase(known);
  }
  instructions_ += program->program.size();
  entries_.push_front({key, std::move(program)});
  while (instructions_ > most_instructions_ && !entries_.empty()) {
    instructions_ -= entries_.back().program->program.size();
    entries_.pop_back();
  }
}

}  // namespace tidemark
