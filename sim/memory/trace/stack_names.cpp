#include "sim/memory/trace/stack_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace tidemark {
namespace stack_names_detail {
namespace {

using Names = std::pair<std::string_view, std::string_view>;

// ATen's names, without overload, direction and the words in kPrefixes, and ours. What allocates
// for others (empty, zeros_like, resize_) is not among them.
constexpr std::array kFamilies = std::to_array<Names>({
    {"addmm", "linear"},
    {"mm", "linear"},
    {"matmul", "linear"},
    {"linear", "linear"},
    {"addmm_activation", "linear"},
    {"bmm", "bmm"},
    {"baddbmm", "bmm"},
    {"layer_norm", "layer_norm"},
    {"group_norm", "group_norm"},
    {"rms_norm", "rms_norm"},
    {"batch_norm", "batch_norm"},
    {"gelu", "gelu"},
    {"silu", "silu"},
    {"relu", "relu"},
    {"threshold", "relu"},
    {"sigmoid", "sigmoid"},
    {"tanh", "tanh"},
    {"dropout", "dropout"},
    {"embedding", "embedding"},
    {"embedding_dense", "embedding"},
    {"index_select", "embedding"},
    {"softmax", "softmax"},
    {"log_softmax", "log_softmax"},
    {"cross_entropy", "log_softmax"},
    {"nll_loss", "nll_loss"},
    {"mse_loss", "mse_loss"},
    {"scaled_dot_product_attention", "attention"},
    {"scaled_dot_product_flash_attention", "attention"},
    {"scaled_dot_product_efficient_attention", "attention"},
    {"flash_attention", "attention"},
    {"efficient_attention", "attention"},
    {"attention", "attention"},
    {"convolution", "conv"},
    {"conv1d", "conv"},
    {"conv2d", "conv"},
    {"conv_transpose2d", "conv"},
    {"convolution_transpose", "conv"},
    {"max_pool2d", "max_pool2d"},
    {"max_pool2d_with_indices", "max_pool2d"},
    {"adaptive_avg_pool2d", "mean"},
    {"add", "add"},
    {"add_scalar", "add"},
    {"sub", "sub"},
    {"mul", "mul"},
    {"scale", "mul"},
    {"div", "mul"},
    {"pow", "pow"},
    {"mean", "mean"},
    {"sum", "sum"},
    {"sum_to_size", "sum"},
    {"rsqrt", "rsqrt"},
    {"cat", "cat"},
    {"cast", "cast"},
    {"to_copy", "cast"},
    {"clone", "copy"},
    {"contiguous", "copy"},
    {"reshape", "copy"},
    {"topk", "topk"},
    {"lstm", "lstm"},
    {"gru", "gru"},
    {"rnn", "rnn"},
});

constexpr std::array kPrefixes = std::to_array<std::string_view>(
    {"_", "native_", "cudnn_", "miopen_", "structured_", "thnn_", "fused_", "masked_"});
constexpr std::array kSuffixes =
    std::to_array<std::string_view>({"_", "_backward", "_forward", "_overrideable", "_cuda", "_out",
                                     "_impl", "_nd", "_data", "_input", "_weight"});

// Returns for example "max_pool2d_with_indices" of "_max_pool2d_with_indices_backward_out_cuda".
std::string_view bare(std::string_view name) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const std::string_view prefix : kPrefixes) {
      if (name.size() > prefix.size() && name.starts_with(prefix)) {
        name.remove_prefix(prefix.size());
        changed = true;
      }
    }
    for (const std::string_view suffix : kSuffixes) {
      if (name.size() > suffix.size() && name.ends_with(suffix)) {
        name.remove_suffix(suffix.size());
        changed = true;
      }
    }
  }
  return name;
}

std::string_view known_family(std::string_view name) {
  const auto at = std::find_if(kFamilies.begin(), kFamilies.end(),
                               [&](const Names& names) { return names.first == name; });
  return at == kFamilies.end() ? std::string_view() : at->second;
}

