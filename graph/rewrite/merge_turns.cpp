#include "graph/rewrite/merge_turns.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/rewrite/append_graph.hpp"
#include "graph/rewrite/shared_tensors.hpp"

namespace tidemark {
namespace merge_turns_detail {
namespace {

class TurnMerger {
 public:
  explicit TurnMerger(std::vector<TrainingGraph> turns) : turns_(std::move(turns)) {}

  TrainingGraph run() {
    share_tensors();
    result_ = std::move(turns_.front());
    note_storages(result_.storages);
    for (SharedTensor& shared : shared_) {
      if (shared.first_turn() == 0) shared.place = shared.in_turns.front().second;
    }
    move_making(0, {});
    for (const LayerId id : ids_of(result_.layers))
      layer_of_.emplace(result_.layers[id].name, id);
    for (std::size_t turn = 1; turn < turns_.size(); ++turn)
      append(turn);
    result_.turns = static_cast<int>(turns_.size());
    return std::move(result_);
  }

 private:
  // Memory that is there all the time is the same in all turns, by its name and size.
  using Identity = std::tuple<bool, std::string, Bytes>;
  static Identity identity_of(const Storage& storage) {
    return {storage.role == Role::kInput, storage.name, storage.bytes};
  }

  void share_tensors();
  void take_out(SharedTensor& shared, std::size_t place);
  void note_storages(const IdVector<StorageId, Storage>& storages) {
    for (const StorageId id : ids_of(storages)) {
      if (storages[id].initial && !storages[id].name.empty())
        initial_.emplace(identity_of(storages[id]), id);
    }
  }
  void append(std::size_t turn);
  [[nodiscard]] IdVector<LayerId, LayerId> merge_layers(const TrainingGraph& source);
  void map_parameters(const TrainingGraph& source, AppendedIds& ids);
  void map_storages(const TrainingGraph& source, AppendedIds& ids);
  void append_parts(std::uint16_t turn, const TrainingGraph& source, const AppendedIds& ids);
  void move_making(std::size_t turn, const AppendedIds& ids);

