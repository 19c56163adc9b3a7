#include "graph/import/onnx/onnx_modules.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/import/onnx/onnx_scopes.hpp"

namespace tidemark {
namespace onnx_modules_detail {
namespace {

// "/enc/layers.0/self_attn/MatMul" is enc.layers.0.self_attn; a part that begins with the one
// before it (mlp/mlp.0) is already qualified.
std::string path_of(std::string_view name) {
  std::string path;
  std::string_view previous;
  visit_onnx_scopes(name, [&](std::string_view /*scope*/, std::string_view whole) {
    std::string_view part = whole;
    if (!previous.empty() && part.starts_with(previous) && part.size() > previous.size() &&
        part[previous.size()] == '.') {
      part.remove_prefix(previous.size() + 1);
    }
    if (!path.empty()) path += '.';
    path += part;
    previous = whole;
    return true;
  });
  return path;
}

std::string_view parent_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

std::string_view last_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

// Returns the name without the number that it ends in; the whole name when it has none.
std::string_view stem_of(std::string_view name) {
  const std::size_t last = name.find_last_not_of("0123456789");
  return last == std::string_view::npos ? std::string_view() : name.substr(0, last + 1);
}

bool is_numbered(std::string_view name) {
  return !name.empty() && stem_of(name).size() < name.size();
}

// Modules by their paths, with the children of each.
class Tree {
 public:
  // Adds a module and all modules that it is inside of.
  void add(std::string_view path) {
    std::string_view child;  // new, and not yet listed by the module that it is inside of
    for (std::string_view at = path; !at.empty(); at = parent_of(at)) {
      const auto [entry, fresh] = modules_.try_emplace(std::string(at));
      if (!child.empty()) entry->second.children.emplace_back(child);
      if (!fresh) return;
      child = at;
    }
  }
  // Decides, once for every module, whether it is a list. Nothing is added afterwards.
  void finish() {
    for (auto& [path, module] : modules_)
      module.is_list = is_list(module);
  }
  // Returns the outermost block that a module is or is inside of; empty when there is none.
  [[nodiscard]] std::string_view block_of(std::string_view path) const {
    std::string_view outermost;
    for (std::string_view at = path; !at.empty(); at = parent_of(at)) {
      const Module& module = modules_.find(at)->second;
      if (is_numbered(last_of(at)) && !module.children.empty() && !module.is_list) outermost = at;
    }
    return outermost;
  }

 private:
  struct Module {
    std::vector<std::string> children;
    bool is_list = false;
  };

  // Whether a module is a list: all its children are numbered alike and half of them or more have
  // children themselves. A convolution, a norm of two modules and an activation are one block.
  [[nodiscard]] bool is_list(const Module& module) const {
    std::size_t nested = 0;
    for (const std::string& child : module.children) {
      const std::string_view name = last_of(child);
      if (!is_numbered(name) || stem_of(name) != stem_of(last_of(module.children.front()))) {
        return false;
      }
      if (!modules_.find(child)->second.children.empty()) ++nested;
    }
    return nested > 0 && 2 * nested >= module.children.size();
  }

  std::map<std::string, Module, std::less<>> modules_;
};

// Returns the module of the parameters that a node reads, for files whose nodes have no paths.
std::string path_of_weights(const OnnxModel& model, const IdVector<OnnxValueId, char>& is_weight,
                            const OnnxNode& node) {
  for (OnnxValueId input : node.inputs) {
    if (input.valid() && is_weight[input] != 0) return std::string(parent_of(model.names[input]));
  }
  return {};
}

}  // namespace
}  // namespace onnx_modules_detail

OnnxModules::OnnxModules(const OnnxModel& model) : of_node(model.nodes.size(), kNoOnnxModule) {
  const bool scoped = std::any_of(model.nodes.begin(), model.nodes.end(), [](const OnnxNode& node) {
    return node.name.starts_with('/') && node.name.find('/', 1) != std::string::npos;
  });
  IdVector<OnnxValueId, char> is_weight(model.names.size(), 0);
  for (const OnnxInitializer& initializer : model.initializers)
    is_weight[initializer.value] = 1;

  std::unordered_map<std::string, int> index;
  std::string previous;
  onnx_modules_detail::Tree tree;
  for (OnnxNodeId id : ids_of(model.nodes)) {
    const OnnxNode& node = model.nodes[id];
    std::string path = scoped ? onnx_modules_detail::path_of(node.name)
                              : onnx_modules_detail::path_of_weights(model, is_weight, node);
    if (!scoped) {
      if (path.empty()) path = previous;
      previous = path;
    }
    if (path.empty()) continue;
    const auto [entry, fresh] = index.try_emplace(path, static_cast<int>(all.size()));
    of_node[id] = entry->second;
    if (!fresh) continue;
    all.push_back({.path = path});
    tree.add(path);
  }
  tree.finish();
  std::map<std::string, int, std::less<>> numbers;
  for (OnnxModule& module : all) {  // in the order in which nodes name them first
    const std::string_view block = tree.block_of(module.path);
    if (block.empty()) continue;
    module.block =
        numbers.try_emplace(std::string(block), static_cast<int>(numbers.size())).first->second;
  }
}

std::string_view module_of_tensor(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

std::string_view name_in_module(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

}  // namespace tidemark
