// Figures of generated text: the prompt's pass and the passes of one token each.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/ir/training_graph.hpp"
#include "graph/models/generation_options.hpp"
#include "hwprofiles/device_profile.hpp"
#include "sim/engine/engine.hpp"
#include "sim/result/timeline.hpp"

namespace tidemark {

struct GenerationFigures {
  GenerationOptions options;
  std::int64_t batch = 0;  // sequences
  Bytes cache;             // keys and values at the last token
  Bytes prefill_peak;      // most live bytes up to the first token
  Bytes decode_peak;       // most live bytes after it
  Duration prefill{};      // time until the first token
  Duration decode{};       // all further tokens
  Duration first_step{};   // the first token after the prompt's
  Duration last_step{};    // the last token
  // The least time of the last token: the bytes that its kernels read and write, at the bandwidth
  // of the device.
  Duration memory_bound{};
  // Blocks of a paged cache that the device has room for, as vLLM counts them: what its share of
  // the device leaves beside the peak without the cache, over the bytes of a block in all layers.
  std::int64_t blocks_that_fit = 0;

  // Returns the rate of all sequences without the prompt's pass.
  [[nodiscard]] double tokens_per_second() const;
};

// A run of generated text whose events are recorded: the input of generation_figures().
struct GenerationRun {
  const TrainingGraph& graph;
  const StepProgram& program;
  const Scratch& scratch;
  const MemoryTimeline& timeline;
};
// Returns the figures of the last step. `overhead`: device memory outside the allocator.
[[nodiscard]] GenerationFigures generation_figures(const GenerationOptions& options,
                                                   const GenerationRun& run,
                                                   const DeviceProfile& device, Bytes overhead);

}  // namespace tidemark
