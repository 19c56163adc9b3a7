// Names of allocations from the stacks of PyTorch's snapshots.
#include "sim/memory/trace/stack_names.hpp"

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace tidemark::stack_names_test {

namespace {

constexpr const char* kTorch = "/usr/lib/python3/dist-packages/torch/";

struct Frame {
  std::string name;
  std::string file = "??";
};

RecordedNames names_of(const std::vector<Frame>& frames) {
  std::vector<StackFrame> views;
  for (const Frame& frame : frames)
    views.push_back({frame.name, frame.file});
  return StackNames().of(views);
}

Frame torch(const std::string& name, const std::string& path) {
  return {name, kTorch + path};
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("one operator has one name, whatever PyTorch calls it") {
    const std::initializer_list<std::pair<const char*, const char*>> kNames{
        {"addmm", "linear"},
        {"mm", "linear"},
        {"linear.weight_gradient", "linear"},
        {"native_layer_norm_backward", "layer_norm"},
        {"layer_norm.backward", "layer_norm"},
        {"_log_softmax_backward_data", "log_softmax"},
        {"nll_loss_forward", "nll_loss"},
        {"nll_loss_nd", "nll_loss"},
        {"_scaled_dot_product_flash_attention_backward", "attention"},
        {"_flash_attention_forward", "attention"},
        {"attention.backward", "attention"},
        {"embedding_dense_backward", "embedding"},
        {"cudnn_convolution", "conv"},
        {"convolution_backward", "conv"},
        {"conv2d.input_gradient", "conv"},
        {"cudnn_batch_norm", "batch_norm"},
        {"max_pool2d_with_indices_backward", "max_pool2d"},
        {"add_Tensor", "add"},
        {"add__Tensor", "add"},
        {"pow_Tensor_Scalar", "pow"},
        {"mul.backward", "mul"},
        {"_to_copy", "cast"},
        {"masked_softmax", "softmax"},
        {"sort", "sort"},
    };
    for (const auto& [aten, ours] : kNames) {
      CAPTURE(aten);
      CHECK(operator_family(aten) == ours);
    }
    CHECK(optimizer_family("adamw.create_state") == "create_state");
    CHECK(optimizer_family("adamw.fused") == "update");
  }

  TEST_CASE("a forward names the innermost operator, not what allocates for it") {
    const RecordedNames names =
        names_of({{"torch::unwind::unwind()"},
                  {"c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(...)"},
                  {"at::_ops::empty_strided::redispatch(c10::DispatchKeySet)"},
                  {"at::_ops::_log_softmax::call(at::Tensor const&, long, bool)"},
                  {"at::_ops::cross_entropy_loss::call(at::Tensor const&)"},
                  torch("cross_entropy", "nn/functional.py"),
                  {"forward", "/home/me/model.py"},
                  torch("_call_impl", "nn/modules/module.py"),
                  {"main", "/home/me/train.py"}});
    CHECK(names == RecordedNames{.phase = "forward", .op = "log_softmax"});
    // Python frames alone, as with _record_memory_history(stacks="python").
    CHECK(names_of({torch("forward", "nn/modules/linear.py"),
                    torch("_call_impl", "nn/modules/module.py"),
                    {"forward", "/home/me/model.py"}}) ==
          RecordedNames{.phase = "forward", .op = "linear"});
    CHECK(names_of({torch("layer_norm", "nn/functional.py")}).op == "layer_norm");
  }

  TEST_CASE("autograd's nodes mean backward, also where a checkpoint recomputes a forward") {
    const Frame engine{"torch::autograd::Engine::evaluate_function(...)"};
    CHECK(names_of({{"at::_ops::empty_memory_format::call(...)"},
                    {"at::(anonymous namespace)::wrapper_CUDA_mm(at::Tensor const&)"},
                    {"torch::autograd::generated::AddmmBackward0::apply(...)"},
                    engine}) == RecordedNames{.phase = "backward", .op = "linear"});
    CHECK(names_of({{"at::native::gelu_cuda(at::Tensor const&)"},
                    {"forward", "/home/me/model.py"},
                    torch("recompute_fn", "utils/checkpoint.py"),
                    {"torch::autograd::PySavedVariableHooks::call_unpack()"},
                    engine,
                    torch("backward", "autograd/__init__.py")}) ==
          RecordedNames{.phase = "backward", .op = "gelu"});
  }

  TEST_CASE("an optimizer's step is its states and its update, a module's making its parameters") {
    CHECK(names_of({{"at::_ops::zeros_like::call(...)"},
                    torch("_init_group", "optim/adamw.py"),
                    torch("step", "optim/adamw.py"),
                    {"main", "/home/me/train.py"}}) ==
          RecordedNames{.phase = "optimizer", .op = "create_state"});
    CHECK(names_of({{"at::_ops::_foreach_mul_Scalar::call(...)"},
                    torch("_multi_tensor_adamw", "optim/adamw.py")}) ==
          RecordedNames{.phase = "optimizer", .op = "update"});
    CHECK(names_of({torch("convert", "nn/modules/module.py"),
                    torch("_apply", "nn/modules/module.py"),
                    {"main", "/home/me/train.py"}}) ==
          RecordedNames{.phase = "initial", .op = "parameter"});
  }

  TEST_CASE("a stack of none of these says nothing") {
    CHECK(names_of({}) == RecordedNames{});
    CHECK(names_of({{"load", "/home/me/loader.py"}, {"std::thread::run()"}}) == RecordedNames{});
  }
}

}  // namespace tidemark::stack_names_test
