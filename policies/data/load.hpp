// training.load: the memory that loading the weights takes before the first step.
//
// The rules are those of transformers' from_pretrained (src/transformers/modeling_utils.py) and of
// bitsandbytes' modules, which quantise a weight when it is moved to the device:
//
//   files            weights fill files of at most `shard` bytes in their order (huggingface_hub,
//                    split_state_dict_into_shards_factory); one file is open at a time
//   pickle           torch.load makes all tensors of a file in host memory
//   safetensors      files are mapped, so that one tensor at a time takes host memory; pages of the
//                    file that the system keeps are not counted
//   low_cpu_mem_usage: false   a model with random weights is made on the host first
//   device_map: cpu  weights are gathered on the host and moved by .to() when all are there;
//                    otherwise each goes to the device when it has been read
//   device           weights so far, and one weight in full beside its codes while it is quantised
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "graph/core/decoder.hpp"
#include "graph/core/units.hpp"
#include "graph/ir/dtype.hpp"

namespace tidemark {

struct TrainingGraph;

struct LoadSpec {
  bool pickle = false;
  Bytes shard;                      // most bytes of a file of the checkpoint
  std::optional<DType> checkpoint;  // type of the file's weights; without one that of the model's
  bool low_cpu_mem_usage = true;
  bool through_host = false;  // device_map: cpu
  bool every_process = true;  // otherwise one process of a host reads, and sends to the others
};

// Reads the mapping `load` of `training`. Throws UserError.
[[nodiscard]] LoadSpec decode_load(const Decoder& load);

// One weight on its way from the file to the device.
struct LoadedWeight {
  Bytes file;   // in the checkpoint
  Bytes model;  // in the model's type, before it is quantised
  Bytes kept;   // on the device, when it is there
  bool is_quantised = false;
};

struct LoadFigures {
  Bytes device_peak;
  Bytes device_after;
  Bytes host_peak;             // of all processes of a host
  std::int64_t processes = 1;  // that read at the same time on one host
};
[[nodiscard]] LoadFigures load_figures(const LoadSpec& spec, std::span<const LoadedWeight> weights,
                                       std::int64_t processes_per_host);
// The same of a model's weights as this rank keeps them. Adapters are made later and do not count.
[[nodiscard]] LoadFigures load_figures(const LoadSpec& spec, const TrainingGraph& graph,
                                       std::int64_t processes_per_host);

}  // namespace tidemark