  std::vector<TrainingGraph> turns_;
  std::vector<SharedTensor> shared_;
  TrainingGraph result_;
  std::map<Identity, StorageId> initial_;
  std::map<std::string, LayerId, std::less<>> layer_of_;
};

// Takes the operators that make a tensor out of a turn's forward. Where another turn makes it, its
// own autograd keeps nothing of them, and a variable of the loop holds the other's.
void TurnMerger::take_out(SharedTensor& shared, std::size_t place) {
  const std::size_t turn = shared.in_turns[place].first;
  const StorageId storage = shared.in_turns[place].second;
  TrainingGraph& graph = turns_[turn];
  const Making& making = shared.makings[place];
  const std::set<OperatorId> operators(making.operators.begin(), making.operators.end());
  std::erase_if(graph.part(PartKind::kForward),
                [&](OperatorId op) { return operators.contains(op); });
  for (const Hold& hold : graph.holds) {
    if (hold.storage != storage || hold.kind != HoldKind::kLocal || !hold.since.valid()) continue;
    if (place == shared.owner) shared.since = hold.since;
    if (place > shared.owner) shared.later.emplace_back(turn, hold.until);
  }
  if (place == shared.owner) return;
  std::erase_if(graph.holds, [&](const Hold& hold) {
    return operators.contains(hold.until) || operators.contains(hold.since) ||
           hold.storage == storage || making.created.contains(hold.storage);
  });
}

void TurnMerger::share_tensors() {
  shared_ = find_shared_tensors(turns_);
  for (SharedTensor& shared : shared_) {
    for (std::size_t place = 0; place < shared.in_turns.size(); ++place)
      take_out(shared, place);
  }
}

// Blocks of modules that no earlier turn has run are numbered after those known.
IdVector<LayerId, LayerId> TurnMerger::merge_layers(const TrainingGraph& source) {
  IdVector<LayerId, LayerId> own;
  std::map<int, int> block;  // of the source, to those of the result
  for (const LayerId id : ids_of(source.layers)) {
    const Layer& layer = source.layers[id];
    if (const auto known = layer_of_.find(layer.name); known != layer_of_.end()) {
      own.push_back(known->second);
      if (layer.block != kNoBlock) block.emplace(layer.block, result_.layers[known->second].block);
      continue;
    }
    Layer added = layer;
    if (layer.block != kNoBlock) {
      const auto [place, is_new] = block.emplace(layer.block, result_.blocks);
      if (is_new) ++result_.blocks;
      added.block = place->second;
    }
    layer_of_.emplace(layer.name, result_.layers.push_back(added));
    own.push_back(layer_of_.at(layer.name));
  }
  return own;
}

// Finds the parameters that earlier turns have, and gives theirs the gradient that this one makes.
void TurnMerger::map_parameters(const TrainingGraph& source, AppendedIds& ids) {
  std::map<std::string_view, ParameterId> known;
  for (const ParameterId id : ids_of(result_.parameters))
    known.emplace(result_.parameters[id].name, id);
  ids.parameters.resize(source.parameters.size());
  for (const ParameterId id : ids_of(source.parameters)) {
    const Parameter& parameter = source.parameters[id];
    const auto found = known.find(parameter.name);
    if (found == known.end()) continue;
    Parameter& own = result_.parameters[found->second];
    if (own.elements != parameter.elements) {
      throw UserError({}, "training.turns",
                      fmt::format("'{}' has {} elements in one turn and {} in another",
                                  parameter.name, own.elements.count, parameter.elements.count));
    }
    ids.parameters[id] = found->second;
    ids.storages[parameter.storage] = own.storage;
    own.trained = own.trained || parameter.trained;
    if (!parameter.gradient.valid()) continue;
    if (own.gradient.valid()) {
      ids.storages[parameter.gradient] = own.gradient;
    } else {
      Storage gradient = source.storages[parameter.gradient];
      gradient.layer = own.layer;
      own.gradient = result_.storages.push_back(std::move(gradient));
      ids.storages[parameter.gradient] = own.gradient;
      own.gradient_dtype = parameter.gradient_dtype;
    }
    if (!parameter.updated_elsewhere) own.updated_elsewhere = false;
  }
}

void TurnMerger::map_storages(const TrainingGraph& source, AppendedIds& ids) {
  for (const StorageId id : ids_of(source.storages)) {
    const Storage& storage = source.storages[id];
    if (ids.storages[id].valid()) {
      // A parameter that an earlier turn has frozen is trained by this one.
      Storage& own = result_.storages[ids.storages[id]];
      if (is_parameter(storage.role) && storage.role != Role::kFrozenParameter)
        own.role = storage.role;
      continue;
    }
    if (storage.initial) {
      const auto known = initial_.find(identity_of(storage));
      if (known != initial_.end()) {
        ids.storages[id] = known->second;
        if (is_parameter(storage.role)) result_.storages[known->second].role = storage.role;
        continue;
      }
    }
    Storage added = storage;
    added.layer = ids.of(storage.layer);
    ids.storages[id] = result_.storages.push_back(std::move(added));
  }
}

void TurnMerger::append_parts(std::uint16_t turn, const TrainingGraph& source,
                              const AppendedIds& ids) {
  for (const StepPart& part : source.parts.all()) {
    if (part.chunk != 0) throw InternalError("a turn has chunks");
    std::vector<OperatorId>& target = result_.part(part.kind, turn);
    for (const OperatorId op : part.operators)
      target.push_back(ids.of(op));
  }
}

// The operators that make a shared tensor run where it is needed first; other turns read it. The
// loop keeps it until the last of them has ended.
void TurnMerger::move_making(std::size_t turn, const AppendedIds& ids) {
  for (SharedTensor& shared : shared_) {
    if (shared.owner_turn() == turn) {
      std::vector<OperatorId>& forward =
          result_.part(PartKind::kForward, static_cast<std::uint16_t>(shared.first_turn()));
      std::vector<OperatorId> making;
      for (const OperatorId op : shared.makings[shared.owner].operators)
        making.push_back(ids.of(op));
      forward.insert(forward.begin(), making.begin(), making.end());
      shared.since = ids.of(shared.since);
    }
    for (const auto& [later, until] : shared.later) {
      if (later == turn && shared.since.valid())
        result_.holds.push_back({shared.place, shared.since, ids.of(until), HoldKind::kLocal});
    }
  }
}

void TurnMerger::append(std::size_t turn) {
  const TrainingGraph& source = turns_[turn];
  AppendedIds ids{.storages = IdVector<StorageId, StorageId>(source.storages.size()),
                  .layers = merge_layers(source),
                  .parameters = {}};
  map_parameters(source, ids);
  const auto each_shared = [&](auto&& visit) {
    for (SharedTensor& shared : shared_) {
      for (const auto& [other, storage] : shared.in_turns) {
        if (other == turn) visit(shared, storage);
      }
    }
  };
  each_shared(
      [&](SharedTensor& shared, StorageId storage) { ids.storages[storage] = shared.place; });
  map_storages(source, ids);
  each_shared([&](SharedTensor& shared, StorageId storage) {
    shared.place = ids.storages[storage];
    if (shared.owner_turn() == turn)
      result_.storages[shared.place].role = source.storages[storage].role;
  });
  append_graph(result_, source, ids);
  append_parts(static_cast<std::uint16_t>(turn), source, ids);
  move_making(turn, ids);
  note_storages(result_.storages);
}

}  // namespace
}  // namespace merge_turns_detail

TrainingGraph merge_turns(std::vector<TrainingGraph> turns) {
  return merge_turns_detail::TurnMerger(std::move(turns)).run();
}

}  // namespace tidemark
