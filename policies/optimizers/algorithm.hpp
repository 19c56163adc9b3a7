// An optimizer as data: its state, the kernels of its step and the temporaries of an
// implementation. Each optimizer is one file that fills this in.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/core/units.hpp"
#include "graph/ir/tensor.hpp"
#include "graph/ir/work.hpp"
#include "graph/operators/framework.hpp"

namespace tidemark {

struct OptimizerSpec;
struct OptimizerAlgorithm;

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
  kRootMeanSquare,  // root mean square of Adafactor's parameter: one number
  kCompensation,    // Kahan's: what rounding the weights has lost
  kProjector,       // the basis of a low-rank gradient
  kLeftFactor,      // sums of G G^T and of G^T G
  kRightFactor,
  kLeftBasis,  // the factors' eigenvectors, or their inverse roots
  kRightBasis,
  kGrafted,            // squares of the optimizer that gives the length of an update
  kParameter,          // the 2-byte parameter beside its master
  kGradient,           // .grad
  kConvertedGradient,  // .grad in the masters' type
  kDecayedGradient,    // gradient plus decayed weights
  kTemporary,
  kOtherTemporary,
  kLearningRate,  // the learning rate of one parameter as a tensor: one number
};
inline constexpr std::size_t kOptimizerTensors = 25;
// State and weights, in the order in which an operator over one parameter touches them.
inline constexpr std::size_t kPersistentOptimizerTensors = 18;

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
  double flops = 1;  // operations per element
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
  Bytes after;            // bytes besides `inside` once the last iteration's variable is freed
};

// The place of a parameter in the model, which some optimizers choose an algorithm by.
enum class ParameterUse : std::uint8_t {
  kOther,      // a vector, or a part of a flat tensor
  kMatrix,     // a matrix, or the kernels of a convolution, a row per output channel
  kEmbedding,  // rows that are looked up; also where it is the head as well
  kHead,       // the matrix that forward multiplies by last
};

// The parameter whose state is created.
struct OptimizedParameter {
  Elements elements;
  Shape shape;
  DType type = DType::kFloat32;  // type of the updated weights
  Bytes moment;   // one tensor of the parameter's length in the type of the updated weights
  Bytes counter;  // a step counter on the device; none where the count is a Python number
  ParameterUse use = ParameterUse::kOther;
};

// A kernel, or a few of them, on one matrix. The operator touches what `reads` and `mutates` name
// and, unless it is a refresh, every tensor that earlier kernels of the same matrix have made.
struct MatrixKernel {
  std::string_view name;
  OptimizerTensors reads;
  OptimizerTensors mutates;
  Work work;
  Bytes workspace;  // bytes inside one kernel
  Bytes temporary;  // made and freed by these kernels
  // A tensor that later kernels read: a variable, which lives until the loop's next iteration has
  // replaced it.
  Bytes makes;
  bool refreshes = false;  // runs every spec.refresh steps only, from the first one on
};

// The matrix whose update a list of kernels computes.
struct UpdatedMatrix {
  Shape shape;
  DType type = DType::kFloat32;    // type of the updated weights and their moments
  bool converts_gradient = false;  // the gradient has another type
};

// An algorithm as a library other than the usual one has it.
struct OptimizerLibrary {
  std::string_view name;  // name in training.optimizer.implementation
  const OptimizerAlgorithm& (*algorithm)() = nullptr;
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
  bool takes_rounding = false;    // Kahan's compensation, stochastic rounding
  bool takes_embeddings = false;  // embeddings: fp32
  int rank = 0;                   // default; the optimizer takes a rank unless this is 0
  // Default number of steps between two refreshes of what matrix kernels project by; 0: the
  // optimizer has none.
  int refresh = 0;
  // The algorithm of the same code with a momentum, if that has a name of its own.
  const OptimizerAlgorithm& (*with_momentum)() = nullptr;
  std::span<const OptimizerLibrary> libraries;  // the usual one first; empty where there is one

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
  // The host waits for the device after each parameter.
  bool synchronises = false;
  bool on_host = true;  // there is an implementation for the CPU

  // An optimizer whose updates are more than elementwise says which parameters it takes, and their
  // kernels; `beside_matrices` is the optimizer of the others.
  bool (*takes)(const OptimizerSpec& spec, const Shape& shape, ParameterUse use) = nullptr;
  void (*add_matrix_kernels)(const OptimizerSpec& spec, const UpdatedMatrix& matrix,
                             std::vector<MatrixKernel>& kernels) = nullptr;
  const OptimizerAlgorithm& (*beside_matrices)() = nullptr;
  // Says what differs where a rank updates a flat part of a matrix, as ZeRO has it, whose rows and
  // columns are not known; empty where nothing does.
  std::string_view on_flat_parts;
};

// Identifies an optimizer: equal pointers are equal optimizers.
using OptimizerKind = const OptimizerAlgorithm*;

// Adds the kernel that most fused implementations consist of: gradient and weights, and a moment if
// there is one.
void add_fused_update(OptimizerKernels& kernels);
void add_fused_moment_update(OptimizerKernels& kernels);

}  // namespace tidemark
