// `policies`: names, or mappings of one name to its parameters.
#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "graph/core/scalars.hpp"
#include "scenarios/decode_parts.hpp"

namespace tidemark {
namespace {

// Names of the format, version 1, whose policies are still to be written.
constexpr std::array<std::string_view, 43> kPlanned{
    "checkpoint",        "checkpoint_sequential", "selective",          "megatron_selective",
    "chen_sqrt",         "chen_greedy",           "rotor",              "rockmate",
    "min_cut",           "checkmate_lp",          "optimal",            "keep_all",
    "offload_optimizer", "offload_parameters",    "vdnn",               "torchtune_offload",
    "te_offload",        "megatron_offload",      "capuchin",           "belady",
    "superneurons",      "hybrid",                "zero",               "fsdp",
    "tensor_parallel",   "pipeline",              "context_parallel",   "expert_parallel",
    "lora",              "prune",                 "distill",            "compress_activations",
    "adaptive_precision", "memory_elastic",       "optimizer_in_backward", "chunked_loss",
    "checkpoint_every",  "offload_activations",   "revolve",            "eviction",
    "sqrt",              "full",                  "none"};

}  // namespace
}  // namespace tidemark
