// Whole blocks of transformers as PyTorch 1.13 exports them: the sums of the bytes that autograd
// keeps, each checked against measured steps. N = 4 B T C, A = 4 B H T T, F = 4 B T (hidden width),
// R = B T.
#if TIDEMARK_READS_ONNX
#include <cmath>

#include <doctest/doctest.h>

#include "tests/graph/import/onnx/onnx_probe.hpp"

namespace tidemark::test::onnx_blocks_test {
namespace {

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kLength = 8;
constexpr std::int64_t kWidth = 32;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kHidden = 48;
constexpr std::int64_t kHead = kWidth / kHeads;
constexpr std::int64_t kN = 4 * kBatch * kLength * kWidth;
constexpr std::int64_t kA = 4 * kBatch * kHeads * kLength * kLength;
constexpr std::int64_t kF = 4 * kBatch * kLength * kHidden;
constexpr std::int64_t kR = kBatch * kLength;
const OnnxDims kTokens = {kBatch, kLength, kWidth};

std::string add(OnnxWriter& w, const std::string& a, const std::string& b) {
  return w.node("Add", {a, b});
}

std::string dropout(OnnxWriter& w, const std::string& x, double p) {
  const std::string on = w.constant(kOnnxBool, {}, std::string(1, '\1'));
  return w.nodes("Dropout", {x, w.number(p), on}, 2)[0];
}

std::string layer_norm(OnnxWriter& w, const std::string& x, const std::string& module) {
  const std::string d = w.node("Sub", {x, w.node("ReduceMean", {x}, {{"axes", OnnxDims{-1}}})});
  const std::string squares = w.node("Pow", {d, w.number(2)});
  const std::string variance = w.node("ReduceMean", {squares}, {{"axes", OnnxDims{-1}}});
  const std::string y = w.node("Div", {d, w.node("Sqrt", {add(w, variance, w.number(1e-5))})});
  const std::string scaled = w.node("Mul", {y, w.parameter(module + ".weight", {kWidth})});
  return add(w, scaled, w.parameter(module + ".bias", {kWidth}));
}

std::string rms_norm(OnnxWriter& w, const std::string& x, const std::string& module) {
  const std::string squares = w.node("Pow", {x, w.number(2)});
  const std::string mean = w.node("ReduceMean", {squares}, {{"axes", OnnxDims{-1}}});
  const std::string root = w.node("Sqrt", {add(w, mean, w.number(1e-5))});
  const std::string y = w.node("Mul", {x, w.node("Div", {w.number(1), root})});
  return w.node("Mul", {y, w.parameter(module + ".weight", {kWidth})});
}

std::string heads(OnnxWriter& w, const std::string& x, std::int64_t count = kHeads) {
  return w.transpose(w.reshape(x, {kBatch, kLength, count, kHead}), {0, 2, 1, 3});
}

std::string merged(OnnxWriter& w, const std::string& x) {
  return w.reshape(w.transpose(x, {0, 2, 1, 3}), {kBatch, kLength, kWidth});
}

std::string softmax(OnnxWriter& w, const std::string& x) {
  return w.node("Softmax", {x}, {{"axis", std::int64_t{-1}}});
}

std::string gelu(OnnxWriter& w, const std::string& x) {
  const std::string erf = w.node("Erf", {w.node("Div", {x, w.number(std::sqrt(2.0))})});
  return w.node("Mul", {w.node("Mul", {x, add(w, erf, w.number(1))}), w.number(0.5)});
}

// nanoGPT's Block.
std::string gpt_block(OnnxWriter& w, const std::string& x, double p) {
  const std::string packed = w.linear(layer_norm(w, x, "ln_1"), "attn.c_attn", kWidth, 3 * kWidth);
  const auto qkv = w.nodes("Split", {packed, w.integers({kWidth, kWidth, kWidth})}, 3,
                           {{"axis", std::int64_t{2}}});
  const std::string keys =
      w.transpose(w.reshape(qkv[1], {kBatch, kLength, kHeads, kHead}), {0, 2, 3, 1});
  std::string scores = w.node("MatMul", {heads(w, qkv[0]), keys});
  scores = w.node("Mul", {scores, w.number(0.35)});
  std::string mask = w.buffer("attn.bias", {1, 1, 2 * kLength, 2 * kLength});
  for (const std::int64_t axis : {2, 3}) {
    mask = w.node("Slice", {mask, w.integers({0}), w.integers({kLength}), w.integers({axis})});
  }
  mask = w.node("Cast", {w.node("Equal", {mask, w.number(0)})}, {{"to", std::int64_t{kOnnxBool}}});
  scores = w.node("Where", {mask, w.number(-1e9), scores});
  const std::string weights = dropout(w, softmax(w, scores), p);
  std::string y = merged(w, w.node("MatMul", {weights, heads(w, qkv[2])}));
  y = add(w, x, dropout(w, w.linear(y, "attn.c_proj", kWidth, kWidth), p));
  std::string h = w.linear(layer_norm(w, y, "ln_2"), "mlp.c_fc", kWidth, 4 * kWidth);
  h = w.linear(gelu(w, h), "mlp.c_proj", 4 * kWidth, kWidth);
  return add(w, y, dropout(w, h, p));
}

// nn.TransformerEncoderLayer(norm_first=True, batch_first=True) with ReLU.
std::string encoder_layer(OnnxWriter& w, const std::string& x, double p) {
  const std::string turned = w.transpose(layer_norm(w, x, "norm1"), {1, 0, 2});
  const std::string packed = w.linear(turned, "self_attn", kWidth, 3 * kWidth);
  const auto third = [&](std::int64_t i, const OnnxDims& permutation) {
    const std::string part = w.node("Slice", {packed, w.integers({i * kWidth}),
                                              w.integers({(i + 1) * kWidth}), w.integers({-1})});
    return w.transpose(w.reshape(part, {kLength, kBatch * kHeads, kHead}), permutation);
  };
  const std::string q = w.node("Div", {third(0, {1, 0, 2}), w.number(std::sqrt(8.0))});
  const std::string k = third(1, {1, 2, 0});
  const std::string v = third(2, {1, 0, 2});
  const std::string weights = dropout(w, softmax(w, w.node("MatMul", {q, k})), p);
  std::string y = w.transpose(w.node("MatMul", {weights, v}), {1, 0, 2});
  y = w.reshape(y, {kLength * kBatch, kWidth});
  y = w.node("Gemm",
             {y, w.parameter("out.weight", {kWidth, kWidth}), w.parameter("out.bias", {kWidth})},
             {{"transB", std::int64_t{1}}});
  y = w.transpose(w.reshape(y, {kLength, kBatch, kWidth}), {1, 0, 2});
  y = add(w, x, dropout(w, y, p));
  std::string h = w.linear(layer_norm(w, y, "norm2"), "linear1", kWidth, kHidden);
  h = w.linear(dropout(w, w.node("Relu", {h}), p), "linear2", kHidden, kWidth);
  return add(w, y, dropout(w, h, p));
}

std::string rotated(OnnxWriter& w, const std::string& x, const std::string& cos,
                    const std::string& sin) {
  const auto half = [&](std::int64_t from, std::int64_t to) {
    return w.node("Slice", {x, w.integers({from}), w.integers({to}), w.integers({-1})});
  };
  const std::string negative = w.node("Neg", {half(kHead / 2, INT64_MAX)});
  const std::string turned =
      w.node("Concat", {negative, half(0, kHead / 2)}, {{"axis", std::int64_t{-1}}});
  return add(w, w.node("Mul", {x, cos}), w.node("Mul", {turned, sin}));
}

// Llama's block with grouped queries.
std::string llama_block(OnnxWriter& w, const std::string& x) {
  constexpr std::int64_t kGroups = 2;
  const std::string cos = w.buffer("cos", {kLength, kHead});
  const std::string sin = w.buffer("sin", {kLength, kHead});
  const std::string h = rms_norm(w, x, "n1");
  const std::string q = rotated(w, heads(w, w.linear(h, "q", kWidth, kWidth, false)), cos, sin);
  const auto repeated = [&](const std::string& kv) {
    const std::string apart = w.node("Unsqueeze", {kv, w.integers({2})});
    const std::string all =
        w.node("Expand", {apart, w.integers({kBatch, kGroups, kHeads / kGroups, kLength, kHead})});
    return w.reshape(all, {kBatch, kHeads, kLength, kHead});
  };
  const std::string k = repeated(
      rotated(w, heads(w, w.linear(h, "k", kWidth, kGroups * kHead, false), kGroups), cos, sin));
  const std::string v =
      repeated(heads(w, w.linear(h, "v", kWidth, kGroups * kHead, false), kGroups));
  std::string scores = w.node("MatMul", {q, w.transpose(k, {0, 1, 3, 2})});
  scores = add(w, w.node("Div", {scores, w.number(2.8)}), w.buffer("mask", {kLength, kLength}));
  std::string y = merged(w, w.node("MatMul", {softmax(w, scores), v}));
  y = add(w, x, w.linear(y, "o", kWidth, kWidth, false));
  const std::string n = rms_norm(w, y, "n2");
  const std::string gate = w.linear(n, "g", kWidth, kHidden, false);
  const std::string silu = w.node("Mul", {gate, w.node("Sigmoid", {gate})});
  const std::string product = w.node("Mul", {silu, w.linear(n, "u", kWidth, kHidden, false)});
  return add(w, y, w.linear(product, "d", kHidden, kWidth, false));
}

// T5's encoder layer; the relative bias comes from a table by a constant index.
std::string t5_layer(OnnxWriter& w, const std::string& x, double p) {
  const std::string h = rms_norm(w, x, "n1");
  const std::string q = heads(w, w.linear(h, "q", kWidth, kWidth, false));
  const std::string k = w.transpose(
      w.reshape(w.linear(h, "k", kWidth, kWidth, false), {kBatch, kLength, kHeads, kHead}),
      {0, 2, 3, 1});
  const std::string v = heads(w, w.linear(h, "v", kWidth, kWidth, false));
  const std::string index = w.constant(kOnnxInt64, {kLength, kLength},
                                       OnnxWriter::bytes_of(OnnxDims(kLength * kLength, 0)));
  const std::string rows = w.node("Gather", {w.parameter("rb.weight", {32, kHeads}), index});
  const std::string bias = w.node("Unsqueeze", {w.transpose(rows, {2, 0, 1}), w.integers({0})});
  std::string scores = add(w, w.node("MatMul", {q, k}), bias);
  scores = w.node("Cast", {scores}, {{"to", std::int64_t{kOnnxFloat}}});
  std::string y = merged(w, w.node("MatMul", {dropout(w, softmax(w, scores), p), v}));
  y = add(w, x, dropout(w, w.linear(y, "o", kWidth, kWidth, false), p));
  const std::string n = rms_norm(w, y, "n3");
  const std::string hidden = w.node("Relu", {w.linear(n, "wi", kWidth, kHidden, false)});
  const std::string out = w.linear(dropout(w, hidden, p), "wo", kHidden, kWidth, false);
  return add(w, y, dropout(w, out, p));
}

// The block's first norm keeps x itself, which is made by an addition before it.
template <class Block>
std::int64_t kept_by(const Block& block) {
  OnnxProbe probe(kTokens);
  return probe.saved_with(block(probe.w, probe.x));
}

}  // namespace

TEST_SUITE("paper") {
  TEST_CASE("a block of nanoGPT keeps 18 N + 3 A + T T + 8 + 16 R with dropout") {
    const std::int64_t mask = kLength * kLength;
    CHECK(kept_by([](OnnxWriter& w, const std::string& x) { return gpt_block(w, x, 0.1); }) ==
          18 * kN + 3 * kA + mask + 8 + 16 * kR);
    CHECK(kept_by([](OnnxWriter& w, const std::string& x) { return gpt_block(w, x, 0); }) ==
          16 * kN + kA + mask + 8 + 16 * kR);
  }

  TEST_CASE("nn.TransformerEncoderLayer keeps 10 N + 3 A + 3 F + 16 R + 8") {
    CHECK(kept_by([](OnnxWriter& w, const std::string& x) { return encoder_layer(w, x, 0.1); }) ==
          10 * kN + 3 * kA + 3 * kF + 16 * kR + 8);
  }

  TEST_CASE("a block of Llama keeps 12 N + A + 4 F + 8 R + 8: rotation keeps nothing") {
    CHECK(kept_by([](OnnxWriter& w, const std::string& x) { return llama_block(w, x); }) ==
          12 * kN + kA + 4 * kF + 8 * kR + 8);
  }

  TEST_CASE("Llama's tables taken for parameters keep more: roles matter") {
    OnnxProbe probe(kTokens);
    const std::string y = llama_block(probe.w, probe.x);
    probe.w.output(y);
    OnnxOptions wrong;
    wrong.roles = {{"cos", OnnxRole::kParameter}, {"sin", OnnxRole::kParameter}};
    CHECK(saved(probe.w, wrong) > saved(probe.w));
  }

  TEST_CASE("an encoder layer of T5 keeps 14 N + 3 A + 3 F + 8 R and its index") {
    CHECK(kept_by([](OnnxWriter& w, const std::string& x) { return t5_layer(w, x, 0.1); }) ==
          14 * kN + 3 * kA + 3 * kF + 8 * kR + 8 * kLength * kLength);
  }
}

}  // namespace tidemark::test::onnx_blocks_test
#endif
