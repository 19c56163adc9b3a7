// The models that Liger's kernels are made for.
#pragma once

#include <string>

#include "scenarios/read/scenario.hpp"

namespace tidemark {

// Returns the model's type as a config.json names it ("llama", "qwen3") if transformers'
// use_liger_kernel and axolotl's plugin patch it: MODEL_TYPE_TO_APPLY_LIGER_FN
// (liger_kernel/transformers/monkey_patch.py). Empty for others, which they leave as they are.
[[nodiscard]] std::string liger_type(const ModelReference& model);
// The same of a scenario's `model`: {preset: NAME} or {hf: config.json}.
[[nodiscard]] std::string liger_type(const Value& model);

// The Trainer patches a model that is there, with the norms of queries and keys only in some.
[[nodiscard]] bool liger_leaves_head_norms(const std::string& type);

}  // namespace tidemark
