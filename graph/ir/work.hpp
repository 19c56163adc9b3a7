// The work of one kernel, independent of the device that runs it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "graph/core/units.hpp"
#include "graph/ir/collective.hpp"
#include "graph/ir/dtype.hpp"

namespace tidemark {

// Kernels of one class reach a similar share of a device's peak.
enum class OperatorClass : std::uint8_t {
  kNone,  // costs nothing on the device: a view, a counter
  kMatmul,
  kAttention,
  kConvolution,
  kConvolutionBackwardData,
  kConvolutionBackwardWeight,
  kDepthwiseConvolution,
  kNormalization,
  kSoftmax,
  kElementwise,
  kReduction,
  kPooling,
  kEmbedding,
  kOptimizer,
  kMemset,
  kCollective,  // `collective`; its time comes from the interconnect
  kFixed,       // `fixed` time, whatever the device: nodes of a cost graph
};
inline constexpr int kOperatorClasses = static_cast<int>(OperatorClass::kFixed) + 1;

[[nodiscard]] constexpr std::string_view name_of(OperatorClass c) {
  constexpr std::string_view kNames[] = {"none",
                                         "matmul",
                                         "attention",
                                         "convolution",
                                         "convolution_backward_data",
                                         "convolution_backward_weight",
                                         "depthwise_convolution",
                                         "normalization",
                                         "softmax",
                                         "elementwise",
                                         "reduction",
                                         "pooling",
                                         "embedding",
                                         "optimizer",
                                         "memset",
                                         "collective",
                                         "fixed"};
  return kNames[static_cast<int>(c)];
}

// Whether a device's figures say how long an operator of the class takes.
[[nodiscard]] constexpr bool is_priced_by_device(OperatorClass c) {
  return c != OperatorClass::kNone && c != OperatorClass::kFixed && c != OperatorClass::kCollective;
}

// Values of Work::extent[3] of kAttention: a set of these. Causal flops count only the unmasked
// half.
inline constexpr std::int64_t kAttentionCausal = 1;
inline constexpr std::int64_t kAttentionBackward = 2;

// The window of a dense convolution, as the choice of its kernel depends on it.
struct ConvolutionWindow {
  std::int64_t channels = 0;  // input channels per group; 0: not stated
  std::int64_t groups = 1;
  bool pointwise = false;       // 1x1
  bool strided = false;         // moves by more than one place
  bool three_by_three = false;  // moves by one place: what Winograd's algorithm is for
};

struct Work {
  OperatorClass op_class = OperatorClass::kNone;
  DType dtype = DType::kFloat32;  // type of the arithmetic: selects the device's peak
  Flops flops;
  Bytes read;  // compulsory traffic: each operand once
  Bytes written;
  // Moved by further elementwise kernels of the operator, one after the other with this one: a bias
  // that is added, an operand that is reordered. In neither of the two above.
  Bytes apart;
  // kMatmul: {m, n, k, batch}; kSoftmax: {rows, columns}; dense convolutions: those of the product
  // that they are, its batch the groups; kAttention: {query length, key length, head width, flags};
  // otherwise unused.
  std::array<std::int64_t, 4> extent{};
  ConvolutionWindow window;  // dense convolutions only
  // Whether the operands have their channels next to each other in memory: convolutions and
  // normalizations, whose kernels differ by it.
  bool channels_last = false;
  bool two_of_four = false;  // kMatmul: the weight holds two of four values (sparse tensor cores)
  int launches = 1;          // kernels that one call of the framework starts
  Duration fixed{};          // kFixed only
  Collective collective{};   // kCollective only
};

}  // namespace tidemark
