#include "graph/rewrite/shared_tensors.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace shared_tensors_detail {
namespace {

// Finds, from the end of forward, what the content of `tensor` follows from.
Making making_of(const TrainingGraph& turn, StorageId tensor) {
  const std::vector<OperatorId>& forward = turn.part(PartKind::kForward);
  std::set<StorageId> needed{tensor};
  Making making;
  for (auto op = forward.rbegin(); op != forward.rend(); ++op) {
    const auto touches = turn.touches_of(*op);
    const bool makes = std::any_of(touches.begin(), touches.end(), [&](const Touch& touch) {
      return touch.access != Access::kRead && needed.contains(touch.storage);
    });
    if (!makes) continue;
    making.operators.push_back(*op);
    for (const Touch& touch : touches) {
      if (turn.storages[touch.storage].initial) continue;
      needed.insert(touch.storage);
      if (touch.access == Access::kCreate && touch.storage != tensor)
        making.created.insert(touch.storage);
    }
  }
  std::reverse(making.operators.begin(), making.operators.end());
  return making;
}

[[noreturn]] void refuse(const std::string& name, const std::string& problem) {
  throw UserError({}, "model.shared",
                  fmt::format("{} cannot be shared: {}", quoted_excerpt(name), problem));
}

// Whether the turn's backward goes through the operators that make a tensor.
bool follows(const TrainingGraph& turn, const Making& making) {
  std::set<NodeId> nodes;
  for (const OperatorId op : making.operators) {
    if (turn.operators[op].node.valid()) nodes.insert(turn.operators[op].node);
  }
  const auto passes = [&](const StepPart& part) {
    return part.kind != PartKind::kForward &&
           std::any_of(part.operators.begin(), part.operators.end(), [&](OperatorId op) {
             return turn.operators[op].node.valid() && nodes.contains(turn.operators[op].node);
           });
  };
  const auto& parts = turn.parts.all();
  return std::any_of(parts.begin(), parts.end(), passes);
}

// Throws unless several turns name the tensor, each once and with one size.
void check_places(const std::vector<TrainingGraph>& turns, const SharedTensor& shared) {
  const auto& places = shared.in_turns;
  const auto same_turn = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (std::adjacent_find(places.begin(), places.end(), same_turn) != places.end())
    refuse(shared.name, "a turn makes several tensors of this name");
  if (places.size() < 2) {
    refuse(shared.name, fmt::format("only turn {} names it; name it in model.shared of the others "
                                    "that use it, or leave it out",
                                    shared.first_turn() + 1));
  }
  if (turns.front().micro_batches > 1) {
    throw UserError({}, "model.shared",
                    fmt::format("{} is shared, of which each micro-batch has its own: leave "
                                "training.accumulate out",
                                quoted_excerpt(shared.name)));
  }
  const auto bytes = [&](std::size_t i) {
    return turns[places[i].first].storages[places[i].second].bytes;
  };
  for (std::size_t i = 1; i < places.size(); ++i) {
    if (bytes(i) == bytes(0)) continue;
    refuse(
        shared.name,
        fmt::format("it has {} bytes in turn {} and {} in turn {}; give the turns one "
                    "micro_batch",
                    bytes(0).count, shared.first_turn() + 1, bytes(i).count, places[i].first + 1));
  }
}

// Returns the place whose turn goes back through the making, the last one where none does. Autograd
// frees what it has kept of the making in the first backward.
std::size_t owner_of(const std::vector<TrainingGraph>& turns, const SharedTensor& shared) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < shared.in_turns.size(); ++i) {
    const std::size_t turn = shared.in_turns[i].first;
    if (!follows(turns[turn], shared.makings[i])) continue;
    if (found) {
      refuse(shared.name,
             fmt::format("turns {} and {} both go back through what makes it, which PyTorch "
                         "refuses (\"backward through the graph a second time\"); name it in "
                         "model.detach of all turns but one, or leave it out of model.shared",
                         shared.in_turns[*found].first + 1, turn + 1));
    }
    found = i;
  }
  return found.value_or(shared.in_turns.size() - 1);
}