// "add_Tensor" and "sum_dim_IntList" name overloads behind the operator.
std::string_view without_overload(std::string_view name) {
  for (std::size_t i = 0; i + 1 < name.size(); ++i) {
    if (name[i] == '_' && std::isupper(static_cast<unsigned char>(name[i + 1])) != 0)
      return name.substr(0, i);
  }
  return name.ends_with("_int") ? name.substr(0, name.size() - 4) : name;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Returns the identifier behind `before`, if it is in `text`.
std::string_view word_behind(std::string_view text, std::string_view before) {
  const std::size_t at = text.find(before);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = text.substr(at + before.size());
  const auto end = std::find_if(rest.begin(), rest.end(),
                                [](unsigned char c) { return std::isalnum(c) == 0 && c != '_'; });
  return rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
}

std::string_view aten_operator(std::string_view function) {
  for (const std::string_view before : {"at::_ops::", "wrapper_CUDA_", "at::native::"}) {
    const std::string_view name = word_behind(function, before);
    if (!name.empty()) return name;
  }
  return {};
}

// Returns the path behind the last "/torch/", "" outside of PyTorch.
std::string_view path_in_torch(std::string_view file) {
  const std::size_t at = file.rfind("/torch/");
  return at == std::string_view::npos ? std::string_view() : file.substr(at + 7);
}

// Whether the frames are as plots/torch_snapshot.cpp writes them: the storage and its role, the
// operator and its layer, the phase and the step.
bool is_of_tidemark(std::span<const StackFrame> frames) {
  return frames.size() == 3 && frames.back().file == "step";
}

RecordedNames names_of_tidemark(std::span<const StackFrame> frames) {
  RecordedNames names{.phase = std::string(frames[2].name),
                      .op = operator_family(frames[1].name),
                      .layer = std::string(frames[1].file == "model" ? "" : frames[1].file),
                      .tensor = std::string(frames[0].name)};
  if (frames[1].name == "initial") {
    names.phase = "initial";
    names.op = frames[0].file;  // the role
  } else if (names.phase == "optimizer") {
    names.op = optimizer_family(frames[1].name);
  }
  return names;
}

}  // namespace
}  // namespace stack_names_detail

std::string operator_family(std::string_view name) {
  name = stack_names_detail::without_overload(name.substr(0, name.find('.')));
  const std::string_view base = stack_names_detail::bare(name);
  const std::string_view known = stack_names_detail::known_family(base);
  return std::string(known.empty() ? base : known);
}

std::string optimizer_family(std::string_view name) {
  return name.ends_with(".create_state") ? "create_state" : "update";
}

const StackNames::Meaning& StackNames::meaning_of(const StackFrame& frame) {
  key_.assign(frame.name).append(1, '\0').append(frame.file);
  const auto [at, fresh] = known_.try_emplace(key_);
  Meaning& meaning = at->second;
  if (!fresh) return meaning;
  if (const std::string_view op = stack_names_detail::aten_operator(frame.name); !op.empty()) {
    meaning.op = stack_names_detail::known_family(
        stack_names_detail::bare(stack_names_detail::without_overload(op)));
  }
  const bool of_autograd = stack_names_detail::contains(frame.name, "torch::autograd::");
  if (of_autograd && (stack_names_detail::contains(frame.name, "Backward") ||
                      stack_names_detail::contains(frame.name, "::Engine::") ||
                      stack_names_detail::contains(frame.name, "AccumulateGrad"))) {
    meaning.phase = "backward";
  }
  const std::string_view path = stack_names_detail::path_in_torch(frame.file);
  const bool makes = frame.name == "__init__" || frame.name == "_apply" || frame.name == "convert";
  if (path.starts_with("optim/")) {
    const bool state = stack_names_detail::contains(frame.name, "init_group") ||
                       stack_names_detail::contains(frame.name, "init_state");
    meaning.phase = "optimizer";
    meaning.python = state ? "create_state" : "update";
  } else if (path.starts_with("nn/modules/") && makes) {
    meaning.phase = "initial";
    meaning.python = "parameter";
  } else if (path == "autograd/__init__.py" || path == "autograd/graph.py") {
    meaning.phase = "backward";
  } else if (path == "nn/functional.py") {
    meaning.phase = "forward";
    meaning.python = stack_names_detail::known_family(stack_names_detail::bare(frame.name));
  } else if (path.starts_with("nn/modules/") || frame.name == "forward") {
    meaning.phase = "forward";
    if (path == "nn/modules/linear.py") meaning.python = "linear";
    if (path == "nn/modules/conv.py") meaning.python = "conv";
    if (path == "nn/modules/batchnorm.py") meaning.python = "batch_norm";
  }
  return meaning;
}

RecordedNames StackNames::of(std::span<const StackFrame> frames) {
  if (stack_names_detail::is_of_tidemark(frames))
    return stack_names_detail::names_of_tidemark(frames);
  RecordedNames names;
  // The outermost phases decide: an optimizer's step, else a backward that recomputes a forward.
  const auto rank = [](std::string_view phase) {
    constexpr std::array<std::string_view, 5> kInward{"", "forward", "backward", "initial",
                                                      "optimizer"};
    return std::find(kInward.begin(), kInward.end(), phase) - kInward.begin();
  };
  std::string python;
  bool state = false;
  for (const StackFrame& frame : frames) {
    const Meaning& meaning = meaning_of(frame);
    if (names.op.empty()) names.op = meaning.op;
    if (python.empty() && meaning.phase == "forward") python = meaning.python;
    state = state || meaning.python == "create_state";
    if (rank(meaning.phase) > rank(names.phase)) names.phase = meaning.phase;
  }
  if (names.op.empty()) names.op = python;
  if (names.phase == "optimizer") names.op = state ? "create_state" : "update";
  if (names.phase == "initial") names.op = "parameter";
  return names;
}

}  // namespace tidemark
