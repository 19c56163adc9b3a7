// Modules by the names of nodes. PyTorch's exporter (1.13 and later) writes the path of the module
// that ran a node into its name: /layer1/layer1.0/conv1/Conv is layer1.0.conv1.
#pragma once

#include <string>
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

// Returns the module of an initializer's name: "encoder.0" of "encoder.0.weight".
[[nodiscard]] std::string_view module_of_tensor(std::string_view name);
[[nodiscard]] std::string_view name_in_module(std::string_view name);

}  // namespace tidemark
