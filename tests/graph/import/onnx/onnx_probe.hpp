// The bytes that autograd keeps of a small ONNX model, as PyTorch 1.13 on a CPU.
#pragma once

#include <string>

#include "graph/import/onnx/import_onnx.hpp"
#include "tests/graph/operators/probe.hpp"
#include "tests/support/onnx_writer.hpp"

namespace tidemark::test {

inline Graph imported(const OnnxWriter& writer, const OnnxOptions& onnx = {},
                      ModelOptions options = {}) {
  const OnnxFile file(writer);
  options.dtype = DType::kFloat32;
  return import_onnx(file.path(), onnx, options);
}

// Trains without a loss.
inline TrainingGraph trained(const OnnxWriter& writer, const OnnxOptions& onnx = {},
                             std::int64_t micro_batch = 1) {
  ModelOptions options;
  options.loss = LossKind::kNone;
  options.micro_batch = micro_batch;
  return probe::train(imported(writer, onnx, options), "torch-1.13-cpu");
}

inline std::int64_t saved(const OnnxWriter& writer, const OnnxOptions& onnx = {},
                          std::int64_t micro_batch = 1) {
  return probe::saved_bytes(trained(writer, onnx, micro_batch));
}

// Returns the message of an import; "" when it succeeds.
inline std::string problem(const OnnxWriter& writer, const OnnxOptions& onnx = {},
                           const ModelOptions& options = {}) {
  return probe::problem_of([&] { static_cast<void>(imported(writer, onnx, options)); });
}

// Runs one operator on an activation of `dims`: input + parameter, which keeps nothing by itself.
class OnnxProbe {
 public:
  explicit OnnxProbe(const OnnxDims& dims, std::int64_t operator_set = 14)
      : w(operator_set), opset(operator_set), dims_(dims) {
    x = w.node("Add", {w.input("x", dims), w.parameter("p", dims)});
  }
  // Returns the bytes of x.
  [[nodiscard]] std::int64_t n() const {
    std::int64_t bytes = 4;
    for (std::int64_t extent : dims_)
      bytes *= extent;
    return bytes;
  }
  std::int64_t saved_with(const std::string& output) {
    w.output(output);
    return saved(w);
  }

  OnnxWriter w;
  std::int64_t opset;
  std::string x;

 private:
  OnnxDims dims_;
};

}  // namespace tidemark::test
