// Names that people bring from PyTorch, Hugging Face, DeepSpeed or Lightning are errors here: of
// keys and of values, each with ours.
#pragma once

#include <string>

#include "graph/core/document.hpp"

namespace tidemark {

// Throws UserError at the first key or value of a scenario that is another tool's name for one of
// ours, with what to write instead: `training.batch_size: 8` is training.micro_batch: 8, a list of
// micro-batches is a sweep, `checkpoint_every: 2` is checkpoint_every: {period: 2}.
void check_other_names(const Value& scenario);

// Returns what to do with a file that was given as a model, where its ending says that it holds
// weights or a recorded snapshot: "; ..."; empty for others.
[[nodiscard]] std::string advice_for_weights(const std::string& name);

// Returns what to do about a model that was given by `name`, where that is a checkpoint of weights
// or a name on Hugging Face's hub: "; ..."; empty for others.
[[nodiscard]] std::string advice_for_model(const std::string& name);

}  // namespace tidemark
