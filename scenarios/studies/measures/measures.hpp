// Changes that make a step take less device memory: each as settings of the scenario, and as the
// lines of PyTorch and of Hugging Face's libraries that do the same.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/read/scenario.hpp"
#include "sim/step/build_training.hpp"

namespace tidemark {

enum class MeasureKind : std::uint8_t {
  kMemoryFraction,       // the whole device instead of a share of it
  kAllocatorOption,      // an option against fragmentation
  kZeroGrad,             // gradients are freed between the steps
  kOptimizerKernels,     // the same optimizer with fewer temporaries
  kRecompute,            // activations of blocks
  kOffloadActivations,   // activations to the host
  kOffloadOptimizer,     // states to the host, updated there
  kOffloadParameters,    // parameters to the host
  kOptimizerInBackward,  // each gradient is used up and dropped as backward makes it
  kMicroBatch,           // smaller, with more of them accumulated
  kOptimizer,            // another one, with smaller states
  kPrecision,            // narrower types
  kAdapters,             // trained beside frozen weights
  kFusedLoss,            // no logits in memory
  kSharding,             // states and parameters divided among the data ranks
};

struct Measure {
  MeasureKind kind = MeasureKind::kMemoryFraction;
  std::string text;                // the change in words
  std::vector<Override> settings;  // keys of the scenario
  std::vector<Value> policies;     // policies that are added to those of the scenario
  std::string numbers;             // difference in what training computes; else empty
  // The next five say how the same is had elsewhere; empty where it is not.
  std::string pytorch;       // a line of PyTorch or of a library
  std::string hugging_face;  // arguments of Hugging Face's trainers
  std::string axolotl;       // lines of its file
  std::string deepspeed;     // an entry of zero_optimization in DeepSpeed's configuration
  int zero_stage = 0;        // the least stage that knows the entry

  // Whether training computes other numbers, not only in another order.
  [[nodiscard]] bool changes_numbers() const { return !numbers.empty(); }
};

// Whether a measure of the kind is among them.
[[nodiscard]] bool takes(std::span<const Measure> measures, MeasureKind kind);

// Whether Hugging Face's trainers have no setting for a measure beside the others that are `taken`:
// what only DeepSpeed has does not go with FSDP.
[[nodiscard]] bool trainer_lacks(const Measure& measure, std::span<const Measure> taken);
// Returns the argument of Hugging Face's trainers that takes the measures' entries of DeepSpeed's
// configuration; empty where none has one, and with FSDP.
[[nodiscard]] std::string deepspeed_argument(std::span<const Measure> measures);

// The measures that make sense for one scenario. The scenario, its document and its model outlive
// this.
class Measures {
 public:
  Measures(const Value& document, const Scenario& scenario, const TrainedModel& model)
      : document_(document), scenario_(scenario), model_(model) {}

  // Returns the whole device as a measure, where the scenario gives the allocator a share of it.
  [[nodiscard]] std::vector<Measure> memory_fraction() const;
  [[nodiscard]] std::vector<Measure> allocator_options() const;
  // zero_grad and the optimizer's kernels: they change no result and hardly the time.
  [[nodiscard]] std::vector<Measure> details() const;

  // Recomputes every block; not `reentrant` where the blocks' inputs need no gradient. None where
  // that is done, where a policy orders the computation, or where the model has no blocks.
  [[nodiscard]] std::optional<Measure> recompute(bool reentrant = true) const;
  // Recomputes the first `count` blocks only.
  [[nodiscard]] Measure recompute_first(std::int64_t count) const;
  [[nodiscard]] std::optional<Measure> offload_activations() const;
  // Offloads a part of the saved bytes, in percent.
  [[nodiscard]] Measure offload_part(std::int64_t percent) const;
  [[nodiscard]] std::optional<Measure> offload_optimizer() const;
  // Offloads the states of a part of the elements, in percent.
  [[nodiscard]] Measure offload_optimizer_part(std::int64_t percent) const;
  [[nodiscard]] std::optional<Measure> offload_parameters() const;

  // Updates each parameter as soon as backward has its gradient. None where gradients are
  // accumulated, and where several ranks hold the whole model and no sharding() is taken with it.
  [[nodiscard]] std::optional<Measure> optimizer_in_backward(bool with_sharding = false) const;

  // Optimizers with smaller states and narrower types. They change the numbers that training
  // computes.
  [[nodiscard]] std::vector<Measure> optimizers() const;
  [[nodiscard]] std::vector<Measure> precisions() const;

  // LoRA on all linear layers of a frozen base in 2 bytes, or (QLoRA) in 4 bits.
  [[nodiscard]] std::optional<Measure> adapters(bool quantised_base) const;
  // Computes the head and the loss in chunks; none for a model without a vocabulary.
  [[nodiscard]] std::optional<Measure> fused_loss() const;
  // Divides parameters, gradients and states among the data ranks; none on one GPU.
  // With `in_autocast` FSDP casts what it gathers to the type of autocast, which it replaces, as
  // under the Trainer.
  [[nodiscard]] std::optional<Measure> sharding(bool in_autocast = false) const;

  // Returns the divisors of the samples that a step accumulates, below the present micro-batch;
  // ascending.
  [[nodiscard]] std::vector<std::int64_t> smaller_micro_batches() const;
  // Accumulates micro-batches of this size to the same samples per step.
  [[nodiscard]] Measure micro_batch(std::int64_t size) const;

  // Returns the settings that make all of `measures` together.
  [[nodiscard]] std::vector<Override> overrides(const std::vector<Measure>& measures) const;

 private:
  // Whether DeepSpeed's settings say the same: ranks hold the whole model, or DeepSpeed divides it.
  [[nodiscard]] bool is_as_deepspeed() const;
  [[nodiscard]] bool has_policy(std::string_view name) const;
  [[nodiscard]] bool trains_graph() const;
  [[nodiscard]] bool moves_activations() const;

  const Value& document_;
  const Scenario& scenario_;
  const TrainedModel& model_;
};

}  // namespace tidemark
