// The device as one process of a step sees it.
#pragma once

#include <optional>

#include "graph/core/units.hpp"
#include "hwprofiles/device_profile.hpp"
#include "sim/program/lower.hpp"
#include "sim/step/step_spec.hpp"

namespace tidemark {

// Returns the workspaces that the device's libraries allocate under the step's framework.
[[nodiscard]] LibraryWorkspaces libraries_of(const StepSpec& spec);
// Returns the step's device, with the framework's figures from libraries_of().
[[nodiscard]] DeviceProfile device_of(const StepSpec& spec);

// Returns the type of the matrix products, whose peak the model's operations are measured against.
[[nodiscard]] DType compute_type(const StepSpec& spec);

// Returns the type in which policies gather parameters, and in which the model computes then; none
// where they do not say, and on one replica, which gathers nothing.
[[nodiscard]] std::optional<DType> gathered_type(const StepSpec& spec);

// Device memory that a process takes outside its allocator: the CUDA context and, with several
// ranks, NCCL's buffers. None for the ideal allocator.
[[nodiscard]] Bytes process_overhead(const StepSpec& spec);
// Returns how many ranks gather parameters among themselves in backward (see TrainingRewrite).
[[nodiscard]] int gather_ranks(const StepSpec& spec);

}  // namespace tidemark
