// What axolotl does to the types of a model's weights.
#pragma once

#include "scenarios/read/scenario.hpp"

namespace tidemark {

// Whether axolotl has norms, embeddings and head of a quantised model in 16 bits: peft's
// prepare_model_for_kbit_training casts them to fp32, and axolotl those back that it finds by the
// names that most decoders have, "norm", "embed_tokens" and "lm_head"
// (ModelLoader._convert_embedding_modules_dtype). Those of GPT-2 and its like stay in fp32.
[[nodiscard]] bool axolotl_narrows_rest(const ModelReference& model);
// The same of a scenario's `model`: {preset: NAME} or {hf: config.json}.
[[nodiscard]] bool axolotl_narrows_rest(const Value& model);

}  // namespace tidemark
