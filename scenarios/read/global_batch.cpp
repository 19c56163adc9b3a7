#include "scenarios/read/global_batch.hpp"

#include "scenarios/read/scenario.hpp"

namespace tidemark {

const Value* global_batch_of(const Value& scenario) {
  const Value* training = scenario.find("training");
  const Value* batch = training == nullptr ? nullptr : training->find("global_batch");
  return batch == nullptr || batch->is_null() ? nullptr : batch;
}

Value without_global_batch(Value scenario) {
  if (global_batch_of(scenario) != nullptr)
    apply_override(scenario, {"training.global_batch", Value{}});
  return scenario;
}

}  // namespace tidemark
