// model_type qwen2: transformers/models/qwen2/modeling_qwen2.py: Llama with biases on queries, keys
// and values, none on the output projection.
#include <string>

#include "graph/import/hf_config.hpp"
#include "graph/models/decoders/llama.hpp"

namespace tidemark {

Graph build_hf_qwen2(const Decoder& config, const std::string& name, const ModelOptions& options) {
  return build_llama(hf_llama_sizes(config, {.attention_bias = true}), name, options);
}

}  // namespace tidemark
