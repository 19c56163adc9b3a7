// Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models": a
// transformer layer in 16 bit keeps s b h (34 + 5 a s / h) bytes of activations (section 4.1).
#include <map>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/graph/operators/probe.hpp"

namespace tidemark::korthikanti_test {
namespace {

constexpr std::int64_t kS = 128;  // sequence length
constexpr std::int64_t kB = 2;    // micro-batch
constexpr std::int64_t kH = 128;  // width
constexpr std::int64_t kA = 4;    // heads
constexpr double kDropout = 0.1;

// One layer as nanoGPT writes it.
TensorId layer(ModelBuilder& b, int index, TensorId x) {
  const auto block = b.block(fmt::format("h.{}", index));
  const TensorId mask = b.buffer("bias", {1, 1, kS, kS}, DType::kFloat32);
  std::vector<TensorId> heads = b.split(b.linear("c_attn", b.layer_norm("ln_1", x), 3 * kH), kH, 2);
  for (TensorId& part : heads)
    part = b.transpose(b.view(part, {kB, kS, kA, kH / kA}), 1, 2);
  TensorId y =
      b.attention(heads[0], heads[1], heads[2], AttentionKind::kMath, true, kDropout, mask);
  y = b.view(b.contiguous(b.transpose(y, 1, 2)), {kB, kS, kH});
  x = b.add_tensors(x, b.dropout(b.linear("attn.c_proj", y, kH), kDropout));
  y = b.activation("gelu", b.linear("c_fc", b.layer_norm("ln_2", x), 4 * kH));
  return b.add_tensors(x, b.dropout(b.linear("mlp.c_proj", y, kH), kDropout));
}

// Layers between an embedding and a head, whose own activations cancel in differences.
TrainingGraph gpt(int layers) {
  ModelBuilder b("gpt", DType::kBFloat16);
  const TensorId tokens = b.input("tokens", {kB, kS}, DType::kInt64);
  TensorId x = b.dropout(b.embedding("wte", tokens, 64, kH), kDropout);
  for (int i = 0; i < layers; ++i)
    x = layer(b, i, x);
  b.cross_entropy_loss(b.linear("head", b.layer_norm("ln_f", x), 64, false));
  return probe::train(b.finish(), "torch-2.4-cuda");
}

// Returns the storages that the second of two layers keeps: how many of which name and size.
std::map<std::pair<std::string, std::int64_t>, int> kept_by_one_layer() {
  std::map<std::pair<std::string, std::int64_t>, int> kept;
  for (const auto& entry : probe::saved_by_name(gpt(2)))
    ++kept[entry];
  for (const auto& entry : probe::saved_by_name(gpt(1)))
    --kept[entry];
  std::erase_if(kept, [](const auto& entry) { return entry.second == 0; });
  return kept;
}

TEST_SUITE("paper") {
  TEST_CASE("a 16-bit GPT layer keeps sbh(34 + 5as/h) bytes, its statistics and its mask") {
    const std::int64_t sbh = kS * kB * kH;
    const std::int64_t ass = kA * kS * kS * kB;  // a s^2 b
    const std::int64_t paper = 34 * sbh + 5 * ass;
    const std::int64_t statistics = 2 * 2 * 4 * kS * kB;  // two norms, mean and rstd in fp32
    const std::int64_t mask = kS * kS;                    // masked_fill's comparison
    const std::int64_t kept = probe::saved_bytes(gpt(2)) - probe::saved_bytes(gpt(1));
    CHECK(kept == paper + statistics + mask);
  }

  TEST_CASE("each term of the paper's sum is a storage that autograd keeps") {
    const std::int64_t sbh = kS * kB * kH;
    const std::int64_t ass = kA * kS * kS * kB;
    using Kept = std::map<std::pair<std::string, std::int64_t>, int>;
    const Kept expected = {
        // attention, 11 sbh + 5 as^2b
        {{"layer_norm", 2 * sbh}, 2},  // inputs of c_attn and (MLP) of c_fc
        {{"reshape", 2 * sbh}, 3},     // copies of q, k transposed and v, kept by bmm
        {{"softmax", 2 * ass}, 1},     // softmax's output
        {{"mask", ass}, 1},            // attention dropout's mask
        {{"dropout", 2 * ass}, 1},     // dropped scores, kept by bmm with v
        {{"contiguous", 2 * sbh}, 1},  // input of attn.c_proj
        {{"mask", sbh}, 2},            // dropout's masks of attention and MLP
        // MLP, 19 sbh
        {{"linear", 8 * sbh}, 1},  // input of gelu
        {{"gelu", 8 * sbh}, 1},    // input of mlp.c_proj
        // layer norms, 4 sbh: the residual stream before each
        {{"add", 2 * sbh}, 2},
        // beside the paper's terms
        {{"mean", 4 * kS * kB}, 2},
        {{"rstd", 4 * kS * kB}, 2},
        {{"mask", kS * kS}, 1},  // the causal mask
    };
    CHECK(kept_by_one_layer() == expected);
  }
}

}  // namespace
}  // namespace tidemark::korthikanti_test
