// Whole models against measured steps of PyTorch 1.13.1: shared/cases/torch.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/graph/operators/probe.hpp"

namespace tidemark::operators_measured_step_test {
namespace {

using probe::peak_bytes;
using probe::saved_bytes;

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kLength = 128;
constexpr std::int64_t kWidth = 256;
constexpr std::int64_t kHeads = 8;
constexpr std::int64_t kVocabulary = 4096;

TensorId gpt_attention(ModelBuilder& b, TensorId x, double dropout) {
  auto attention = b.scope("attn");
  attention.local(x);
  const TensorId mask = b.buffer("bias", {1, 1, kLength, kLength}, DType::kFloat32);
  std::vector<TensorId> parts = b.split(b.linear("c_attn", x, 3 * kWidth), kWidth, 2);
  for (TensorId& part : parts) {
    part = b.transpose(b.view(part, {kBatch, kLength, kHeads, kWidth / kHeads}), 1, 2);
    attention.local(part);
  }
  TensorId y = b.attention(parts[0], parts[1], parts[2], AttentionKind::kMath, true, dropout, mask);
  y = b.view(b.contiguous(b.transpose(y, 1, 2)), {kBatch, kLength, kWidth});
  return b.dropout(b.linear("c_proj", y, kWidth), dropout);
}

Graph gpt(int layers, double dropout, std::string_view activation) {
  ModelBuilder b("gpt", DType::kFloat32);
  const TensorId tokens = b.input("tokens", {kBatch, kLength}, DType::kInt64);
  TensorId tied;
  TensorId x = b.embedding("wte", tokens, kVocabulary, kWidth, &tied);
  const TensorId positions = b.view(b.add("arange", {}, {{"length", kLength}}), {1, kLength});
  x = b.dropout(b.add_tensors(x, b.embedding("wpe", positions, kLength, kWidth)), dropout);
  for (int i = 0; i < layers; ++i) {
    const auto block = b.block(fmt::format("h.{}", i));
    x = b.add_tensors(x, gpt_attention(b, b.layer_norm("ln_1", x), dropout));
    const TensorId hidden = b.linear("mlp.c_fc", b.layer_norm("ln_2", x), 4 * kWidth);
    const TensorId y = b.linear("mlp.c_proj", b.activation(activation, hidden), kWidth);
    x = b.add_tensors(x, b.dropout(y, dropout));
  }
  b.cross_entropy_loss(b.linear_with(b.layer_norm("ln_f", x), tied));
  return b.finish();
}

Graph mlp(std::int64_t batch) {
  ModelBuilder b("mlp", DType::kFloat32);
  TensorId x = b.input("x", {batch, 784}, DType::kFloat32);
  for (std::int64_t width : {1024, 1024, 512}) {
    x = b.activation("relu", b.linear(fmt::format("fc{}", width), x, width));
  }
  b.cross_entropy_loss(b.linear("head", x, 10));
  return b.finish();
}

TensorId convolution(ModelBuilder& b, std::string_view module, TensorId x, std::int64_t channels,
                     std::int64_t kernel, std::int64_t stride) {
  return b.conv2d(module, x, channels,
                  {.kernel = kernel, .stride = stride, .padding = kernel / 2, .bias = false});
}

// torchvision's BasicBlock: out += identity; relu in place.
TensorId basic_block(ModelBuilder& b, TensorId x, std::int64_t channels, std::int64_t stride) {
  auto block = b.block(fmt::format("layer{}.{}", channels, stride));
  block.local(x);
  TensorId y = b.batch_norm("bn1", convolution(b, "conv1", x, channels, 3, stride));
  y = convolution(b, "conv2", b.activation("relu", y, true), channels, 3, 1);
  y = b.batch_norm("bn2", y);
  TensorId identity = x;
  if (stride != 1) {
    identity = b.batch_norm("downsample.1", convolution(b, "downsample.0", x, channels, 1, stride));
  }
  block.local(identity);
  return b.activation("relu", b.add_tensors(y, identity, true), true);
}

Graph resnet18(std::int64_t batch) {
  ModelBuilder b("resnet18", DType::kFloat32);
  TensorId x = b.input("images", {batch, 3, 224, 224}, DType::kFloat32);
  x = b.batch_norm("bn1", convolution(b, "conv1", x, 64, 7, 2));
  x = b.max_pool2d(b.activation("relu", x, true), 3, 2, 1);
  for (std::int64_t channels : {64, 128, 256, 512}) {
    x = basic_block(b, x, channels, channels == 64 ? 1 : 2);
    x = basic_block(b, x, channels, 1);
  }
  b.cross_entropy_loss(b.linear("fc", b.flatten(b.global_avg_pool2d(x), 1), 1000));
  return b.finish();
}

TEST_SUITE("golden") {
  TEST_CASE("an MLP of batch 256 saves 2,631,684 bytes and peaks in the first bias gradient") {
    const TrainingGraph graph = probe::train(mlp(256), "torch-1.13-cpu");
    // 256 * (1024 + 1024 + 512) * 4 + log_softmax 256 * 10 * 4 + total_weight 4.
    CHECK(saved_bytes(graph) == 2'631'684);
    // Parameters 9,533,480 + inputs 804,864 + gradients 9,533,480 + the incoming gradient
    // 1,048,576 + root gradient 4 + loss 4: mlp_b256_sgd_none.
    CHECK(peak_bytes(graph) == 20'920'408);
  }

  // The peaks are those of the case less the optimizer's state, 33,927,376 bytes.
  TEST_CASE("a GPT of four layers saves what PyTorch saves and peaks in log_softmax's backward") {
    const TrainingGraph graph = probe::train(gpt(4, 0, "gelu"), "torch-1.13-cpu");
    // x = B T C 4 = 262,144; A = B H T T 4 = 1,048,576; st = 8 B T = 2,048.
    // Block: 16 x + A + 2 st + T T + 8 = 5,263,368; head: 2 x + st + 4 B T V + 8 T + 4 = 4,721,668.
    CHECK(saved_bytes(graph) == 25'775'140);
    // Parameters 16,963,584 + masks 262,144 + inputs 4,096 + saved 25,775,140 - total_weight 4 +
    // loss 4 + root gradient 4 + twice the logits, 2 * 4,194,304: 85,320,952 - 33,927,376.
    CHECK(peak_bytes(graph) == 51'393'576);
  }

  TEST_CASE("dropout adds two score matrices and two activations to each block of a GPT") {
    const TrainingGraph graph = probe::train(gpt(4, 0.1, "gelu"), "torch-1.13-cpu");
    // 2 A + 2 x per block and x once: 25,775,140 + 4 * 2,621,440 + 262,144.
    CHECK(saved_bytes(graph) == 36'523'044);
    CHECK(peak_bytes(graph) == 96'068'856 - 33'927'376);
  }

  TEST_CASE("a GPT with the composed GELU saves four tensors per activation instead of two") {
    const TrainingGraph graph = probe::train(gpt(4, 0, "gelu_new"), "torch-1.13-cpu");
    // Beside input and output: half x, tanh and 1 + tanh, 4 x each, and three scalars of 8 bytes:
    // 25,775,140 + 4 * (3 * 1,048,576 + 24) = 38,358,148.
    CHECK(saved_bytes(graph) == 38'358'148);
    CHECK(peak_bytes(graph) == 97'903'960 - 33'927'376);
  }

  // The peaks are those of resnet18_b1 and resnet18_b2 (sgdm_none) less the momentum, 46,758,048.
  TEST_CASE("ResNet-18 saves 21,581,728 bytes per sample and peaks as PyTorch does") {
    const TrainingGraph one = probe::train(resnet18(1), "torch-1.13-cpu");
    CHECK(saved_bytes(one) == 21'581'728 + 38'404);
    CHECK(peak_bytes(one) == 111'502'576);
    CHECK(peak_bytes(one, true) == 112'682'224);
    const TrainingGraph two = probe::train(resnet18(2), "torch-1.13-cpu");
    CHECK(saved_bytes(two) == 2 * 21'581'728 + 38'404);
    CHECK(peak_bytes(two) == 178'933'144 - 46'758'048);
    // oneDNN's blocked copies in the convolutions included.
    CHECK(peak_bytes(two, true) == 180'112'792 - 46'758'048);
  }
}

}  // namespace
}  // namespace tidemark::operators_measured_step_test
