// Types that axolotl gives the weights of a model.
#pragma once

#include "scenarios/read/scenario.hpp"

namespace tidemark {

// Whether axolotl has norms, embeddings and head of a quantised model in 16 bits. peft's
// prepare_model_for_kbit_training casts them to fp32, and axolotl casts back the modules whose
// names have "norm", "embed_tokens" or "lm_head" in them, as most decoders' do
// (ModelLoader._convert_embedding_modules_dtype). It knows the embeddings of GPT-NeoX and Falcon,
// too (get_linear_embedding_layers); of Falcon a last norm "ln_f" stays in fp32, some kB, which
// counts as narrowed here. Embeddings of GPT-2 and its like stay in fp32.
[[nodiscard]] bool axolotl_narrows_rest(const ModelReference& model);
// The same of a scenario's `model`: {preset: NAME} or {hf: config.json}.
[[nodiscard]] bool axolotl_narrows_rest(const Value& model);

}  // namespace tidemark
