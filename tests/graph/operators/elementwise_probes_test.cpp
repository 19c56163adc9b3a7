// Probes of functions of single elements, reductions and dropout.
#include <doctest/doctest.h>

#include "tests/graph/operators/operator_probes.hpp"

namespace tidemark::probe {
namespace {

constexpr std::int64_t kRows = 4 * 32 * 64 * 4;  // bytes of [4, 32, 64]

// log, sqrt and rsqrt were probed on x.abs() + 0.1.
TensorId of_positive(Arguments& a, std::string_view family) {
  return a.op(family, {a.op("add_scalar", {a.unary("abs")})});
}

TensorId reduced(Arguments& a, std::string_view family, bool keep = false) {
  Attributes attributes{{"axes", axes({-1})}};
  if (keep) attributes.set("keepdim", std::int64_t{1});
  return a.op(family, {a.rows()}, attributes);
}

TensorId binary(Arguments& a, std::string_view family, TensorId left, std::string_view name,
                Shape shape) {
  return a.op(family, {left, a.x(shape, name)});
}

OperatorProbe unary(std::string_view name, std::string_view family, std::int64_t saved = 0) {
  return {name, saved, [=](Arguments& a) { return a.unary(family); }};
}

OperatorProbe pair(std::string_view name, std::string_view family) {
  return {name, 0, [=](Arguments& a) {
            const TensorId left = a.rows("nl_a");
            return binary(a, family, left, "nl_b", {4, 32, 64});
          }};
}

OperatorProbe scaled_image(std::string_view name, std::string_view partner, Shape shape) {
  return {name, 0, [=](Arguments& a) {
            const TensorId left = a.images("nl_a");
            return binary(a, "mul", left, partner, shape);
          }};
}

OperatorProbe changed_in_place(std::string_view name, std::string_view family, std::int64_t saved) {
  return {name, saved, [=](Arguments& a) { return a.in_place(family); }};
}

}  // namespace

std::vector<OperatorProbe> elementwise_probes() {
  return {
      unary("relu", "relu"),
      unary("gelu", "gelu"),
      {"gelu_tanh", 0, [](Arguments& a) { return a.builder.activation("gelu_tanh", a.rows()); }},
      unary("silu", "silu"),
      unary("hardswish", "hardswish"),
      unary("hardsigmoid", "hardsigmoid"),
      unary("relu6", "relu6"),
      unary("sigmoid", "sigmoid"),
      unary("tanh", "tanh"),
      unary("leaky_relu", "leaky_relu"),
      unary("elu", "elu"),
      unary("softplus", "softplus"),
      unary("mish", "mish"),
      unary("logsigmoid", "logsigmoid", kRows),
      unary("exp", "exp"),
      {"log", kRows, [](Arguments& a) { return of_positive(a, "log"); }},
      {"sqrt", 0, [](Arguments& a) { return of_positive(a, "sqrt"); }},
      {"rsqrt", 0, [](Arguments& a) { return of_positive(a, "rsqrt"); }},
      {"pow2", 0,
       [](Arguments& a) {
         return a.op("pow", {a.rows()}, {{"exponent", 2.0}});
       }},
      {"pow3", 0,
       [](Arguments& a) {
         return a.op("pow", {a.rows()}, {{"exponent", 3.0}});
       }},
      unary("abs", "abs"),
      unary("neg", "neg"),
      unary("clamp", "clamp"),
      unary("erf", "erf"),
      {"square_mul", 0,
       [](Arguments& a) {
         const TensorId x = a.rows();
         return a.op("mul", {x, x});
       }},
      unary("mul_scalar", "scale", 8),
      unary("div_scalar", "scale", 8),
      unary("add_scalar", "add_scalar"),
      unary("mean", "mean"),
      {"mean_dim", 0, [](Arguments& a) { return reduced(a, "mean", true); }},
      unary("sum", "sum"),
      {"sum_dim", 0, [](Arguments& a) { return reduced(a, "sum"); }},
      {"var_dim", 0, [](Arguments& a) { return reduced(a, "var"); }},
      {"std_dim", 0, [](Arguments& a) { return reduced(a, "std"); }},
      unary("norm", "norm"),
      {"max_dim", 1024, [](Arguments& a) { return reduced(a, "max"); }},
      {"logsumexp", 0, [](Arguments& a) { return reduced(a, "logsumexp"); }},
      unary("softmax", "softmax"),
      unary("log_softmax", "log_softmax"),
      {"softmax_bf16_to_float", 0,
       [](Arguments& a) {
         return a.op("softmax", {a.rows()}, {{"dtype", "fp32"}});
       },
       DType::kBFloat16},
      {"dropout", kRows, [](Arguments& a) { return a.builder.dropout(a.rows(), 0.1); }},
      {"dropout_p0", 0, [](Arguments& a) { return a.builder.dropout(a.rows(), 0); }},
      {"dropout_eval", 0, [](Arguments& a) { return a.builder.dropout(a.rows(), 0); }},
      {"dropout2d", 4 * 16 * 4,
       [](Arguments& a) { return a.op("feature_dropout", {a.images("nl_a")}); }},
      {"stochastic_depth_row", 16,
       [](Arguments& a) { return a.op("stochastic_depth", {a.images("nl_a")}); }},
      unary("cumsum", "cumsum"),
      changed_in_place("relu_inplace", "relu", 0),
      changed_in_place("silu_inplace", "silu", kRows),
      changed_in_place("hardswish_inplace", "hardswish", kRows),
      changed_in_place("relu6_inplace", "relu6", kRows),
      {"dropout_inplace", kRows,
       [](Arguments& a) {
         return a.in_place("dropout", {{"p", 0.1}});
       }},
      pair("add_tensors", "add"),
      {"add_inplace", 0,
       [](Arguments& a) {
         const TensorId copy = a.op("clone", {a.rows("nl_a")});
         return a.builder.add_tensors(copy, a.rows("nl_b"), true);
       }},
      {"add_bcast_bias", 0,
       [](Arguments& a) {
         const TensorId left = a.rows("nl_a");
         return binary(a, "add", left, "b", {64});
       }},
      pair("sub_tensors", "sub"),
      pair("mul_tensors", "mul"),
      pair("div_tensors", "div"),
      pair("maximum", "maximum"),
      {"mul_bcast_weight", 0,
       [](Arguments& a) {
         const TensorId left = a.rows("nl_a");
         return binary(a, "mul", left, "b", {64});
       }},
      {"mul_const_tensor", 0,
       [](Arguments& a) {
         const TensorId left = a.rows("nl_a");
         return a.op("mul", {left, a.constant("b", {64})});
       }},
      scaled_image("layer_scale_mul(C,1,1)", "b", {16, 1, 1}),
      scaled_image("se_mul(B,C,1,1)", "nl_b", {4, 16, 1, 1}),
  };
}

}  // namespace tidemark::probe
