// Probes of matrix products, convolutions and normalisations.
#include <doctest/doctest.h>

#include "graph/models/torch_modules.hpp"
#include "tests/graph/operators/operator_probes.hpp"

namespace tidemark::probe {
namespace {

TensorId linear(Arguments& a, TensorId input, bool bias = true) {
  const TensorId weight = a.x({96, 64}, "weight");
  return a.builder.linear_with(input, weight, bias ? a.x({96}, "bias") : TensorId());
}

TensorId heads(Arguments& a, std::string_view name) {
  return a.builder.transpose(a.builder.view(a.x({2, 32, 64}, name), {2, 32, 4, 16}), 1, 2);
}

TensorId transposed_product(Arguments& a, Shape shape) {
  const TensorId left = a.x(shape, "nl_a");
  return a.builder.matmul(left, a.builder.transpose(a.x(shape, "nl_b"), -2, -1));
}

TensorId convolution(Arguments& a, TensorId input, Shape weight, bool bias,
                     Attributes attributes = {}) {
  const std::string family = weight.rank() == 3   ? "conv1d"
                             : weight.rank() == 5 ? "conv3d"
                                                  : "conv2d";
  const TensorId filters = a.x(weight, "weight");
  const TensorId added = bias ? a.x({weight[0]}, "bias") : TensorId();
  return a.op(family, {input, filters, added}, std::move(attributes));
}

TensorId conv3x3(Arguments& a, bool bias, std::string_view key, std::int64_t value) {
  const std::int64_t padding = key == "dilation" ? value : 1;
  Attributes attributes{{"padding", padding}};
  attributes.set(key, value);
  return convolution(a, a.images(), {32, 16, 3, 3}, bias, attributes);
}

// q / sqrt(width) inside the operator, two products and a softmax between them.
TensorId attention(Arguments& a, bool masked) {
  ModelBuilder& b = a.builder;
  const TensorId q = a.x({2, 4, 32, 16}, "nl_q");
  const TensorId k = a.x({2, 4, 32, 16}, "nl_k");
  const TensorId v = a.x({2, 4, 32, 16}, "nl_v");
  const TensorId scaled = a.op("scale", {q}, {{"inside_operator", std::int64_t{1}}});
  TensorId scores = b.matmul(scaled, b.transpose(k, -2, -1));
  auto scope = b.scope("attention");
  if (masked) {
    const TensorId mask = a.op("zeros", {}, {{"shape", axes({32, 32})}, {"dtype", "fp32"}});
    scope.local(mask);
    scores = b.add_tensors(scores, mask, true);
  }
  scores = b.softmax(scores);
  return b.matmul(masked ? b.dropout(scores, 0.1) : scores, v);
}

// torch.nn.MultiheadAttention(64, 4), batch_first: the arguments are [4, 32, 64].
TensorId multihead(Arguments& a) {
  return torch_multihead_attention(a.builder, "mha", a.rows(),
                                   {.heads = 4, .dropout = 0, .kind = AttentionKind::kMath});
}

// One layer, four steps of two samples, 32 features and states; batch_first.
OperatorProbe recurrent(std::string_view name, std::string_view family, std::int64_t gates,
                        std::int64_t saved) {
  return {name, saved, [=](Arguments& a) {
            const TensorId input = a.x({2, 4, 32});
            const Shape matrix{gates * 32, 32};
            const Shape row{gates * 32};
            const TensorId weight_ih = a.x(matrix, "weight_ih_l0");
            const TensorId weight_hh = a.x(matrix, "weight_hh_l0");
            const TensorId bias_ih = a.x(row, "bias_ih_l0");
            const TensorId bias_hh = a.x(row, "bias_hh_l0");
            return a.op(family, {input, weight_ih, weight_hh, bias_ih, bias_hh},
                        {{"batch_first", std::int64_t{1}}});
          }};
}

TensorId batch_norm(Arguments& a, bool affine, Shape shape) {
  const TensorId input = a.x(shape);
  if (!affine) return a.op("batch_norm", {input});
  const TensorId weight = a.parameter("weight", {16}, DType::kFloat32);
  return a.op("batch_norm", {input, weight, a.parameter("bias", {16}, DType::kFloat32)});
}

}  // namespace

std::vector<OperatorProbe> product_probes() {
  const Shape q{2, 4, 32, 16};
  return {
      {"linear_2d", 0,
       [](Arguments& a) {
         return linear(a, a.x({128, 64}));
       }},
      {"linear_3d", 0, [](Arguments& a) { return linear(a, a.rows()); }},
      {"linear_3d_nobias", 0, [](Arguments& a) { return linear(a, a.rows(), false); }},
      {"linear_3d_noncontig_input", 32768,
       [](Arguments& a) { return linear(a, a.builder.transpose(a.rows(), 0, 1)); }},
      {"linear_bf16", 0, [](Arguments& a) { return linear(a, a.rows()); }, DType::kBFloat16},
      {"matmul_4d_contig", 0,
       [=](Arguments& a) {
         const TensorId left = a.x(q, "nl_a");
         return a.builder.matmul(left, a.x({2, 4, 16, 32}, "nl_b"));
       }},
      {"matmul_4d_kT", 0, [=](Arguments& a) { return transposed_product(a, q); }},
      {"einsum_bhid_bhjd", 0, [=](Arguments& a) { return transposed_product(a, q); }},
      {"bmm_transposed_view", 0,
       [](Arguments& a) {
         return transposed_product(a, {8, 32, 16});
       }},
      {"matmul_4d_headsplit", 2 * 16384,
       [](Arguments& a) {
         const TensorId left = heads(a, "nl_a");
         return a.builder.matmul(left, a.builder.transpose(heads(a, "nl_b"), -2, -1));
       }},
      {"matmul_bcast_weight", 0,
       [=](Arguments& a) {
         const TensorId left = a.x(q, "nl_a");
         return a.builder.matmul(left, a.x({16, 32}, "b"));
       }},
      {"bmm", 0,
       [](Arguments& a) {
         const TensorId left = a.x({8, 32, 16}, "nl_a");
         return a.op("bmm", {left, a.x({8, 16, 32}, "nl_b")});
       }},
      {"baddbmm", 0,
       [](Arguments& a) {
         const TensorId added = a.x({8, 32, 32}, "nl_c");
         const TensorId left = a.x({8, 32, 16}, "nl_a");
         return a.op("baddbmm", {added, left, a.x({8, 16, 32}, "nl_b")});
       }},
      {"conv2d_3x3", 0, [](Arguments& a) { return conv3x3(a, true, "stride", 1); }},
      {"conv2d_3x3s2", 0, [](Arguments& a) { return conv3x3(a, true, "stride", 2); }},
      {"conv2d_3x3nobias", 0, [](Arguments& a) { return conv3x3(a, false, "stride", 1); }},
      {"conv2d_dil2", 0, [](Arguments& a) { return conv3x3(a, true, "dilation", 2); }},
      {"conv2d_1x1", 0,
       [](Arguments& a) {
         return convolution(a, a.images(), {32, 16, 1, 1}, true);
       }},
      {"conv2d_dw3x3", 0,
       [](Arguments& a) {
         return convolution(a, a.images(), {16, 1, 3, 3}, false,
                            {{"padding", std::int64_t{1}}, {"groups", std::int64_t{16}}});
       }},
      {"conv2d_first_layer(no grad in)", 0,
       [](Arguments& a) {
         const TensorId images = a.constant("x", {4, 16, 32, 32});
         return convolution(a, images, {32, 16, 3, 3}, true, {{"padding", std::int64_t{1}}});
       }},
      {"conv2d_channels_last", 0,
       [](Arguments& a) {
         const TensorId stored = a.x({4, 32, 32, 16});
         const TensorId images = a.op("permute", {stored}, {{"axes", axes({0, 3, 1, 2})}});
         return convolution(a, images, {32, 16, 3, 3}, true, {{"padding", std::int64_t{1}}});
       }},
      {"conv_transpose2d", 0,
       [](Arguments& a) {
         const TensorId images = a.images();
         const TensorId weight = a.x({16, 8, 2, 2}, "weight");
         return a.op("conv_transpose2d", {images, weight, a.x({8}, "bias")},
                     {{"stride", std::int64_t{2}}});
       }},
      {"conv1d", 0,
       [](Arguments& a) {
         return convolution(a, a.x({4, 16, 64}), {32, 16, 3}, true, {{"padding", std::int64_t{1}}});
       }},
      {"conv3d", 0,
       [](Arguments& a) {
         return convolution(a, a.x({2, 8, 8, 16, 16}), {16, 8, 3, 3, 3}, true,
                            {{"padding", std::int64_t{1}}});
       }},
      {"sdpa_math_1.13", 16384 + 32768, [](Arguments& a) { return attention(a, false); }},
      {"sdpa_math_causal", 16384 + 3 * 32768, [](Arguments& a) { return attention(a, true); }},
      // Input copy, thirds q, k and v, q divided, the scores' softmax, what out_proj reads, sqrt.
      {"MultiheadAttention", 5 * 32768 + 65536 + 8, multihead},
      // In units of a state, 256: input copy 4, h and c 4 each, gates 16, tanh(c) 4.
      recurrent("LSTM_1layer_T4", "lstm", 4, 32 * 256),
      // Input copy 4, h 4, gates 12, two clones and n 12.
      recurrent("GRU_1layer_T4", "gru", 3, 32 * 256),
      // Input copy 4, h 5 with the first.
      recurrent("RNN_tanh_T4", "rnn", 1, 9 * 256),
      {"MultiheadAttention_weights", 5 * 32768 + 65536 + 8, multihead},
  };
}

std::vector<OperatorProbe> normalization_probes() {
  const Shape images{4, 16, 32, 32};
  return {
      {"batch_norm2d", 128, [=](Arguments& a) { return batch_norm(a, true, images); }},
      {"batch_norm2d_affine_false", 128,
       [=](Arguments& a) { return batch_norm(a, false, images); }},
      {"batch_norm_bf16_in", 128,
       [](Arguments& a) {
         return batch_norm(a, true, {4, 16, 8, 8});
       },
       DType::kBFloat16},
      {"instance_norm2d", 768,
       [](Arguments& a) { return a.affine("instance_norm", a.images(), 16); }},
      {"layer_norm", 1024, [](Arguments& a) { return a.affine("layer_norm", a.rows(), 64); }},
      {"layer_norm_bf16", 512, [](Arguments& a) { return a.affine("layer_norm", a.rows(), 64); },
       DType::kBFloat16},
      {"group_norm", 128,
       [](Arguments& a) {
         return a.affine("group_norm", a.images(), 16, {{"groups", std::int64_t{4}}});
       }},
  };
}

}  // namespace tidemark::probe
