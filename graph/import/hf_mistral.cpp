// model_type mistral: transformers/models/mistral/modeling_mistral.py, which is Llama without
// biases. Its sliding window masks scores and leaves every tensor as large as it is.
#include <string>

#include "graph/import/hf_config.hpp"
#include "graph/models/decoders/llama.hpp"

namespace tidemark {

Graph build_hf_mistral(const Decoder& config, const std::string& name,
                       const ModelOptions& options) {
  return build_llama(hf_llama_sizes(config, {}), name, options);
}

}  // namespace tidemark
