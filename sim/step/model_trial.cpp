#include "sim/step/model_trial.hpp"

#include <utility>

#include "sim/engine/scratch.hpp"
#include "sim/step/compile.hpp"
#include "sim/step/run_compiled.hpp"

namespace tidemark {

Bytes live_peak(const StepSpec& spec, TrainingGraph graph) {
  TrainedModel model;
  model.training = std::move(graph);
  Scratch scratch;
  return run_compiled(spec, compile(spec, model), scratch, kUnlimited, false).live.bytes;
}

}  // namespace tidemark
