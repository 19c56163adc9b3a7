// The time of one kernel on a device: a roofline with calibrated efficiencies.
//
//   t = launches * t0 + max(compute, memory)        in whole nanoseconds, at least one
//   memory  = (bytes read + written) / (share of the class * bandwidth)
//   compute = flops / (share * peak)                with the share by class:
//
// matmul       the fastest tile shape and split of the reduction, by tiles and waves. Each
//              multiprocessor works on one tile at a time; the last wave may be partly empty:
//                blocks = ceil(m / tile_m) * ceil(n / tile_n) * batch * splits
//                t = ceil(blocks / multiprocessors) * 2 tile_m tile_n (k / splits + prologue)
//                    / (share * min(1, (tile_m tile_n / 128^2)^exponent) * peak / multiprocessors)
//              Splitting the reduction writes and reads an fp32 partial result per split.
//              Exponent and prologue were fitted to DeepBench GEMMs on V100 and LLMCompass ones on
//              A100; on tensor cores both agree on 0.5 and 30. Median errors of the shipped
//              profiles: 6 % (V100 fp16, 80 shapes), 5 % (V100 fp32, 80), 3 % (A100 fp16, 20), 7 %
//              (NeuSight linear, A100 fp32, 1076). Batched fp32 products on A100 are worst: 18 %.
// attention    share / (1 + half_length / key length): fits the published FlashAttention curves
//              within 0.3 to 4 %. Head widths between two curves are interpolated.
// convolution  a constant share per direction (median error 13 to 19 % on DeepBench V100 fp16; what
//              is missing is cuDNN's choice of algorithm).
// other        the vector units' peak; nearly always the memory term decides.
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
  [[nodiscard]] double matmul_seconds(const Work& work) const;
  [[nodiscard]] double attention_rate(const Work& work) const;
  [[nodiscard]] double convolution_rate(const Work& work) const;
  [[nodiscard]] double vector_rate(DType type) const;

  DeviceProfile profile_;
};

}  // namespace tidemark
