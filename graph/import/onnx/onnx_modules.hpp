// Modules by the names of nodes. PyTorch's exporter (1.13 and later) writes the path of the module
// that ran a node into its name: /layer1/layer1.0/conv1/Conv is layer1.0.conv1.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/import/onnx/onnx_uses.hpp"

namespace tidemark {

inline constexpr int kNoOnnxModule = -1;

struct OnnxModule {
  std::string path;  // "layer1.0.conv1"
  int block = -1;    // number of the repeated module that it is or is inside of; -1 outside
};

// Repeated modules ("blocks") are those whose name ends in a number and that consist of other
// modules: h.0, encoder_layer_3, layer1.0. A list of such modules (layer1, features.1) is none, its
// members are. They are numbered in the order in which they run.
struct OnnxModules {
  explicit OnnxModules(const OnnxModel& model);

  std::vector<OnnxModule> all;
  IdVector<OnnxNodeId, int> of_node;  // index into `all`; kNoOnnxModule at the top
};

// The modules that write their result over their input, nn.ReLU(inplace=True). The exporter writes
// the operators of the other form; the file's metadata names the modules, `tidemark.inplace:PATH`
// with the class, or the user does, by patterns.
class InPlaceModules {
 public:
  // Throws UserError for a pattern that fits no module.
  InPlaceModules(const OnnxModel& model, const OnnxModules& modules,
                 const std::vector<std::string>& patterns);
  // `path` may be that of a repeated call, whose last name the exporter numbers: relu_1.
  [[nodiscard]] bool contain(std::string_view path) const;

 private:
  std::set<std::string, std::less<>> paths_;
};

// Returns the module of an initializer's name: "encoder.0" of "encoder.0.weight".
[[nodiscard]] std::string_view module_of_tensor(std::string_view name);
[[nodiscard]] std::string_view name_in_module(std::string_view name);

}  // namespace tidemark
