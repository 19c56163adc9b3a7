// The modules of a model that adapters go to, by peft's rules for their names.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/ir/graph.hpp"
#include "policies/adapt/lora_options.hpp"

namespace tidemark {

struct LoraSites {
  std::map<NodeId, std::string> modules;  // adapted nodes and the names of their modules
  std::set<ParameterId> saved;            // parameters of modules_to_save, which get trained copies
  std::set<ParameterId> biases;           // base parameters that are trained
  // Adapted projections that make queries, keys and values together, and the widths of these; only
  // where the options name parts.
  std::map<NodeId, std::vector<std::int64_t>> fused;
};

// Throws UserError for a target or a module to save that names no module, with the nearest ones.
[[nodiscard]] LoraSites find_lora_sites(const Graph& graph, const LoraOptions& options);

}  // namespace tidemark
