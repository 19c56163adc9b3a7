// model_type mixtral: transformers/models/mixtral/modeling_mixtral.py (before 4.56, where every
// expert is a module of its own). The auxiliary loss of the router, off in the published
// configs, is left out and remarked on.
#include <cstdint>
#include <string>

#include "graph/import/hf_config.hpp"
#include "graph/models/decoders/llama.hpp"
#include "graph/models/model_limits.hpp"

namespace tidemark {

Graph build_hf_mixtral(const Decoder& config, const std::string& name,
                       const ModelOptions& options) {
  LlamaConfig mixtral = hf_llama_sizes(config, {});
  mixtral.experts = config.required<std::int64_t>("num_local_experts", up_to(kMaxExperts));
  mixtral.experts_per_token =
      config.required<std::int64_t>("num_experts_per_tok", up_to(mixtral.experts));
  Graph graph = build_llama(mixtral, name, options);
  remark_on_router_loss(config, graph);
  return graph;
}

}  // namespace tidemark
