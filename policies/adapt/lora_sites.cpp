#include "policies/adapt/lora_sites.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/words.hpp"
#include "graph/operators/known_families.hpp"

namespace tidemark {
namespace lora_sites_detail {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kWeight = 1;
constexpr std::string_view kAllLinear = "all-linear";

// peft's targets by architecture (utils/constants.py); the first whose modules are all there.
const std::vector<std::vector<std::string>>& standard_targets() {
  static const std::vector<std::vector<std::string>> targets_by_architecture = {
      {"q_proj", "v_proj"},  // llama, mistral, gemma, qwen2, opt
      {"c_attn"},            // gpt2
      {"query_key_value"},   // gpt_neox, falcon, bloom
      {"query", "value"},    // bert, roberta, vit
      {"q", "v"},            // t5
      {"Wqkv"},              // mpt
  };
  return targets_by_architecture;
}

std::string module_of(std::string_view parameter) {
  const std::size_t dot = parameter.rfind('.');
  return std::string(parameter.substr(0, dot == std::string_view::npos ? parameter.size() : dot));
}

// Whether a name is the end of a module's name, part by part.
bool names_module(std::string_view name, std::string_view module) {
  return module == name ||
         (module.size() > name.size() && module.substr(module.size() - name.size()) == name &&
          module[module.size() - name.size() - 1] == '.');
}

std::string last_part(std::string_view module) {
  const std::size_t dot = module.rfind('.');
  return std::string(dot == std::string_view::npos ? module : module.substr(dot + 1));
}

bool is_linear(const Node& node) {
  return node.family == &linear_family();
}

bool is_adaptable(const Node& node) {
  const OperatorFamily& family = *node.family;
  return &family == &linear_family() || &family == &embedding_family() ||
         (is_convolution(family) && !is_transposed_convolution(family));
}

class Finder {
 public:
  Finder(const Graph& graph, const LoraOptions& options) : graph_(graph), options_(options) {
    for (ParameterId id : ids_of(graph.parameters))
      parameter_.emplace(graph.parameters[id].tensor, id);
    std::set<TensorId> tables;
    for (const Node& node : graph.nodes) {
      if (node.family == &embedding_family()) tables.insert(node.inputs[kWeight]);
    }
    for (NodeId id : ids_of(graph.nodes)) {
      const Node& node = graph.nodes[id];
      if (!is_adaptable(node) || node.inputs.size() <= kWeight) continue;
      // A head that is tied to an embedding reads its table, which is not the head's module.
      if (is_linear(node) && tables.contains(node.inputs[kWeight])) continue;
      const auto weight = parameter_.find(node.inputs[kWeight]);
      if (weight != parameter_.end())
        modules_.emplace(id, module_of(graph.parameters[weight->second].name));
    }
  }

  LoraSites find() {
    LoraSites sites;
    choose_targets(sites);
    find_fused(sites);
    choose_saved(sites);
    choose_biases(sites);
    return sites;
  }

 private:
  [[nodiscard]] std::vector<std::string> default_targets() const {
    for (const std::vector<std::string>& targets : standard_targets()) {
      const bool all = std::all_of(targets.begin(), targets.end(), [&](const std::string& target) {
        return std::any_of(modules_.begin(), modules_.end(), [&](const auto& module) {
          return is_linear(graph_.nodes[module.first]) && names_module(target, module.second);
        });
      });
      if (all) return targets;
    }
    throw UserError({}, "policies.lora.targets",
                    fmt::format("there is no default for {}; write the modules to adapt, such as "
                                "[{}], or all-linear",
                                graph_.name, fmt::join(examples(), ", ")));
  }

  // Returns the last parts of the names of modules with products.
  [[nodiscard]] std::vector<std::string> known_names() const {
    std::set<std::string> names;
    for (const auto& [node, module] : modules_)
      names.insert(last_part(module));
    return {names.begin(), names.end()};
  }
  [[nodiscard]] std::vector<std::string> examples() const {
    std::vector<std::string> names = known_names();
    names.resize(std::min<std::size_t>(names.size(), 8));
    return names;
  }

  [[noreturn]] void fail(std::string_view key, const std::string& name,
                         const std::vector<std::string>& known) const {
    std::string hint = did_you_mean(name, known);
    if (hint.empty()) {
      std::vector<std::string> shown = known;
      shown.resize(std::min<std::size_t>(shown.size(), 8));
      hint = fmt::format("; it has {}", fmt::join(shown, ", "));
    }
    throw UserError({}, fmt::format("policies.lora.{}", key),
                    fmt::format("'{}' names no module of {} {}{}", name, graph_.name,
                                key == "targets" ? "that adapters fit" : "with parameters", hint));
  }

  void choose_targets(LoraSites& sites) const {
    const std::vector<std::string> targets =
        options_.targets.empty() ? default_targets() : options_.targets;
    const NodeId head = head_of(graph_);
    for (const std::string& target : targets) {
      bool found = false;
      for (const auto& [node, module] : modules_) {
        const bool every = target == kAllLinear && is_linear(graph_.nodes[node]) && node != head;
        if (!every && !names_module(target, module)) continue;
        found = true;
        sites.modules.emplace(node, module);
      }
      if (!found) fail("targets", target, known_names());
    }
  }

  // A projection is fused when its result is split into queries, keys and values.
  void find_fused(LoraSites& sites) const {
    if (options_.parts.empty()) return;
    constexpr std::size_t kParts = 3;
    std::map<TensorId, NodeId> made_by;
    for (const auto& [node, module] : sites.modules)
      made_by.emplace(graph_.output(node), node);
    for (const Node& node : graph_.nodes) {
      if (node.family != &split_family() || node.outputs.size() != kParts) continue;
      const auto maker = made_by.find(node.inputs.front());
      if (maker == made_by.end()) continue;
      std::vector<std::int64_t>& widths = sites.fused[maker->second];
      for (const TensorId part : node.outputs)
        widths.push_back(graph_.tensors[part].shape[-1]);
    }
    if (sites.fused.empty()) {
      throw UserError({}, "policies.lora.parts",
                      "parts are those of projections that make queries, keys and values together, "
                      "and no target is one; leave parts out");
    }
  }

  void choose_saved(LoraSites& sites) const {
    for (const std::string& name : options_.modules_to_save) {
      bool found = false;
      std::set<std::string> known;
      for (ParameterId id : ids_of(graph_.parameters)) {
        const std::string module = module_of(graph_.parameters[id].name);
        known.insert(last_part(module));
        if (!names_module(name, module)) continue;
        found = true;
        sites.saved.insert(id);
      }
      if (!found) fail("modules_to_save", name, {known.begin(), known.end()});
    }
  }

  void choose_biases(LoraSites& sites) const {
    if (options_.bias == LoraBias::kNone) return;
    std::set<std::string> adapted;
    for (const auto& [node, module] : sites.modules)
      adapted.insert(module);
    for (ParameterId id : ids_of(graph_.parameters)) {
      const std::string& name = graph_.parameters[id].name;
      if (last_part(name) != "bias") continue;
      if (options_.bias == LoraBias::kAll || adapted.contains(module_of(name)))
        sites.biases.insert(id);
    }
  }

  const Graph& graph_;
  const LoraOptions& options_;
  std::map<TensorId, ParameterId> parameter_;
  std::map<NodeId, std::string> modules_;  // nodes whose weight is a parameter
};

}  // namespace
}  // namespace lora_sites_detail

LoraSites find_lora_sites(const Graph& graph, const LoraOptions& options) {
  return lora_sites_detail::Finder(graph, options).find();
}

}  // namespace tidemark
