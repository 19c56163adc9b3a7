// Larger ONNX models for figures and limits.
#pragma once

#include <cmath>
#include <string>

#include "tests/support/onnx_writer.hpp"

namespace tidemark::test {

// A chain of pre-norm feed-forward blocks with GELU until there are `nodes` nodes, constants and
// the arithmetic of a Reshape's shape among them, as exporters write them.
inline OnnxWriter feed_forward_model(int nodes, std::int64_t width = 64) {
  OnnxWriter w;
  const std::string ids = w.input("ids", {2, 32}, kOnnxInt64);
  std::string x =
      w.node("Gather", {w.parameter("wte.weight", {256, width}), ids}, {}, "/wte/Gather");
  for (int block = 0; w.model().graph().node_size() < nodes; ++block) {
    const std::string module = "h." + std::to_string(block);
    const std::string path = "/h." + std::to_string(block) + "/";
    const auto node = [&](const std::string& op, const std::vector<std::string>& inputs,
                          const OnnxAttributes& attributes = {}) {
      return w.node(op, inputs, attributes, path + op);
    };
    const auto mean = [&](const std::string& of) {
      return node("ReduceMean", {of}, {{"axes", OnnxDims{-1}}});
    };
    const std::string d = node("Sub", {x, mean(x)});
    const std::string variance = mean(node("Pow", {d, w.number(2)}));
    const std::string root = node("Sqrt", {node("Add", {variance, w.number(1e-5)})});
    const std::string scaled =
        node("Mul", {node("Div", {d, root}), w.parameter(module + ".ln.weight", {width})});
    std::string y = node("Add", {scaled, w.parameter(module + ".ln.bias", {width})});
    y = w.linear(y, module + ".fc", width, 4 * width);
    const std::string erf = node("Erf", {node("Div", {y, w.number(std::sqrt(2.0))})});
    y = node("Mul", {y, node("Add", {erf, w.number(1)})});
    y = node("Mul", {y, w.number(0.5)});
    const std::string rows = node("Gather", {node("Shape", {y}), w.integer(0)});
    const std::string apart = node("Unsqueeze", {rows, w.integers({0})});
    const std::string shape =
        node("Concat", {apart, w.integers({-1, 4 * width})}, {{"axis", std::int64_t{0}}});
    y = node("Reshape", {y, shape});
    x = node("Add", {x, w.linear(y, module + ".proj", 4 * width, width)});
  }
  w.output(w.linear(x, "head", width, 256));
  return w;
}

}  // namespace tidemark::test