// Throws where a turn updates a parameter in place that a later backward still needs.
void check_updates(const std::vector<TrainingGraph>& turns, const SharedTensor& shared) {
  const TrainingGraph& owner = turns[shared.owner_turn()];
  const Making& making = shared.makings[shared.owner];
  if (!follows(owner, making)) return;
  std::set<StorageId> read;
  for (const OperatorId op : making.operators) {
    for (const Touch& touch : owner.touches_of(op))
      read.insert(touch.storage);
  }
  std::set<std::string_view> names;
  for (const Parameter& parameter : owner.parameters) {
    if (read.contains(parameter.storage)) names.insert(parameter.name);
  }
  for (std::size_t turn = shared.first_turn(); turn < shared.owner_turn(); ++turn) {
    for (const ParameterId id : turns[turn].trained) {
      const Parameter& parameter = turns[turn].parameters[id];
      if (parameter.updated_elsewhere || !names.contains(parameter.name)) continue;
      refuse(shared.name,
             fmt::format("it follows from '{}', which turn {} updates before turn {} goes back "
                         "through it, and PyTorch refuses such a backward (\"modified by an "
                         "inplace operation\"); leave it out of model.shared",
                         parameter.name, turn + 1, shared.owner_turn() + 1));
    }
  }
}

// Throws where two tensors have operators in common: neither could be made by itself.
void check_apart(const SharedTensor& a, const SharedTensor& b) {
  for (std::size_t i = 0; i < a.in_turns.size(); ++i) {
    for (std::size_t j = 0; j < b.in_turns.size(); ++j) {
      if (a.in_turns[i].first != b.in_turns[j].first) continue;
      const std::vector<OperatorId>& own = a.makings[i].operators;
      const std::vector<OperatorId>& other = b.makings[j].operators;
      if (std::find_first_of(own.begin(), own.end(), other.begin(), other.end()) == own.end())
        continue;
      refuse(a.name, fmt::format("it is made together with {}, or on the way to it; share one of "
                                 "the two",
                                 quoted_excerpt(b.name)));
    }
  }
}

// Throws where a turn reads what is made on the way; the owner's backward may.
void check_readers(const TrainingGraph& turn, const SharedTensor& shared, std::size_t place) {
  const Making& making = shared.makings[place];
  const std::set<OperatorId> own(making.operators.begin(), making.operators.end());
  for (const StepPart& part : turn.parts.all()) {
    if (part.kind != PartKind::kForward && place == shared.owner) continue;
    for (const OperatorId op : part.operators) {
      if (own.contains(op)) continue;
      for (const Touch& touch : turn.touches_of(op)) {
        if (!making.created.contains(touch.storage)) continue;
        refuse(shared.name,
               fmt::format("{} reads what is made on the way to it", turn.describe(op)));
      }
    }
  }
}

}  // namespace
}  // namespace shared_tensors_detail

std::vector<SharedTensor> find_shared_tensors(const std::vector<TrainingGraph>& turns) {
  std::map<std::string, std::vector<std::pair<std::size_t, StorageId>>> named;
  for (std::size_t turn = 0; turn < turns.size(); ++turn) {
    for (const auto& [name, storage] : turns[turn].named)
      named[name].emplace_back(turn, storage);
  }
  std::vector<SharedTensor> result;
  for (auto& [name, places] : named) {
    SharedTensor& shared = result.emplace_back();
    shared.name = name;
    shared.in_turns = std::move(places);
    shared_tensors_detail::check_places(turns, shared);
    for (const auto& [turn, storage] : shared.in_turns)
      shared.makings.push_back(shared_tensors_detail::making_of(turns[turn], storage));
    shared.owner = shared_tensors_detail::owner_of(turns, shared);
    shared_tensors_detail::check_updates(turns, shared);
  }
  for (std::size_t i = 0; i < result.size(); ++i) {
    for (std::size_t j = i + 1; j < result.size(); ++j)
      shared_tensors_detail::check_apart(result[i], result[j]);
  }
  for (const SharedTensor& shared : result) {
    for (std::size_t place = 0; place < shared.in_turns.size(); ++place)
      shared_tensors_detail::check_readers(turns[shared.in_turns[place].first], shared, place);
  }
  return result;
}

}  // namespace tidemark
