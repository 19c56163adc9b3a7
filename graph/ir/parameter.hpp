// The parameters of a model, trained and frozen, and what training keeps for each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "graph/core/ids.hpp"
#include "graph/ir/dtype.hpp"
#include "graph/ir/storage.hpp"
#include "graph/ir/tensor.hpp"

namespace tidemark {

// The gradient of one parameter that is left on this rank when backward is over: all of it or the
// rank's part, in a storage that may hold those of other parameters as well.
struct RemainingGradient {
  StorageId storage;  // invalid where nothing is left
  Elements elements;
  DType dtype = DType::kFloat32;
};

// Whether the gradient of a parameter exists when the first backward of a turn begins (see
// TrainingGraph::turns): another turn of the step has made it, or zero_grad has filled it.
enum class GradientBefore : std::uint8_t {
  kNone,
  kAfterFirstStep,  // in every step but step 0
  kAlways,
};

struct Parameter {
  std::string name;  // "h.3.attn.c_attn.weight"
  LayerId layer;
  Shape shape;  // shape of the whole parameter; empty where unknown
  DType dtype = DType::kFloat32;
  Elements elements;    // elements of the whole parameter
  bool trained = true;  // frozen otherwise
  TensorId tensor;      // tensor of the forward graph
  StorageId storage;    // the storage that forward and backward read
  // Every tensor rank has the whole parameter, and backward makes a part of its gradient's sum on
  // each: of its tokens, or of its heads.
  bool summed_over_tensor = false;
  // It belongs to experts: ranks of the expert dimension have different ones.
  bool of_expert = false;
  // Another stage of a pipeline holds a copy of it, as of a tied embedding.
  bool on_other_stages = false;

  // Invalid where backward makes no gradient: the parameter is frozen or the loss does not depend
  // on it.
  StorageId gradient;
  DType gradient_dtype = DType::kFloat32;
  // The last operator of backward before AccumulateGrad runs for it: nodes of views run between the
  // kernel that makes the gradient and that.
  OperatorId ready_after;
  // Another turn of the step updates the parameter and zeroes its gradient, to which this one adds.
  bool updated_elsewhere = false;
  GradientBefore gradient_before = GradientBefore::kNone;
  // Set by a policy that frees `gradient` before the optimizer runs. What the optimizer reads
  // may be a copy of this; see UpdatedTensor::gradient.
  std::optional<RemainingGradient> remaining;
};

// Returns the gradient that backward leaves: `gradient` itself unless a policy has replaced it.
[[nodiscard]] RemainingGradient remaining_gradient(const Parameter& parameter);

// A tensor that the optimizer updates: a whole parameter, this rank's part of one, or a flat tensor
// of many.
struct UpdatedTensor {
  std::string name;
  LayerId layer;
  Shape shape;  // empty for a flat tensor
  DType dtype = DType::kFloat32;
  Elements elements;      // elements that this rank updates
  ParameterId parameter;  // the parameter, if it is one, or a part of one
  bool padding = false;   // belongs to no parameter, so that parts are of one size
  StorageId weights;      // the storage that holds the tensor from step to step
  // The storage that the optimizer changes: `weights`, or a copy where updates are delayed by a
  // step.
  StorageId updated;
  StorageId gradient;
  DType gradient_dtype = DType::kFloat32;
  // The processor that updates the tensor and holds its optimizer state. On the host, tensors of
  // one group are updated by one operator.
  Executor updated_by = Executor::kDevice;
  int update_group = 0;
  Tier state_home = Tier::kDevice;
};

// Counts the elements of all parameters, and of the trained ones.
[[nodiscard]] Elements parameter_elements(const IdVector<ParameterId, Parameter>& parameters);
[[nodiscard]] Elements trained_elements(const IdVector<ParameterId, Parameter>& parameters);

}  // namespace tidemark
