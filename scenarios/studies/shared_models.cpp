#include "scenarios/studies/shared_models.hpp"

#include <utility>

#include "scenarios/read/located_error.hpp"

namespace tidemark {
namespace shared_models_detail {
namespace {

// Returns the bytes that a table takes, and those of its items' names that are too long for the
// strings themselves.
template <class Table>
std::size_t size_of_named(const Table& table) {
  std::size_t bytes = table.size() * sizeof(*table.begin());
  for (const auto& item : table) {
    if (item.name.size() >= sizeof(std::string) / 2) bytes += item.name.size() + 1;
  }
  return bytes;
}

// Gives back what the graph's tables have reserved beyond what they hold: a third of a small model.
void release_spare(TrainingGraph& graph) {
  graph.operators.shrink_to_fit();
  graph.touches.shrink_to_fit();
  graph.storages.shrink_to_fit();
  graph.holds.shrink_to_fit();
}

// Returns the host memory that a model takes, without its updates, passes, names of shared tensors
// and warnings, which are few.
Bytes size_of(const TrainedModel& model) {
  const TrainingGraph& graph = model.training;
  std::size_t bytes = sizeof(TrainedModel) + size_of_named(graph.operators) +
                      size_of_named(graph.storages) + size_of_named(graph.layers) +
                      size_of_named(graph.parameters) + graph.touches.size() * sizeof(Touch) +
                      graph.holds.size() * sizeof(Hold) +
                      graph.operators.size() * sizeof(OperatorId);  // in the parts
  for (const std::shared_ptr<const TrainedModel>& stage : model.stages) {
    if (stage.get() != &model) bytes += static_cast<std::size_t>(size_of(*stage).count);
  }
  return Bytes(static_cast<std::int64_t>(bytes));
}

}  // namespace
}  // namespace shared_models_detail

SharedModels::Entry SharedModels::entry_of(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto known = by_key_.find(key);
  if (known != by_key_.end()) {
    recent_.splice(recent_.begin(), recent_, known->second);
    return recent_.front();
  }
  recent_.push_front(std::make_shared<Shared>());
  recent_.front()->key = key;
  by_key_.emplace(key, recent_.begin());
  return recent_.front();
}

// Counts a model that was built, and forgets those that were not used for longest.
void SharedModels::count(const Entry& entry) {
  const std::lock_guard lock(mutex_);
  if (entry->size > Bytes(0)) return;
  const Bytes around(static_cast<std::int64_t>(sizeof(Shared) + 2 * entry->key.size()));
  entry->size = around + (entry->model ? shared_models_detail::size_of(*entry->model) : Bytes(0));
  size_ += entry->size;
  while (size_ > most_ && recent_.size() > 1 && recent_.back()->size > Bytes(0)) {
    size_ -= recent_.back()->size;
    by_key_.erase(recent_.back()->key);
    recent_.pop_back();
  }
}

std::shared_ptr<const TrainedModel> SharedModels::of(const Scenario& scenario, const Value& point) {
  const Entry entry = entry_of(scenario.training_key);
  std::call_once(entry->built, [&] {
    try {
      TrainedModel model = build_training(scenario);
      shared_models_detail::release_spare(model.training);
      model.structure = programs_->structure_of(model.training);
      model.programs = programs_;
      entry->model = std::make_shared<const TrainedModel>(std::move(model));
    } catch (const UserError& error) {
      entry->error = located(error, point);
    }
  });
  count(entry);
  if (entry->model == nullptr) throw UserError(entry->error.value());
  return entry->model;
}

}  // namespace tidemark
