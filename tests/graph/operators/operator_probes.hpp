// One operator at a time, as it was probed on PyTorch 1.13.1 (reference/torch-op-rules): the graph
// of each probe, and the bytes that it keeps beside its arguments and its result.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/core/ids.hpp"
#include "graph/models/builder.hpp"

namespace tidemark::probe {

// Arguments by the names that the probes give them.
class Arguments {
 public:
  explicit Arguments(DType dtype) : builder("probe", dtype) {}

  // The probes' nl_x: an activation that needs a gradient.
  TensorId x(Shape shape, std::string_view name = "nl_x") {
    return named(name, builder.parameter(name, shape));
  }
  TensorId constant(std::string_view name, Shape shape, DType dtype = DType::kFloat32) {
    return named(name, builder.input(name, shape, dtype));
  }
  // Differentiated arguments of another type than the probe's own: made trainable when the graph is
  // done.
  TensorId parameter(std::string_view name, Shape shape, DType dtype) {
    retyped.push_back(builder.input(name, shape, dtype));
    return named(name, retyped.back());
  }
  // [4, 32, 64] and [4, 16, 32, 32]: the shapes of most probes.
  TensorId rows(std::string_view name = "nl_x") { return x({4, 32, 64}, name); }
  TensorId images(std::string_view name = "nl_x") { return x({4, 16, 32, 32}, name); }

  TensorId op(std::string_view family, std::vector<TensorId> inputs, Attributes attributes = {}) {
    return builder.add(family, std::move(inputs), std::move(attributes));
  }
  TensorId unary(std::string_view family) { return op(family, {rows()}); }
  // The probe changes a copy, since the argument itself must not change.
  TensorId in_place(std::string_view family, Attributes attributes = {}) {
    attributes.set("in_place", std::int64_t{1});
    return op(family, {op("clone", {rows()})}, std::move(attributes));
  }
  TensorId affine(std::string_view family, TensorId input, std::int64_t width,
                  Attributes attributes = {}) {
    const TensorId weight = x({width}, "weight");
    return op(family, {input, weight, x({width}, "bias")}, std::move(attributes));
  }

  ModelBuilder builder;
  std::vector<std::pair<std::string, TensorId>> names;
  std::vector<TensorId> retyped;

 private:
  TensorId named(std::string_view name, TensorId id) {
    names.emplace_back(name, id);
    return id;
  }
};

struct OperatorProbe {
  std::string_view name;
  std::int64_t saved;  // bytes that forward makes for backward, the result left out
  std::function<TensorId(Arguments&)> build;
  DType dtype = DType::kFloat32;
  // The result is a view of the argument, so AccumulateGrad takes the view of the incoming gradient
  // as it is, although its caller holds the gradient.
  bool is_view = false;
};

[[nodiscard]] inline std::vector<std::int64_t> axes(std::initializer_list<std::int64_t> list) {
  return list;
}

// The probes by subject; every row of the reference is in one of them.
[[nodiscard]] std::vector<OperatorProbe> product_probes();
[[nodiscard]] std::vector<OperatorProbe> normalization_probes();
[[nodiscard]] std::vector<OperatorProbe> elementwise_probes();
[[nodiscard]] std::vector<OperatorProbe> shape_probes();
[[nodiscard]] std::vector<OperatorProbe> loss_probes();

}  // namespace tidemark::probe
