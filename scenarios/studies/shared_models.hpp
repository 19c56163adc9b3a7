// Models that the points of a sweep share.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "graph/core/errors.hpp"
#include "graph/core/units.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/step/build_training.hpp"

namespace tidemark {

// Keeps the models that were asked for last, as far as their size allows, so that a sweep of any
// length takes bounded memory. Models that differ in sizes alone share their programs. May be used
// by several threads.
class SharedModels {
 public:
  // `most`: host memory of all models that are kept.
  explicit SharedModels(Bytes most = 96 * kMiB) : most_(most) {}

  // Returns the model of the scenario, built by the first caller that needs it. `point` is the
  // scenario's document. Throws UserError where it cannot be built, with the place in `point`.
  [[nodiscard]] std::shared_ptr<const TrainedModel> of(const Scenario& scenario,
                                                       const Value& point);

 private:
  struct Shared {
    std::string key;
    std::once_flag built;
    std::shared_ptr<const TrainedModel> model;  // null where it cannot be built
    std::optional<UserError> error;
    Bytes size;  // counted in size_; 0: not yet
  };
  using Entry = std::shared_ptr<Shared>;

  Entry entry_of(const std::string& key);
  void count(const Entry& entry);

  Bytes most_;
  std::shared_ptr<SharedPrograms> programs_ = std::make_shared<SharedPrograms>();
  std::mutex mutex_;
  std::list<Entry> recent_;  // last used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
  Bytes size_;
};

}  // namespace tidemark
