// An allocator as scenarios, runs and reports see it: a name with options. The event loop is
// compiled for the type behind it (sim/memory/allocator.hpp), so no allocation makes a virtual
// call.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/core/document.hpp"
#include "graph/core/units.hpp"
#include "sim/allocators/address_layout.hpp"
#include "sim/engine/engine.hpp"
#include "sim/memory/out_of_memory.hpp"
#include "sim/memory/packing/packed_allocator.hpp"
#include "sim/memory/torch/torch_recorder.hpp"
#include "sim/program/allocator_calls.hpp"
#include "sim/result/timeline.hpp"

namespace tidemark {

// Facts of an allocator that do not depend on its options.
struct AllocatorTraits {
  std::string_view name;     // the name in scenarios and results
  std::string_view version;  // the version of the modelled rules, where there are several
  std::string_view summary;  // one line
  std::string_view
      rounding;  // the reason why allocations exceed their requests; empty where they do not
  // the process takes memory outside of the allocator: context, NCCL's buffers
  bool has_overhead = true;
  bool has_addresses = true;  // it has addresses, which eviction may look at
  bool has_segments = true;   // memory in use may keep free memory of its segment from the device
  bool plans_ahead = false;   // addresses are fixed before the run, so nothing can be evicted
  bool grows_by_doubling = false;    // without a limit it reserves more than any device needs
  bool keeps_torch_history = false;  // run_recorded() works
};

struct CallRun;
struct CalledSteps;

// An allocator as a run has left it.
class AllocatorAfterRun {
 public:
  AllocatorAfterRun() = default;
  AllocatorAfterRun(const AllocatorAfterRun&) = delete;
  AllocatorAfterRun& operator=(const AllocatorAfterRun&) = delete;
  virtual ~AllocatorAfterRun() = default;
  // Makes the calls of further steps of the program that has run; `made`: the memory that each of
  // its own has reserved. Called once.
  [[nodiscard]] virtual CalledSteps make_further_calls(const CallRun& calls,
                                                       std::vector<StepReserved> made) = 0;
};

// A program and the memory to run it in.
struct AllocatorRun {
  const StepProgram& program;
  const CostTable& costs;
  const RunOptions& options;
  Scratch& scratch;                  // prepared for the program
  Bytes capacity;                    // most that the allocator may take; kUnlimited: no limit
  Bytes process_overhead;            // device memory of the process outside the allocator
  const PackedPlacement& placement;  // empty unless the allocator plans ahead
  // Receives the allocator where its calls tell what it does; null: it is not asked for.
  std::unique_ptr<AllocatorAfterRun>* after = nullptr;
};

// The calls of a program, and the memory to make them in.
struct CallRun {
  const AllocatorCalls& calls;
  const StepProgram& program;  // program that makes the calls
  Bytes capacity;              // see AllocatorRun
  Bytes process_overhead;
  // Up to so many steps in all, until two in a row reserve the same; asked after the program's own,
  // twice as many, four times as many, and so on.
  int limit = 0;
};

// Memory that steps reserve, as far as they got.
struct CalledSteps {
  std::vector<StepReserved> steps;
  std::optional<int> fails_in;  // the step that ran out of memory
  bool retried = false;         // a request was met only after cached memory was released
};

// An option of the allocator set to another value, as in a scenario's `allocator`.
struct AllocatorSetting {
  std::string key;
  Value value;
};
// A change of options that may let a program fit.
struct AllocatorChange {
  std::string text;  // the change in words
  std::vector<AllocatorSetting> settings;
  std::string environment;  // the variable that sets it, "PYTORCH_CUDA_ALLOC_CONF=..."
};

class AllocatorModel {
 public:
  AllocatorModel() = default;
  AllocatorModel(const AllocatorModel&) = delete;
  AllocatorModel& operator=(const AllocatorModel&) = delete;
  virtual ~AllocatorModel() = default;

  [[nodiscard]] virtual const AllocatorTraits& traits() const = 0;
  // Runs the program on a fresh allocator. `failure`, if given, is filled when the device runs out
  // of memory.
  virtual RunResult run(const AllocatorRun& run, OutOfMemory* failure) const = 0;
  // Runs several ranks together, each on a fresh allocator. `failures`: one for each rank.
  [[nodiscard]] virtual std::vector<RunResult> run_ranks(std::span<const AllocatorRun> ranks,
                                                         std::span<OutOfMemory> failures) const = 0;
  // Makes the calls on a fresh allocator. Nothing where the allocator does more than they tell.
  [[nodiscard]] virtual std::optional<CalledSteps> make_calls(const CallRun& /*calls*/) const {
    return std::nullopt;
  }
  // Plans the addresses of a program, for allocators that plan ahead.
  [[nodiscard]] virtual PackedPlacement place(const StepProgram& /*program*/) const { return {}; }
  // Whether a device with as much as a run without a limit reserves is large enough, and no smaller
  // one is. Rules that depend on the capacity may ask for more.
  [[nodiscard]] virtual bool needs_what_it_reserves() const { return true; }
  // Returns the share of the device that may be reserved, where the options set one.
  [[nodiscard]] virtual double memory_fraction() const { return 1; }
  // Returns the bytes that may be reserved on a device of this capacity, of which the process takes
  // some elsewhere.
  [[nodiscard]] virtual Bytes allowed(Bytes capacity, Bytes process_overhead) const {
    return capacity - process_overhead;
  }
  // Returns changes of options that may reduce fragmentation, least intrusive first.
  [[nodiscard]] virtual std::vector<AllocatorChange> changes() const { return {}; }
  // Returns a sentence where an option does less than its name suggests; empty otherwise.
  [[nodiscard]] virtual std::string_view remark() const { return {}; }
  // Whether the options ask for PyTorch's expandable segments, which older versions lack.
  [[nodiscard]] virtual bool expands_segments() const { return false; }
  // Whether the last step is captured as a CUDA graph, whose replays allocate nothing.
  [[nodiscard]] virtual bool captures_last_step() const { return false; }
  // Returns the addresses of the allocations in a run; `timeline` is that of an equal run with
  // events. Empty where there are no addresses.
  [[nodiscard]] virtual AddressLayout layout(const AllocatorRun& /*run*/,
                                             const MemoryTimeline& /*timeline*/) const {
    return {};
  }
  // Runs the program and returns everything that PyTorch's allocator does, up to the request that
  // failed if one does; null where the allocator is another.
  [[nodiscard]] virtual std::unique_ptr<const TorchRecorder> run_recorded(
      const AllocatorRun& /*run*/) const {
    return nullptr;
  }
};

// Returns the traits of the allocator that counts live bytes and adds nothing of its own.
[[nodiscard]] const AllocatorTraits& ideal_traits();

}  // namespace tidemark
