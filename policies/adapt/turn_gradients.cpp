#include "policies/adapt/turn_gradients.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace turn_gradients_detail {
namespace {

// Walks through a step. Returns by turn and parameter whether its gradient exists; `exists` has the
// names of those that do, before and afterwards.
std::vector<std::set<ParameterId>> walk(const std::vector<TrainingGraph>& turns, ZeroGrad zero_grad,
                                        std::set<std::string_view>& exists) {
  std::vector<std::set<ParameterId>> found;
  for (const TrainingGraph& turn : turns) {
    if (zero_grad == ZeroGrad::kNone) {
      for (const ParameterId id : turn.trained) {
        if (!turn.parameters[id].updated_elsewhere) exists.erase(turn.parameters[id].name);
      }
    }
    std::set<ParameterId> own;
    for (const ParameterId id : turn.trained) {
      if (!exists.insert(turn.parameters[id].name).second) own.insert(id);
    }
    found.push_back(std::move(own));
  }
  return found;
}

}  // namespace
}  // namespace turn_gradients_detail

void choose_updates(TrainingGraph& graph, const NamePatterns& train) {
  const bool all = train.layers.empty();
  for (const std::string& pattern : train.layers) {
    const bool matches = std::any_of(
        graph.trained.begin(), graph.trained.end(),
        [&](ParameterId id) { return matches_pattern(pattern, graph.parameters[id].name); });
    if (matches) continue;
    throw UserError({}, "training.turns.train",
                    fmt::format("{} matches no parameter that the turn's loss gives a gradient",
                                quoted_excerpt(pattern)));
  }
  IdVector<StorageId, char> kept_by_others(graph.storages.size(), 0);
  for (Parameter& parameter : graph.parameters) {
    parameter.updated_elsewhere =
        all ? !parameter.gradient.valid() : !train.matches(parameter.name);
    if (parameter.updated_elsewhere && parameter.gradient.valid())
      kept_by_others[parameter.gradient] = 1;
  }
  std::erase_if(graph.updates, [&](const UpdatedTensor& update) {
    return update.parameter.valid() && graph.parameters[update.parameter].updated_elsewhere;
  });
  // Only the turn that updates a parameter drops its gradient.
  const std::vector<OperatorId>& zero_grad = graph.part(PartKind::kZeroGrad);
  std::erase_if(graph.holds, [&](const Hold& hold) {
    return kept_by_others[hold.storage] != 0 &&
           std::find(zero_grad.begin(), zero_grad.end(), hold.until) != zero_grad.end();
  });
}

void relate_gradients(std::vector<TrainingGraph>& turns, ZeroGrad zero_grad) {
  std::map<std::string_view, std::size_t> updated_in;
  for (std::size_t turn = 0; turn < turns.size(); ++turn) {
    for (const ParameterId id : turns[turn].trained) {
      const Parameter& parameter = turns[turn].parameters[id];
      if (parameter.updated_elsewhere) continue;
      const auto [place, is_new] = updated_in.emplace(parameter.name, turn);
      if (is_new) continue;
      throw UserError({}, "training.turns",
                      fmt::format("turns {} and {} both update '{}', and each optimizer has one "
                                  "turn: say in train which parameters are whose; a step that "
                                  "trains a network several times before another is not simulated",
                                  place->second + 1, turn + 1, parameter.name));
    }
  }
  std::set<std::string_view> exists;
  const auto first = turn_gradients_detail::walk(turns, zero_grad, exists);
  const auto later = turn_gradients_detail::walk(turns, zero_grad, exists);
  for (std::size_t turn = 0; turn < turns.size(); ++turn) {
    for (const ParameterId id : turns[turn].trained) {
      turns[turn].parameters[id].gradient_before =
          first[turn].contains(id)   ? GradientBefore::kAlways
          : later[turn].contains(id) ? GradientBefore::kAfterFirstStep
                                     : GradientBefore::kNone;
    }
  }
}

std::vector<std::string> turn_warnings(const std::vector<TrainingGraph>& turns) {
  std::set<std::string> updated;
  std::set<std::string> others;
  for (const TrainingGraph& turn : turns) {
    for (const ParameterId id : turn.trained) {
      const Parameter& parameter = turn.parameters[id];
      (parameter.updated_elsewhere ? others : updated).insert(parameter.name);
    }
  }
  std::erase_if(others, [&](const std::string& name) { return updated.contains(name); });
  if (others.empty()) return {};
  return {
      fmt::format("{} parameter{} get{} gradients that no turn zeroes or uses, '{}' the first: "
                  "freeze them, or name them in train",
                  others.size(), others.size() == 1 ? "" : "s", others.size() == 1 ? "s" : "",
                  *others.begin())};
}

}  // namespace tidemark
