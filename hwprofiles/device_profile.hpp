// The figures of one GPU, of its host and of the links between them.
//
// Profiles are YAML files whose figures name their sources (figures.hpp). A scenario may override
// any of them: `hardware: {gpu: a100-sxm-80gb, hbm: {capacity: 40GiB}}`.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/core/decoder.hpp"
#include "graph/core/units.hpp"
#include "graph/ir/dtype.hpp"
#include "graph/ir/work.hpp"
#include "graph/operators/framework.hpp"
#include "hwprofiles/figures.hpp"

namespace tidemark {

inline constexpr std::size_t kDTypes = static_cast<std::size_t>(DType::kBool) + 1;

// The rate that matrix products reach in one type. No peak: the device lacks the type.
struct MatrixRate {
  FlopsPerSecond peak;      // dense
  double matmul_share = 0;  // share of the peak, for full waves of large tiles
};

// The loss of a matrix product on tiles smaller than 128 x 128; see cost_model.hpp.
struct TileModel {
  double small_tile_exponent = 0;  // rate of a tile ~ (area / 128^2)^exponent
  double prologue = 0;             // filling and draining one tile, in elements of the reduction
  double long_reduction = 0;       // rate of one product ~ (1024 / reduction)^long_reduction
};

// Shares of the peak that convolutions of one direction reach, on tensor cores (2-byte types, tf32)
// and without, and what their shape makes of them; see cost_model.hpp.
struct ConvolutionShare {
  double tensor_cores = 0;
  double cuda_cores = 0;
  double pointwise = 1;  // factor of 1x1 windows on CUDA cores
  double winograd = 1;   // factor of 3x3 windows that move by one, on CUDA cores
  double strided = 1;    // factor of windows that move by more
  double narrow = 0;     // fewer than 32 input channels are padded by (32 / channels)^narrow
};

// Grouped convolutions on tensor cores whose channels are innermost reach at most
// peak * share * (channels per group / 64)^exponent, and `wide` times that from 56 channels on; up
// to 40 channels `wide` changes nothing, and in between it is interpolated.
struct GroupedShare {
  double share = 1;
  double exponent = 0;
  double wide = 1;
};

// Fused attention reaches peak * share / (1 + half_length / key length).
struct AttentionCurve {
  int head_width = 0;       // elements
  double share = 0;         // share of the peak, for long sequences
  double half_length = 0;   // key length at which half of that is reached
  double causal_share = 0;  // the same two when half of the scores is masked
  double causal_half_length = 0;
};

struct MemoryProfile {
  Bytes capacity;            // memory that cudaMalloc can hand out, the CUDA context included
  BytesPerSecond bandwidth;  // peak
};

struct CacheProfile {
  Bytes capacity;
  Bytes usable;  // largest working set that still reads at `bandwidth`
  BytesPerSecond bandwidth;
  double residency = 0;  // share of a kernel's traffic that hits when everything fits
};

struct VectorProfile {
  FlopsPerSecond fp64;
  FlopsPerSecond fp32;  // also for narrower types, which PyTorch computes in fp32
  double share = 0;     // share of the peaks that kernels reach
};

struct LaunchProfile {
  Duration kernel;       // shortest time from one kernel to the next on a stream
  Duration in_graph;     // the same inside a CUDA graph
  Duration matmul;       // added per matrix product
  Duration convolution;  // added per convolution, by direction
  Duration convolution_backward_data;
  Duration convolution_backward_weight;
};

// A figure that differs between versions of the framework. In a profile it is one figure for all,
// or a group:
//
//   context: {torch_1_9: {value: 1823MiB, source: ...}, torch_2_1: {value: 481MiB, source: ...}}
template <class T>
struct ByFramework {
  std::array<std::optional<T>, kFrameworkEras> values;  // figure of each FrameworkEra

