// Settings of a differentiation beside the graph and the framework.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/ir/dtype.hpp"

namespace tidemark {

struct StageBoundary;  // stage_boundary.hpp

// The part of the model's result that a variable of the training loop keeps.
enum class HoldOutput : std::uint8_t {
  kNothing,
  kLogits,
  kFp32Logits,  // the model ends in logits.float(), as Llama's code did until 2024, and returns
                // those
};

// How long it does. The loss is named as long as the output is.
enum class HeldUntil : std::uint8_t {
  kEndOfStep,   // a step is a function, whose variables end with it
  kNextOutput,  // a loop's own variables: the next micro-batch runs beside the output of this one
};

struct DifferentiateOptions {
  HoldOutput hold_output = HoldOutput::kNothing;
  HeldUntil held_until = HeldUntil::kEndOfStep;
  // Gradients of parameters are kept in this type; nullopt: in the parameter's own.
  std::optional<DType> gradient_dtype;
  // The graph is an evaluation_graph(): the training loop's variable keeps what the model returned.
  bool evaluates = false;
  // A gradient that forward has computed and autograd kept becomes .grad itself. Otherwise it is
  // copied: a step that accumulates or shards gradients needs them to be made in backward.
  bool takes_saved_gradients = false;
  // Transfers of a pipeline's chunk; null for a whole model.
  const StageBoundary* boundary = nullptr;
};

}  // namespace tidemark
