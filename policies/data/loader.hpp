// training.loader: the batches that a data loader keeps ready, and what waiting for them costs.
//
// The rules are those of torch.utils.data.DataLoader: at the start prefetch_factor batches per
// worker are asked for, and one more for each batch that the loop takes. So at most prefetch_factor
// * workers are outside the loop, each in shared memory; with pin_memory a thread copies each into
// page-locked memory, where one more is held that the loop is at.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/core/decoder.hpp"
#include "graph/core/units.hpp"
#include "hwprofiles/device_profile.hpp"
#include "policies/plan/rewrite.hpp"

namespace tidemark {

struct LoaderSpec {
  int workers = 0;  // processes; 0: the training loop loads each batch itself
  int prefetch_factor = 2;
  bool pin_memory = false;
  int device_prefetch = 0;      // batches that are copied to the device ahead of their step
  std::optional<Bytes> sample;  // bytes read per sample; absent: what the model's inputs take
  BytesPerSecond read;          // rate of the host's storage; 0: no limit
  Duration decode{};            // CPU time of one worker per sample
  Bytes worker_memory;          // bytes of each worker's process beside its batches
};

// Reads the mapping `loader` of `training`. Throws UserError.
[[nodiscard]] LoaderSpec decode_loader(const Decoder& loader);

// The memory that a loader keeps and the rate at which it delivers; bytes are upper bounds, reached
// where the loop is slower than the loader.
struct LoaderFigures {
  Bytes batch;                   // inputs of one micro-batch
  std::int64_t outstanding = 0;  // batches outside of the training loop
  Bytes shared_memory;           // host: batches that workers have made
  Bytes page_locked;             // host
  Bytes workers;                 // host: the workers' own memory
  Bytes device_inputs;           // the batch in use and those copied ahead
  Duration interval{};           // time from one batch of the loader to the next
  Duration copy{};               // time of one batch's copy to the device

  // All that it keeps on the host.
  [[nodiscard]] Bytes host() const { return shared_memory + page_locked + workers; }
};
[[nodiscard]] LoaderFigures loader_figures(const LoaderSpec& spec, Bytes batch,
                                           std::int64_t samples, const DeviceProfile& device,
                                           int ranks_per_host);

// Returns the time for which each step waits for data. `step` is its time without a loader and
// `link_busy` what its copies to the device take. Copies that nothing prefetches lie before the
// step's first kernel; those that are prefetched share the link with the step's own.
//
//   workers > 0   the loader works all the time: max(0, interval * batches - step with its copies)
//   no workers    the loop loads: interval * batches
[[nodiscard]] Duration loader_stall(const LoaderSpec& spec, const LoaderFigures& figures,
                                    std::int64_t batches, Duration step, Duration link_busy);

// Adds the batches that wait on the device.
class Loader final : public TrainingRewrite {
 public:
  explicit Loader(const LoaderSpec& spec) : spec_(spec) {}
  [[nodiscard]] std::string_view name() const override { return "loader"; }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kPlace; }
  void apply(TrainingGraph& graph, const RewriteContext& context) const override;

 private:
  LoaderSpec spec_;
};

// Sums the inputs of one micro-batch.
[[nodiscard]] Bytes batch_bytes(const TrainingGraph& graph);

}  // namespace tidemark