  // Returns the era whose figure holds for `era`: its own, else that of the next newer one that has
  // any, else of the newest. At least one has.
  [[nodiscard]] FrameworkEra era_for(FrameworkEra era) const {
    const auto wanted = static_cast<std::size_t>(era);
    std::size_t found = kFrameworkEras;
    for (std::size_t i = 0; i < kFrameworkEras; ++i) {
      if (values[i] && (found == kFrameworkEras || found < wanted)) found = i;
    }
    return static_cast<FrameworkEra>(found);
  }
  [[nodiscard]] T at(FrameworkEra era) const {
    return *values[static_cast<std::size_t>(era_for(era))];
  }
};

struct HostProfile {
  Bytes memory;                        // host memory per GPU
  Duration dispatch;                   // CPU time of the eager framework per operator
  ByFramework<Duration> dispatches;    // the same by framework
  Duration launch;                     // CPU time per further kernel of the same operator
  Duration synchronize;                // CPU time of a device synchronisation that need not wait
  Duration device_malloc;              // cudaMalloc
  Duration device_free;                // cudaFree, waiting not included
  BytesPerSecond pinned_allocation;    // page-locking host memory
  BytesPerSecond optimizer_bandwidth;  // memory traffic of an optimizer step on the CPU
  // Bandwidth of the whole host's memory, shared by the copies and optimizers of all its GPUs; 0:
  // no limit.
  BytesPerSecond dram_bandwidth;
  int gpus = 1;  // GPUs that share the host
};

// Disks of one host, shared by its GPUs. Capacity 0: the host has none.
struct NvmeProfile {
  Bytes capacity;  // capacity per GPU
  BytesPerSecond read;
  BytesPerSecond write;
  Duration latency;  // latency of one request
  int queue = 0;     // requests in flight
  Bytes request;     // bytes of one request

