#include "hwprofiles/cost_model.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <span>

#include "graph/ir/convolutions.hpp"

namespace tidemark {
namespace cost_model_detail {
namespace {

struct Tile {
  std::int64_t m;
  std::int64_t n;
};

// Output tiles of cuBLAS and CUTLASS kernels.
constexpr std::array<Tile, 8> kTiles = {
    {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}, {64, 32}, {32, 64}}};
constexpr std::array<std::int64_t, 5> kSplits = {1, 2, 4, 8, 16};  // splits of the reduction
constexpr std::int64_t kShortestSplit = 32;                        // elements of the reduction
constexpr double kFullTile = 128.0 * 128.0;                        // area that runs at full rate
constexpr double kPartialBytes = 4;  // fp32 partial results of a split reduction

// Doubles hold integers exactly up to 2^53, far above any extent.
double real(std::int64_t count) {
  return static_cast<double>(count);
}

double seconds_of(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Times beyond the largest quantity are that; a step with one is refused when it is compiled.
Duration nanoseconds_of(double seconds) {
  constexpr auto kMost = static_cast<double>(kLargestQuantity);
  return Duration(std::max<std::int64_t>(1, std::llround(std::min(seconds * 1e9, kMost))));
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

bool runs_on_tensor_cores(DType type) {
  return type != DType::kFloat64 && type != DType::kFloat32;
}

// Classes whose bandwidth share was measured on tensors larger than L2.
bool profits_from_cache(OperatorClass op_class) {
  switch (op_class) {
    case OperatorClass::kDepthwiseConvolution:
    case OperatorClass::kNormalization:
    case OperatorClass::kSoftmax:
    case OperatorClass::kElementwise:
    case OperatorClass::kReduction:
    case OperatorClass::kPooling:
      return true;
    default:
      return false;
  }
}

double interpolate(double from, double to, double weight) {
  return from + (to - from) * weight;
}

// Returns the curve at `width`, between its two neighbours; beyond the ends the last one holds.
AttentionCurve curve_at(std::span<const AttentionCurve> curves, std::int64_t width) {
  const auto above = std::find_if(curves.begin(), curves.end(), [width](const AttentionCurve& c) {
    return c.head_width >= width;
  });
  if (above == curves.begin()) return curves.front();
  if (above == curves.end()) return curves.back();
  const AttentionCurve& low = *(above - 1);
  const AttentionCurve& high = *above;
  const double weight = real(width - low.head_width) / real(high.head_width - low.head_width);
  return {
      .head_width = static_cast<int>(width),
      .share = interpolate(low.share, high.share, weight),
      .half_length = interpolate(low.half_length, high.half_length, weight),
      .causal_share = interpolate(low.causal_share, high.causal_share, weight),
      .causal_half_length = interpolate(low.causal_half_length, high.causal_half_length, weight)};
}

}  // namespace
}  // namespace cost_model_detail

Duration CostModel::duration(const Work& work) const {
  if (work.op_class == OperatorClass::kFixed) return work.fixed;
  if (!is_priced_by_device(work.op_class)) return Duration(0);
  if (work.op_class == OperatorClass::kMatmul) {
    return cost_model_detail::nanoseconds_of(launch_seconds(work) + matmul_seconds(work));
  }
  return cost_model_detail::nanoseconds_of(launch_seconds(work) +
                                           std::max(compute_seconds(work), memory_seconds(work)));
}

Duration CostModel::memory_duration(const Work& work) const {
  if (!is_priced_by_device(work.op_class)) return Duration(0);
  return cost_model_detail::nanoseconds_of(memory_seconds(work));
}

Duration CostModel::launch_duration(const Work& work) const {
  if (!is_priced_by_device(work.op_class)) return Duration(0);
  return cost_model_detail::nanoseconds_of(launch_seconds(work));
}

Duration CostModel::dispatch_duration(const Work& work) const {
  return profile_.host.dispatch + profile_.host.launch * std::max(0, work.launches - 1);
}

double CostModel::launch_seconds(const Work& work) const {
  Duration floor = profile_.launch.kernel * work.launches;
  if (work.op_class == OperatorClass::kMatmul) floor += profile_.launch.matmul;
  if (is_dense_convolution(work.op_class)) floor += profile_.launch.convolution;
  return cost_model_detail::seconds_of(floor);
}

double CostModel::memory_seconds(const Work& work) const {
  const Bytes traffic = work.read + work.written;
  const double share = profile_.bandwidth[static_cast<std::size_t>(work.op_class)];
  const double hbm = profile_.hbm.bandwidth.value;
  const bool resident =
      cost_model_detail::profits_from_cache(work.op_class) && traffic <= profile_.l2.usable;
  const double hit = resident ? profile_.l2.residency : 0;
  return cost_model_detail::real(traffic.count) / share *
         (hit / profile_.l2.bandwidth.value + (1 - hit) / hbm);
}

double CostModel::compute_seconds(const Work& work) const {
  if (!(work.flops.count > 0)) return 0;
  if (work.op_class == OperatorClass::kAttention) return work.flops.count / attention_rate(work);
  if (is_dense_convolution(work.op_class)) return work.flops.count / convolution_rate(work);
  return work.flops.count / vector_rate(work.dtype);
}

// Work without extents (a product hidden in a composite operator) is timed as one of full tiles.
double CostModel::matmul_seconds(const Work& work) const {
  const auto [m, n, k, batch] = work.extent;
  const DType type = matrix_type(profile_, work.dtype);
  const MatrixRate& rate = profile_.matrix[static_cast<std::size_t>(type)];
  const double peak = rate.matmul_share * rate.peak.value;
  const double memory = memory_seconds(work);
  if (m < 1 || n < 1 || k < 1 || batch < 1) return std::max(work.flops.count / peak, memory);

  const TileModel& model = cost_model_detail::runs_on_tensor_cores(type) ? profile_.tensor_core_tile
                                                                         : profile_.cuda_core_tile;
  const double partial =
      cost_model_detail::kPartialBytes * cost_model_detail::real(m) * cost_model_detail::real(n) *
      cost_model_detail::real(batch) /
      (profile_.bandwidth[static_cast<std::size_t>(work.op_class)] * profile_.hbm.bandwidth.value);
  double fastest = std::numeric_limits<double>::infinity();
  for (const cost_model_detail::Tile tile : cost_model_detail::kTiles) {
    const double area = cost_model_detail::real(tile.m) * cost_model_detail::real(tile.n);
    const double tile_rate =
        peak / profile_.multiprocessors *
        std::min(1.0, std::pow(area / cost_model_detail::kFullTile, model.small_tile_exponent));
    for (const std::int64_t splits : cost_model_detail::kSplits) {
      if (splits > 1 && k / splits < cost_model_detail::kShortestSplit) break;
      const std::int64_t blocks = cost_model_detail::ceil_div(m, tile.m) *
                                  cost_model_detail::ceil_div(n, tile.n) * batch * splits;
      const double waves =
          cost_model_detail::real(cost_model_detail::ceil_div(blocks, profile_.multiprocessors));
      const double compute =
          waves * 2 * area *
          (cost_model_detail::real(k) / cost_model_detail::real(splits) + model.prologue) /
          tile_rate;
      const double traffic =
          memory + (splits > 1 ? 2 * cost_model_detail::real(splits) * partial : 0);
      fastest = std::min(fastest, std::max(compute, traffic));
    }
  }
  return fastest;
}

double CostModel::attention_rate(const Work& work) const {
  const std::int64_t key_length = std::max<std::int64_t>(1, work.extent[1]);
  const bool causal = (work.extent[3] & kAttentionCausal) != 0;
  const bool backward = (work.extent[3] & kAttentionBackward) != 0;
  const AttentionCurve curve = cost_model_detail::curve_at(
      backward ? profile_.attention_backward : profile_.attention_forward, work.extent[2]);
  const DType type = matrix_type(profile_, work.dtype);
  const double peak = profile_.matrix[static_cast<std::size_t>(type)].peak.value;
  const double share = causal ? curve.causal_share : curve.share;
  const double half_length = causal ? curve.causal_half_length : curve.half_length;
  return peak * share / (1 + half_length / cost_model_detail::real(key_length));
}

double CostModel::convolution_rate(const Work& work) const {
  const ConvolutionShare& share = work.op_class == OperatorClass::kConvolutionBackwardData
                                      ? profile_.convolution_backward_data
                                  : work.op_class == OperatorClass::kConvolutionBackwardWeight
                                      ? profile_.convolution_backward_weight
                                      : profile_.convolution_forward;
  const DType type = matrix_type(profile_, work.dtype);
  return profile_.matrix[static_cast<std::size_t>(type)].peak.value *
         (cost_model_detail::runs_on_tensor_cores(type) ? share.tensor_cores : share.cuda_cores);
}

double CostModel::vector_rate(DType type) const {
  const FlopsPerSecond peak = type == DType::kFloat64 ? profile_.vector.fp64 : profile_.vector.fp32;
  return profile_.vector.share * peak.value;
}

}  // namespace tidemark
