// The models that Liger's kernels are made for.
#pragma once

#include "scenarios/read/scenario.hpp"

namespace tidemark {

// Whether transformers' use_liger_kernel and axolotl's plugin patch the model: its type is in
// MODEL_TYPE_TO_APPLY_LIGER_FN (liger_kernel/transformers/monkey_patch.py). Of other models they
// leave the loss as it is.
[[nodiscard]] bool liger_patches(const ModelReference& model);

}  // namespace tidemark
