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

namespace tidemark {
namespace merge_turns_detail {
namespace {

// The operators of a turn's forward that only serve to make one tensor.
struct Making {
  std::vector<OperatorId> operators;  // in their order
  std::set<StorageId> created;        // storages that they create, the tensor's own excepted
};

// Finds, from the end of forward, what the content of `tensor` follows from.
Making making_of(const TrainingGraph& turn, const std::string& name, StorageId tensor) {
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
  const std::set<OperatorId> own(making.operators.begin(), making.operators.end());
  for (const OperatorId op : forward) {
    if (own.contains(op)) continue;
    for (const Touch& touch : turn.touches_of(op)) {
      if (!making.created.contains(touch.storage)) continue;
      throw UserError({}, "model.shared",
                      fmt::format("{} cannot be shared: {} reads what is made on the way to it",
                                  quoted_excerpt(name), turn.describe(op)));
    }
  }
  return making;
}

class TurnMerger {
 public:
  explicit TurnMerger(std::vector<TrainingGraph> turns) : turns_(std::move(turns)) {}

  TrainingGraph run() {
    share_tensors();
    result_ = std::move(turns_.front());
    note_storages(result_.storages);
    for (Shared& shared : shared_) {
      if (shared.first == 0) shared.place = shared.in_turns.front().second;
    }
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
  static void drop_holds(TrainingGraph& turn, const Making& making, StorageId tensor);
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

  // What a later turn makes for earlier ones.
  struct Shared {
    std::string name;
    std::size_t first = 0;                                    // the turn in which it is made
    std::size_t owner = 0;                                    // the turn that names its operators
    std::vector<std::pair<std::size_t, StorageId>> in_turns;  // its storage in each turn
    std::vector<OperatorId> making;                           // operators of the owner
    StorageId place;                                          // of the result
  };

  std::vector<TrainingGraph> turns_;
  std::vector<Shared> shared_;
  TrainingGraph result_;
  std::map<Identity, StorageId> initial_;
  std::map<std::string, LayerId, std::less<>> layer_of_;
};

// Forgets that variables and autograd hold what another turn makes.
void TurnMerger::drop_holds(TrainingGraph& turn, const Making& making, StorageId tensor) {
  const std::set<OperatorId> dropped(making.operators.begin(), making.operators.end());
  std::erase_if(turn.holds, [&](const Hold& hold) {
    return dropped.contains(hold.until) || dropped.contains(hold.since) || hold.storage == tensor ||
           making.created.contains(hold.storage);
  });
}

void TurnMerger::share_tensors() {
  std::map<std::string, std::vector<std::pair<std::size_t, StorageId>>> named;
  for (std::size_t turn = 0; turn < turns_.size(); ++turn) {
    for (const auto& [name, storage] : turns_[turn].named)
      named[name].emplace_back(turn, storage);
  }
  for (auto& [name, places] : named) {
    if (places.size() < 2) continue;
    if (turns_.front().micro_batches > 1) {
      throw UserError({}, "model.shared",
                      fmt::format("{} is shared, of which each micro-batch has its own: leave "
                                  "training.accumulate out",
                                  quoted_excerpt(name)));
    }
    Shared shared{.name = name,
                  .first = places.front().first,
                  .owner = places.back().first,
                  .in_turns = places,
                  .making = {},
                  .place = {}};
    for (const auto& [turn, storage] : places) {
      TrainingGraph& graph = turns_[turn];
      const Making making = making_of(graph, name, storage);
      const std::set<OperatorId> operators(making.operators.begin(), making.operators.end());
      std::erase_if(graph.part(PartKind::kForward),
                    [&](OperatorId op) { return operators.contains(op); });
      if (turn == shared.owner) {
        shared.making = making.operators;
      } else {
        drop_holds(graph, making, storage);
      }
    }
    shared_.push_back(std::move(shared));
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

// The operators that make a shared tensor run where it is needed first; the earlier turns read it.
void TurnMerger::move_making(std::size_t turn, const AppendedIds& ids) {
  for (const Shared& shared : shared_) {
    if (shared.owner != turn) continue;
    std::vector<OperatorId>& forward =
        result_.part(PartKind::kForward, static_cast<std::uint16_t>(shared.first));
    std::vector<OperatorId> making;
    for (const OperatorId op : shared.making)
      making.push_back(ids.of(op));
    forward.insert(forward.begin(), making.begin(), making.end());
  }
}

void TurnMerger::append(std::size_t turn) {
  const TrainingGraph& source = turns_[turn];
  AppendedIds ids{.storages = IdVector<StorageId, StorageId>(source.storages.size()),
                  .layers = merge_layers(source),
                  .parameters = {}};
  map_parameters(source, ids);
  const auto each_shared = [&](auto&& visit) {
    for (Shared& shared : shared_) {
      for (const auto& [other, storage] : shared.in_turns) {
        if (other == turn) visit(shared, storage);
      }
    }
  };
  each_shared([&](Shared& shared, StorageId storage) { ids.storages[storage] = shared.place; });
  map_storages(source, ids);
  each_shared([&](Shared& shared, StorageId storage) {
    shared.place = ids.storages[storage];
    if (shared.owner == turn) result_.storages[shared.place].role = source.storages[storage].role;
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