  // Limits a rate by Little's law: the requests in flight deliver at most their bytes within one
  // latency.
  [[nodiscard]] BytesPerSecond reached(BytesPerSecond rate) const;
};

struct LinkProfile {
  BytesPerSecond alone;   // page-locked memory, the other direction idle
  BytesPerSecond duplex;  // page-locked memory, the other direction busy
  Duration latency;       // latency of one copy
};

// Collectives among the GPUs of one host:
//   floor + ramp * sqrt(bytes) + what each GPU sends / bandwidth
struct CollectiveProfile {
  Duration floor;   // time of the smallest message
  double ramp = 0;  // nanoseconds per square root of a byte
  // "Bus bandwidth" of a ring of large messages; 0: what is known of the links, without NVLink what
  // a GPU copies to and from the host at once, or half of that where more than two share the host
  // and have no peer_to_peer.
  BytesPerSecond bandwidth;
  // Bus bandwidth of all-reduces that the switch adds up (NVLink SHARP), used among at least
  // `in_switch_ranks` GPUs; 0: never.
  BytesPerSecond in_switch;
  int in_switch_ranks = 0;
  // Multiprocessors that the kernel of one collective occupies, one for each channel; 0: not known.
  int channels = 0;
};

// The network between hosts, for each GPU and each direction. Bandwidth 0: the profile knows no
// network.
struct NetworkProfile {
  BytesPerSecond bandwidth;
  Duration latency;  // latency of one hop
};

struct LinksProfile {
  LinkProfile host_to_device;
  LinkProfile device_to_host;
  double pageable_share = 0;  // share of the page-locked rate that pageable memory reaches
  double hbm_tax = 0;         // bytes of HBM traffic per copied byte
  BytesPerSecond nvlink;      // each direction; 0: the GPUs of a host are connected by PCIe
  // Whether GPUs on PCIe reach each other's memory; without, a copy goes through that of the host.
  bool peer_to_peer = false;
  CollectiveProfile collective;
  NetworkProfile network;
};

struct FrameworkProfile {
  Bytes context;                   // CUDA context of one process
  ByFramework<Bytes> contexts;     // the same by framework
  Bytes cublas_workspace;          // bytes per handle and stream, from the caching allocator
  Bytes communication_buffers;     // NCCL's first communicator in one process, outside the caching
                                   // allocator; 0: not known
  double cudnn_filter_copies = 0;  // workspace of a convolution, in sizes of its filters
};

// Electric power of one device. 0: not known.
struct PowerProfile {
  double watts = 0;  // power while kernels run: what the board may draw, so an upper bound
  double idle = 0;   // power while no kernel runs
};

struct DeviceProfile {
  std::string name;         // "a100-sxm-80gb"
  std::string description;  // "NVIDIA A100 SXM4 80 GB (Ampere GA100)"
  int multiprocessors = 0;
  double compute_capability = 0;  // CUDA's; 0: not a CUDA device, or not known
  MemoryProfile hbm;
  CacheProfile l2;
  std::array<MatrixRate, kDTypes> matrix;  // rate of each DType
  // Share of that rate which products of 16 bits keep in a step of seconds, where the board lowers
  // its clock to stay within its power; those that are timed alone do not feel it.
  double sustained_matmul = 1;
  // Standard deviation of that rate among devices of one kind: ranks wait for the slowest of them.
  double matmul_spread = 0;
  // Rate of products whose weight holds two of four values over that of dense ones; 1 where the
  // device has no cores for them.
  double two_of_four = 1;
  VectorProfile vector;
  TileModel tensor_core_tile;
  TileModel cuda_core_tile;
  // Batched products run other kernels, which do not split the reduction; by cores as above. Their
  // share of the peak is that of one product times `batched_share`.
  TileModel batched_tensor_core_tile;
  TileModel batched_cuda_core_tile;
  double batched_tensor_core_share = 1;
  double batched_cuda_core_share = 1;
  ConvolutionShare convolution_forward;
  ConvolutionShare convolution_backward_data;
  ConvolutionShare convolution_backward_weight;
  double grouped = 1;  // factor of grouped convolutions whose channels are not innermost
  GroupedShare grouped_channels_last;
  // Copies of its operands into the other order that a convolution on tensor cores makes where the
  // channels are not innermost: 1 copies each operand once.
  double convolution_layout_copies = 0;
  // Shares of hbm.bandwidth of kernels that differ from the rest of their class.
  double normalization_channels_last = 0;
  double softmax_long_rows = 0;  // rows of more than 1024, which no warp keeps in its registers
  std::vector<AttentionCurve> attention_forward;     // at least one, by ascending head width
  std::vector<AttentionCurve> attention_backward;    // at least one, by ascending head width
  std::array<double, kOperatorClasses> bandwidth{};  // share of hbm.bandwidth, by OperatorClass
  LaunchProfile launch;
  HostProfile host;
  NvmeProfile nvme;
  LinksProfile links;
  FrameworkProfile framework;
  PowerProfile power;
  double price = 0;             // price of one device for an hour, in any currency; 0: not known
  std::vector<Figure> figures;  // every number above, in the order of the fields
};

// Returns the type as which a matrix product of `type` runs on this device. A type without a peak
// falls back to the next one that holds its values: fp8 -> fp16 -> fp32, bf16 -> fp32, tf32 ->
// fp32, integers and bool -> fp32. So bf16 on a V100 runs at the fp32 rate, as cuBLAS does it
// there.
[[nodiscard]] DType matrix_type(const DeviceProfile& profile, DType type);

// Returns the profile with the figures of a version of the framework; `figures` then lists only
// those. Attention of PyTorch 2.0 and 2.1 is FlashAttention 1, at half the rate of the second. A
// profile as it is read has the figures of the newest.
[[nodiscard]] DeviceProfile for_framework(DeviceProfile profile, FrameworkEra era);

// Reads a profile whose `extends` has been resolved. Throws UserError.
[[nodiscard]] DeviceProfile decode_device_profile(const Decoder& decoder);

// Lists the profiles `*.yaml` of a folder, sorted; none if the folder does not exist.
[[nodiscard]] std::vector<std::string> profile_names(const std::string& folder);

// Profiles that have been read from their files, so that the points of a sweep parse none twice.
// May be used by several threads.
class ProfileCache {
 public:
  // Returns the profile in `file`, laid over what it extends; read when it is first asked for. The
  // reference lives as long as the cache. Throws UserError as load_device_profile() does.
  [[nodiscard]] const Value& read(const std::string& file, std::span<const std::string> folders);
  // Returns the decoded profile, which read() returns as a document.
  [[nodiscard]] const DeviceProfile& decoded(const std::string& file,
                                             std::span<const std::string> folders);
  // Returns the profile with changes laid over it, decoded; the last few are kept.
  [[nodiscard]] DeviceProfile changed(const std::string& file, std::span<const std::string> folders,
                                      const Value& changes);
  // Returns the file that a name means, which `find` looks up when it is first asked for; the
  // folders of a cache are always the same.
  [[nodiscard]] std::string file_of(const std::string& name,
                                    const std::function<std::string()>& find);

 private:
  struct Changed {
    std::string file;
    Value changes;
    DeviceProfile profile;
  };

  std::mutex mutex_;
  std::map<std::string, Value> profiles_;  // documents by the path of their file
  std::map<std::string, DeviceProfile> decoded_;
  std::map<std::string, std::string> files_;  // by the name in the scenario
  std::list<Changed> changed_;                // used last first
};

// Loads `a100-sxm-80gb` from the first of `folders` that has it, or a file by its path
// ("./my.yaml"). `extends: NAME` in a profile lays it over another one. `overrides` (the keys of
// `hardware:` other than gpu and count; null for none) are laid over the result; `named_at` is
// where the user wrote the name. Throws UserError: unknown name (with the nearest), circular
// extends, bad or unknown fields, at the place where each stands. Files that `cache` has are not
// read again.
[[nodiscard]] DeviceProfile load_device_profile(const std::string& name_or_path,
                                                std::span<const std::string> folders,
                                                const Value* overrides = nullptr,
                                                const Location& named_at = {},
                                                ProfileCache* cache = nullptr);

}  // namespace tidemark
