// The time of one kernel on a device: a roofline with calibrated efficiencies.
//
//   t = launches * t0 + max(compute, memory) + apart    in whole nanoseconds, at least one
//   memory  = (bytes read + written) / (share of the class * bandwidth)
//   apart   = bytes of further kernels (Work::apart), at the share of elementwise ones
//   compute = flops / (share * peak)                with the share by class:
//
// matmul       the fastest tile shape and split of the reduction, by tiles and waves
//              (tiled_product.hpp). Batched products have tiles of their own and do not split; the
//              rate of one product falls with its reduction: (1024 / k)^long_reduction.
// convolution  the product that it is for each group (implicit GEMM, convolutions.hpp), on the same
//              tiles, at a share by direction and shape of the window:
//                CUDA cores    pointwise (1x1) and winograd (3x3 moved by one) are factors; fewer
//                              than the 16 channels of winograd are padded where that is faster
//                tensor cores  fewer than 32 input channels are padded by (32 / channels)^narrow
//                both          strided is the factor of windows that move by more than one
//              Groups on tensor cores, unless their number is a multiple of 32, which cuDNN packs:
//                channels innermost  at most share * (channels per group / 64)^exponent of the
//                                    peak; groups of 56 channels or more at `wide` of that
//                otherwise           tiles of at least 64 x 64, at the factor `grouped`
//              No group of c channels takes longer than c depthwise convolutions that add to the
//              same sums: 1.5 c - 0.5 times the memory term of one. Where the channels are not
//              innermost, tensor cores first copy layout_copies of the operands.
// attention    share / (1 + half_length / key length), by head width; between two curves
//              interpolated.
// other        the vector units' peak; nearly always the memory term decides. Normalization has a
//              bandwidth share for each layout, softmax one for rows of more than 1024.
//
// Median errors after `tidemark calibrate` on half of the rows, of the other half: means of eight
// halves (--seed 0 to 7). Most figures of the V100 are kept there; its profile has them from half
// of the same rows, so that its errors are not quite those of unseen data.
//   DeepBench V100  products fp16 6.0 %, fp32 4.3 %; convolutions fp16 forward 10 %, data gradient
//                   13 %, weight gradient 18 %, fp32 15, 17 and 16 %
//   NeuSight fp32   A100-PCIE: batched products 1.8 %, linear 4.7 %, softmax 2.9 %, layer norm
//                   3.4 %; V100-PCIE: batched products 9.4 %, linear 4.7 %, softmax 2.5 %
//   attention       FlashAttention-2: 0.6 % on A100, 0.9 % on H100 (curves read off figures)
// Mean errors are up to twice as large.
//
// A kernel alone; what a step loses against that is added where its operators are priced
// (sim/engine/cost_table.hpp).
//
// A kernel whose traffic fits into L2 finds `residency` of it there, except matrix products,
// convolutions, attention (whose shares were measured so) and optimizers (whose state is cold).
#pragma once

#include <cstdint>
#include <utility>

#include "graph/core/units.hpp"
#include "graph/ir/work.hpp"
#include "hwprofiles/device_profile.hpp"

namespace tidemark {

// Prices work on one device. Deterministic and free of state: safe to share between threads.
class CostModel {
 public:
  explicit CostModel(DeviceProfile profile) : profile_(std::move(profile)) {}

  [[nodiscard]] const DeviceProfile& profile() const { return profile_; }

  // Returns the time on the device's stream, alone on the device. kNone takes none, kFixed takes
  // `fixed`; for kCollective see InterconnectModel.
  [[nodiscard]] Duration duration(const Work& work) const;

  // Return parts of the duration: the memory traffic, and the floor that launches set. kFixed has
  // neither.
  [[nodiscard]] Duration memory_duration(const Work& work) const;
  [[nodiscard]] Duration launch_duration(const Work& work) const;

  // Returns the CPU time of the framework until the work is enqueued: one dispatch, and a launch
  // for each kernel after the first. kNone still costs the dispatch: a view is an operator to the
  // host.
  [[nodiscard]] Duration dispatch_duration(const Work& work) const;

 private:
  [[nodiscard]] double launch_seconds(const Work& work) const;
  [[nodiscard]] double compute_seconds(const Work& work) const;
  [[nodiscard]] double memory_seconds(const Work& work) const;
  [[nodiscard]] double bandwidth_share(const Work& work) const;
  [[nodiscard]] double matmul_seconds(const Work& work) const;
  [[nodiscard]] double attention_rate(const Work& work) const;
  [[nodiscard]] double convolution_seconds(const Work& work) const;
  [[nodiscard]] double convolution_kernel_seconds(const Work& work) const;
  [[nodiscard]] double direct_or_padded_seconds(const Work& work) const;
  [[nodiscard]] double grouped_seconds(const Work& work, double peak, double share) const;
  [[nodiscard]] double layout_copy_seconds(const Work& work) const;
  [[nodiscard]] double apart_seconds(const Work& work) const;
  [[nodiscard]] double convolution_share(const Work& work, bool tensor_cores) const;
  [[nodiscard]] double tiled_seconds(const Work& work, double peak, const TileModel& tile,
                                     double memory, std::int64_t most_splits,
                                     std::int64_t narrowest_tile = 1) const;
  [[nodiscard]] double vector_rate(DType type) const;

  DeviceProfile profile_;
};

// Returns the profile that prices kernels within a step instead of alone: products of 16 bits run
// at the rate that the board sustains, times `slowest`. That rate is known of 16 bits only; the
// best products in fp8 are farther below their peak as it is.
[[nodiscard]] DeviceProfile within_step(DeviceProfile alone, double slowest = 1);

}  // namespace tidemark
