// An optimizer as data: its state, the kernels of its step and the temporaries of an
// implementation. Each optimizer is one file that fills this in.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/core/units.hpp"
#include "graph/ir/tensor.hpp"
#include "graph/operators/framework.hpp"

namespace tidemark {

struct OptimizerSpec;

enum class OptimizerImplementation : std::uint8_t {
  kLoop,     // one parameter after the other: torch.optim with foreach=False
  kForeach,  // each kernel over all parameters: foreach=True
  kFused,    // everything in one kernel: fused=True, Apex and DeepSpeed FusedAdam
};
// The names of the implementations, in the order of OptimizerImplementation.
inline constexpr std::array<std::string_view, 3> kOptimizerImplementations = {"loop", "foreach",
                                                                              "fused"};

// The tensors of one parameter that kernels read and write, each of the parameter's length unless
// it says otherwise.
enum class OptimizerTensor : std::uint8_t {
  kStep,           // counter: one number
  kWeights,        // the updated weights: the fp32 master, or the parameter itself
  kFirstMoment,    // also the momentum buffer
  kSecondMoment,   // also sums and means of squares
  kLargestMoment,  // amsgrad: the largest second moment so far
  kMeanGradient,   // rmsprop, centered
  kFirstScales,    // scales of 8-bit moments, one number per block
  kSecondScales,
  kRows,  // Adafactor's second moment, summed by rows and by columns
  kColumns,
  kRootMeanSquare,     // root mean square of Adafactor's parameter: one number
  kParameter,          // the 2-byte parameter beside its master
  kGradient,           // .grad
  kConvertedGradient,  // .grad in the masters' type
  kDecayedGradient,    // gradient plus decayed weights
  kTemporary,
  kOtherTemporary,
  kLearningRate,  // the learning rate of one parameter as a tensor: one number
};
inline constexpr std::size_t kOptimizerTensors = 18;
// State and weights, in the order in which an operator over one parameter touches them.
inline constexpr std::size_t kPersistentOptimizerTensors = 11;

[[nodiscard]] constexpr bool is_temporary(OptimizerTensor tensor) {
  return tensor >= OptimizerTensor::kConvertedGradient;
}
// A variable of the implementation's function, which lives until that returns.
[[nodiscard]] constexpr bool is_variable(OptimizerTensor tensor) {
  return tensor >= OptimizerTensor::kTemporary;
}

using OptimizerTensors = std::vector<OptimizerTensor>;

struct OptimizerKernel {
  std::string_view name;
  OptimizerTensors reads;
  OptimizerTensors writes;
  double flops = 1;  // per element
};

// Kernels in order. The gradient that later kernels read changes on the way: kGradient stands for
// the newest form of it.
class OptimizerKernels {
 public:
  void add(std::string_view name, OptimizerTensors reads, OptimizerTensors writes,
           double flops = 1);
  void read_gradient_from(OptimizerTensor tensor) { gradient_ = tensor; }
  [[nodiscard]] std::vector<OptimizerKernel> take() { return std::move(list_); }

 private:
  std::vector<OptimizerKernel> list_;
  OptimizerTensor gradient_ = OptimizerTensor::kGradient;
};

// A tensor that an optimizer keeps of a parameter from step to step.
struct OptimizerState {
  OptimizerTensor tensor;
  std::string_view suffix;
  Bytes bytes;
  bool from_start = false;  // made with the optimizer rather than in its first step
};

// The memory that one iteration of a loop implementation holds for its parameter beside state and
// gradient.
struct LoopTemporaries {
  int inside = 0;         // tensors that live inside the iteration
  bool outlives = false;  // one more, a variable that lives until the next iteration replaces it
  Bytes scalars;          // constants inside one kernel
  Bytes after;            // besides `inside`, after the variable of the last iteration is freed
};

// The parameter whose state is created.
struct OptimizedParameter {
  std::int64_t elements = 0;
  Shape shape;
  Bytes moment;   // one tensor of the parameter's length in the type of the updated weights
  Bytes counter;  // a step counter on the device; none where the count is a Python number
};

struct OptimizerAlgorithm {
  std::string_view name;     // name in training.optimizer
  std::string_view summary;  // its state in bytes per parameter and where it is published
  // Forms that exist, by OptimizerImplementation.
  std::array<bool, kOptimizerImplementations.size()> forms{};
  double weight_decay = 0;  // defaults of the optimizer's own code
  double momentum = 0;
  // Keys that the optimizer takes: momentum also where it is 0 by default.
  bool takes_momentum = false;
  bool takes_amsgrad = false;
  bool takes_centered = false;
  // The algorithm of the same code with a momentum, if that has a name of its own.
  const OptimizerAlgorithm& (*with_momentum)() = nullptr;

  void (*add_states)(const OptimizerSpec& spec, const OptimizedParameter& parameter,
                     std::vector<OptimizerState>& states) = nullptr;
  // Adds the kernels of the loop and foreach forms, without conversions to and from the masters'
  // type.
  void (*add_kernels)(const OptimizerSpec& spec, OptimizerImplementation form,
                      const FrameworkRules& rules, OptimizerKernels& kernels) = nullptr;
  // Adds the one kernel of the fused form.
  void (*add_fused)(const OptimizerSpec& spec, OptimizerKernels& kernels) = nullptr;
  LoopTemporaries (*loop_temporaries)(const OptimizerSpec& spec, const FrameworkRules& rules,
                                      const Shape& shape) = nullptr;

  bool one_kernel_per_parameter = false;  // also in the fused form
  bool on_host = true;                    // there is an implementation for the CPU
  // The optimizer of the other parameters, for one of matrices alone, which orthogonalises their
  // updates.
  const OptimizerAlgorithm& (*beside_matrices)() = nullptr;
};

// Identifies an optimizer: equal pointers are equal optimizers.
using OptimizerKind = const OptimizerAlgorithm*;

// Adds the kernel that most fused implementations consist of: gradient and weights, and a moment if
// there is one.
void add_fused_update(OptimizerKernels& kernels);
void add_fused_moment_update(OptimizerKernels& kernels);

}  // namespace tidemark
