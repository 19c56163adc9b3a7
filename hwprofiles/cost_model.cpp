#include "hwprofiles/cost_model.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <span>

#include "graph/ir/convolutions.hpp"
#include "hwprofiles/tiled_product.hpp"

namespace tidemark {
namespace cost_model_detail {
namespace {

constexpr double kPartialBytes = 4;       // fp32 partial results of a split reduction
constexpr double kFullChannels = 32;      // input channels that fill the reduction of a convolution
constexpr double kUsualReduction = 1024;  // at which TileModel::long_reduction changes nothing
constexpr double kFullGroup = 64;         // channels per group at which GroupedShare::share holds
constexpr double kNarrowGroup = 40;       // most channels per group that GroupedShare::wide spares
constexpr double kWideGroup = 56;         // fewest that it holds for; interpolated in between
constexpr std::int64_t kGroupedTile = 64;  // narrowest tile of grouped kernels
constexpr std::int64_t kDenseGroups = 32;  // cuDNN packs 32 groups and multiples into whole tiles
constexpr std::int64_t kLongestWarpRow = 1024;  // PyTorch's softmax: longer rows take a block
constexpr std::int64_t kWinogradChannels = 16;  // fewest input channels of a Winograd kernel
constexpr std::int64_t kWeightSplits = 64;      // splits of the reduction of a weight gradient

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

const ConvolutionShare& convolution_figures(const DeviceProfile& profile, OperatorClass c) {
  if (c == OperatorClass::kConvolutionBackwardData) return profile.convolution_backward_data;
  if (c == OperatorClass::kConvolutionBackwardWeight) return profile.convolution_backward_weight;
  return profile.convolution_forward;
}

// Returns how much of a factor holds for groups of so many channels: 0 for narrow, 1 for wide ones.
double wide_part(double channels) {
  return std::clamp(std::log(channels / kNarrowGroup) / std::log(kWideGroup / kNarrowGroup), 0.0,
                    1.0);
}

// Returns the convolution with more input channels of each group, its operands as they are.
Work with_channels(Work work, std::int64_t channels) {
  std::int64_t& axis = work.extent[work.op_class == OperatorClass::kConvolution ? 2 : 1];
  axis = axis / work.window.channels * channels;
  work.flops = Flops(work.flops.count / real(work.window.channels) * real(channels));
  work.window.channels = channels;
  return work;
}

// Tensor cores pad few input channels: the axis of the product that they are on grows. More
// channels never make it smaller.
Work with_padded_channels(Work work, double narrow) {
  const ConvolutionWindow& window = work.window;
  if (window.groups > 1 || window.channels < 1) return work;
  const double padding = std::pow(std::max(1.0, kFullChannels / real(window.channels)), narrow);
  std::int64_t& axis = work.extent[work.op_class == OperatorClass::kConvolution ? 2 : 1];
  axis = std::llround(std::ceil(real(axis) * padding));
  return work;
}

}  // namespace
}  // namespace cost_model_detail

Duration CostModel::duration(const Work& work) const {
  if (work.op_class == OperatorClass::kFixed) return work.fixed;
  if (!is_priced_by_device(work.op_class)) return Duration(0);
  if (work.op_class == OperatorClass::kMatmul) {
    return cost_model_detail::nanoseconds_of(launch_seconds(work) + matmul_seconds(work));
  }
  if (is_dense_convolution(work.op_class)) {
    return cost_model_detail::nanoseconds_of(launch_seconds(work) + convolution_seconds(work) +
                                             apart_seconds(work));
  }
  return cost_model_detail::nanoseconds_of(launch_seconds(work) +
                                           std::max(compute_seconds(work), memory_seconds(work)) +
                                           apart_seconds(work));
}

Duration CostModel::memory_duration(const Work& work) const {
  if (!is_priced_by_device(work.op_class)) return Duration(0);
  return cost_model_detail::nanoseconds_of(memory_seconds(work) + apart_seconds(work));
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
  if (work.op_class == OperatorClass::kConvolution) floor += profile_.launch.convolution;
  if (work.op_class == OperatorClass::kConvolutionBackwardData)
    floor += profile_.launch.convolution_backward_data;
  if (work.op_class == OperatorClass::kConvolutionBackwardWeight)
    floor += profile_.launch.convolution_backward_weight;
  return cost_model_detail::seconds_of(floor);
}

double CostModel::memory_seconds(const Work& work) const {
  const Bytes traffic = work.read + work.written;
  const double share = bandwidth_share(work);
  const double hbm = profile_.hbm.bandwidth.value;
  const bool resident =
      cost_model_detail::profits_from_cache(work.op_class) && traffic <= profile_.l2.usable;
  const double hit = resident ? profile_.l2.residency : 0;
  return cost_model_detail::real(traffic.count) / share *
         (hit / profile_.l2.bandwidth.value + (1 - hit) / hbm);
}

double CostModel::apart_seconds(const Work& work) const {
  if (work.apart == Bytes(0)) return 0;
  return memory_seconds({.op_class = OperatorClass::kElementwise, .read = work.apart});
}

double CostModel::bandwidth_share(const Work& work) const {
  if (work.op_class == OperatorClass::kNormalization && work.channels_last)
    return profile_.normalization_channels_last;
  if (work.op_class == OperatorClass::kSoftmax &&
      work.extent[1] > cost_model_detail::kLongestWarpRow)
    return profile_.softmax_long_rows;
  return profile_.bandwidth[static_cast<std::size_t>(work.op_class)];
}

double CostModel::compute_seconds(const Work& work) const {
  if (!(work.flops.count > 0)) return 0;
  if (work.op_class == OperatorClass::kAttention) return work.flops.count / attention_rate(work);
  return work.flops.count / vector_rate(work.dtype);
}

// Work without extents (a product hidden in a composite operator) is timed as one of full tiles.
double CostModel::matmul_seconds(const Work& work) const {
  const auto [m, n, k, batch] = work.extent;
  const DType type = matrix_type(profile_, work.dtype);
  const MatrixRate& rate = profile_.matrix[static_cast<std::size_t>(type)];
  double peak = rate.matmul_share * rate.peak.value;
  if (work.two_of_four) peak *= profile_.two_of_four;
  const double memory = memory_seconds(work);
  if (m < 1 || n < 1 || k < 1 || batch < 1) return std::max(work.flops.count / peak, memory);

  const bool tensor_cores = cost_model_detail::runs_on_tensor_cores(type);
  if (batch == 1) {
    const TileModel& tile = tensor_cores ? profile_.tensor_core_tile : profile_.cuda_core_tile;
    const double slower = std::pow(cost_model_detail::real(k) / cost_model_detail::kUsualReduction,
                                   tile.long_reduction);
    return tiled_seconds(work, peak / slower, tile, memory, TiledProduct{}.most_splits);
  }
  return tiled_seconds(
      work,
      peak * (tensor_cores ? profile_.batched_tensor_core_share : profile_.batched_cuda_core_share),
      tensor_cores ? profile_.batched_tensor_core_tile : profile_.batched_cuda_core_tile, memory,
      1);
}

double CostModel::tiled_seconds(const Work& work, double peak, const TileModel& tile, double memory,
                                std::int64_t most_splits, std::int64_t narrowest_tile) const {
  const auto [m, n, k, batch] = work.extent;
  const double rate =
      profile_.bandwidth[static_cast<std::size_t>(work.op_class)] * profile_.hbm.bandwidth.value;
  return seconds_of({.extent = work.extent,
                     .peak = peak,
                     .multiprocessors = profile_.multiprocessors,
                     .tile = tile,
                     .memory = memory,
                     .partial = cost_model_detail::kPartialBytes * cost_model_detail::real(m) *
                                cost_model_detail::real(n) * cost_model_detail::real(batch) / rate,
                     .most_splits = most_splits,
                     .narrowest_tile = narrowest_tile});
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

// allow_tf32 permits tensor cores and forbids nothing: cuDNN has its fp32 kernels to choose from,
// too. Those of Winograd are the faster ones where tf32 has no higher peak than fp32, as on GA102.
double CostModel::convolution_seconds(const Work& work) const {
  const double as_asked = direct_or_padded_seconds(work);
  if (matrix_type(profile_, work.dtype) != DType::kTf32) return as_asked;
  Work plain = work;
  plain.dtype = DType::kFloat32;
  return std::min(as_asked, direct_or_padded_seconds(plain));
}

// Winograd's kernels need some input channels; fewer may be padded to that many, which then takes
// as long. So 15 channels never take longer than 16.
double CostModel::direct_or_padded_seconds(const Work& work) const {
  const double direct = convolution_kernel_seconds(work);
  const ConvolutionWindow& window = work.window;
  const bool too_few = window.three_by_three && window.channels >= 1 &&
                       window.channels < cost_model_detail::kWinogradChannels;
  const bool plain = matrix_type(profile_, work.dtype) == DType::kFloat32;
  if (!too_few || !plain) return direct;
  return std::min(direct, convolution_kernel_seconds(cost_model_detail::with_channels(
                              work, cost_model_detail::kWinogradChannels)));
}

// Work without extents is timed as one of full tiles.
double CostModel::convolution_kernel_seconds(const Work& work) const {
  const DType type = matrix_type(profile_, work.dtype);
  const bool tensor_cores = cost_model_detail::runs_on_tensor_cores(type);
  const double copied = tensor_cores && !work.channels_last ? layout_copy_seconds(work) : 0;
  const double memory = memory_seconds(work);
  const double peak = profile_.matrix[static_cast<std::size_t>(type)].peak.value;
  const double share = convolution_share(work, tensor_cores);
  const auto [m, n, k, batch] = work.extent;
  if (m < 1 || n < 1 || k < 1 || batch < 1)
    return copied + std::max(work.flops.count / (peak * share), memory);
  const ConvolutionWindow& window = work.window;
  const bool weights = work.op_class == OperatorClass::kConvolutionBackwardWeight;
  if (window.groups == 1 || !tensor_cores || window.groups % cost_model_detail::kDenseGroups == 0) {
    const Work padded =
        tensor_cores
            ? cost_model_detail::with_padded_channels(
                  work, cost_model_detail::convolution_figures(profile_, work.op_class).narrow)
            : work;
    return copied +
           tiled_seconds(padded, peak * share,
                         tensor_cores ? profile_.tensor_core_tile : profile_.cuda_core_tile, memory,
                         weights ? cost_model_detail::kWeightSplits : TiledProduct{}.most_splits);
  }
  return copied + grouped_seconds(work, peak, share);
}

// A group of c channels can be computed as c depthwise convolutions, all but the first of which
// read the sums again, half as much as a convolution moves; so there is no jump from one channel to
// two.
double CostModel::grouped_seconds(const Work& work, double peak, double share) const {
  const double channels = cost_model_detail::real(work.window.channels);
  Work depthwise = work;
  depthwise.op_class = OperatorClass::kDepthwiseConvolution;
  const double apart = (1.5 * channels - 0.5) * memory_seconds(depthwise);
  const double memory = memory_seconds(work);
  if (!work.channels_last) {
    const bool weights = work.op_class == OperatorClass::kConvolutionBackwardWeight;
    return std::min(
        apart,
        tiled_seconds(work, peak * share * profile_.grouped, profile_.tensor_core_tile, memory,
                      weights ? cost_model_detail::kWeightSplits : TiledProduct{}.most_splits,
                      cost_model_detail::kGroupedTile));
  }
  const GroupedShare& grouped = profile_.grouped_channels_last;
  const double reached = grouped.share *
                         std::pow(channels / cost_model_detail::kFullGroup, grouped.exponent) *
                         std::pow(grouped.wide, cost_model_detail::wide_part(channels));
  return std::min(apart, std::max(work.flops.count / (peak * std::min(share, reached)), memory));
}

// Tensor cores want the channels innermost; a copy reads and writes an operand.
double CostModel::layout_copy_seconds(const Work& work) const {
  const double rate = profile_.bandwidth[static_cast<std::size_t>(OperatorClass::kElementwise)] *
                      profile_.hbm.bandwidth.value;
  return profile_.convolution_layout_copies * 2 *
         cost_model_detail::real((work.read + work.written).count) / rate;
}

double CostModel::convolution_share(const Work& work, bool tensor_cores) const {
  const ConvolutionShare& shares = cost_model_detail::convolution_figures(profile_, work.op_class);
  const ConvolutionWindow& window = work.window;
  const double strided = window.strided ? shares.strided : 1;
  if (!tensor_cores) {
    const bool winograd =
        window.three_by_three && window.channels >= cost_model_detail::kWinogradChannels;
    return shares.cuda_cores * strided * (window.pointwise ? shares.pointwise : 1) *
           (winograd ? shares.winograd : 1);
  }
  return shares.tensor_cores * strided;
}

double CostModel::vector_rate(DType type) const {
  const FlopsPerSecond peak = type == DType::kFloat64 ? profile_.vector.fp64 : profile_.vector.fp32;
  return profile_.vector.share * peak.value;
}

DeviceProfile within_step(DeviceProfile alone, double slowest) {
  for (const DType type : {DType::kFloat16, DType::kBFloat16}) {
    alone.matrix[static_cast<std::size_t>(type)].matmul_share *= alone.sustained_matmul * slowest;
  }
  return alone;
}

}  // namespace tidemark
