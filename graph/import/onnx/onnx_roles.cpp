#include "graph/import/onnx/onnx_roles.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include <fmt/format.h>

#include "graph/core/decoder.hpp"
#include "graph/core/errors.hpp"

namespace tidemark {
namespace onnx_roles_detail {
namespace {

constexpr std::string_view kRolePrefix = "tidemark.role:";
constexpr std::string_view kAbsentPrefix = "tidemark.absent:";

// Most elements along one axis of integers that are sizes and axes, not tables.
constexpr Elements kMostSizes{16};

// Whether a value only selects (a mask, indices) and never takes part in arithmetic.
bool only_decides(const OnnxModel& model, const OnnxUses& uses, OnnxValueId value, int depth) {
  constexpr std::array<std::string_view, 7> kDecides = {
      "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Not", "Shape"};
  constexpr std::array<std::string_view, 7> kPasses = {
      "Slice", "Unsqueeze", "Squeeze", "Reshape", "Transpose", "Expand", "Cast"};
  constexpr int kDeepest = 16;
  if (depth > kDeepest || uses.readers[value].empty() || uses.is_output[value] != 0) return false;
  return std::all_of(
      uses.readers[value].begin(), uses.readers[value].end(), [&](const OnnxUse& use) {
        const OnnxNode& node = model.nodes[use.node];
        if (std::ranges::count(kDecides, node.op) > 0) return true;
        if (node.op == "Where") return use.operand == 0;
        if (node.op == "Gather" || node.op == "GatherElements") return use.operand == 1;
        return std::ranges::count(kPasses, node.op) > 0 && use.operand == 0 &&
               !node.outputs.empty() && only_decides(model, uses, node.outputs.front(), depth + 1);
      });
}

// Whether a tensor is a vector of nn.utils.spectral_norm, which calls those of `weight_orig`
// `weight_u` and `weight_v`.
bool is_spectral_vector(const OnnxModel& model, const OnnxInitializer& initializer) {
  const std::string& name = model.names[initializer.value];
  if (initializer.tensor.dims.size() != 1) return false;
  if (!name.ends_with("_u") && !name.ends_with("_v")) return false;
  const std::string original = name.substr(0, name.size() - 1) + "orig";
  return std::any_of(
      model.initializers.begin(), model.initializers.end(),
      [&](const OnnxInitializer& other) { return model.names[other.value] == original; });
}

OnnxRole role_by_rule(const OnnxModel& model, const OnnxUses& uses,
                      const OnnxInitializer& initializer) {
  const OnnxConstant& tensor = initializer.tensor;
  const std::vector<OnnxUse>& readers = uses.readers[initializer.value];
  const auto all = [&](auto predicate) {
    return !readers.empty() && std::all_of(readers.begin(), readers.end(), predicate);
  };
  if (tensor.known &&
      all([&](const OnnxUse& use) { return is_setting(model.nodes[use.node], use.operand); })) {
    return OnnxRole::kSetting;
  }
  if (!is_floating(tensor.dtype)) {
    const bool sizes = tensor.known && tensor.dims.size() <= 1 && tensor.elements() <= kMostSizes;
    return sizes ? OnnxRole::kSetting : OnnxRole::kBuffer;
  }
  if (all([&](const OnnxUse& use) {
        return model.nodes[use.node].op == "BatchNormalization" && use.operand >= 3;
      })) {
    return OnnxRole::kBuffer;
  }
  if (is_spectral_vector(model, initializer)) return OnnxRole::kBuffer;
  return only_decides(model, uses, initializer.value, 0) ? OnnxRole::kBuffer : OnnxRole::kParameter;
}

[[noreturn]] void fail_metadata(const OnnxModel& model, std::string_view key,
                                std::string_view value) {
  throw UserError({.file = model.path}, "",
                  fmt::format("its metadata {} = {} is not understood", quoted_excerpt(key),
                              quoted_excerpt(value)));
}

DType dtype_named(const OnnxModel& model, std::string_view key, std::string_view value,
                  std::string_view type) {
  constexpr std::array<std::pair<std::string_view, DType>, 10> kTypes = {
      {{"float64", DType::kFloat64},
       {"float32", DType::kFloat32},
       {"float16", DType::kFloat16},
       {"bfloat16", DType::kBFloat16},
       {"int64", DType::kInt64},
       {"int32", DType::kInt32},
       {"int8", DType::kInt8},
       {"uint8", DType::kInt8},
       {"bool", DType::kBool},
       {"float8", DType::kFloat8}}};
  for (const auto& [name, dtype] : kTypes) {
    if (name == type) return dtype;
  }
  fail_metadata(model, key, value);
}

// "buffer int64 [2, 3]"
OnnxAbsent absent_tensor(const OnnxModel& model, std::string_view key, std::string_view value) {
  OnnxAbsent absent{.name = std::string(key.substr(kAbsentPrefix.size()))};
  const std::size_t first = value.find(' ');
  const std::size_t open = value.find('[');
  const std::size_t close = value.find(']');
  if (first == std::string_view::npos || open == std::string_view::npos || close < open ||
      open < first + 2 || close == std::string_view::npos) {
    fail_metadata(model, key, value);
  }
  const std::string_view role = value.substr(0, first);
  if (role != "buffer" && role != "parameter") fail_metadata(model, key, value);
  absent.is_parameter = role == "parameter";
  std::string_view type = value.substr(first + 1, open - first - 1);
  while (type.ends_with(' '))
    type.remove_suffix(1);
  absent.dtype = dtype_named(model, key, value, type);
  const char* at = value.data() + open + 1;
  const char* end = value.data() + close;
  while (at < end) {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    std::int64_t extent = 0;
    const auto [next, error] = std::from_chars(at, end, extent);
    if (error != std::errc() || extent < 0 || absent.shape.rank() == kMaxRank) {
      fail_metadata(model, key, value);
    }
    absent.shape.push_back(extent);
    at = next;
  }
  return absent;
}

}  // namespace
}  // namespace onnx_roles_detail

std::string known_names(std::string_view name, const std::vector<std::string>& known) {
  std::string nearest = did_you_mean(name, known);
  if (!nearest.empty() || known.empty()) return nearest;
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t i = 0; i < known.size() && i < kShown; ++i)
    text += fmt::format("{}{}", i == 0 ? "; known: " : ", ", tidemark::quoted_excerpt(known[i]));
  if (known.size() > kShown) text += fmt::format(" and {} more", known.size() - kShown);
  return text;
}

OnnxRoles onnx_roles(const OnnxModel& model, const OnnxUses& uses,
                     const std::vector<std::pair<std::string, OnnxRole>>& wanted) {
  OnnxRoles roles;
  std::unordered_map<std::string_view, std::size_t> index;
  for (const OnnxInitializer& initializer : model.initializers) {
    index.emplace(model.names[initializer.value], roles.initializers.size());
    roles.initializers.push_back(onnx_roles_detail::role_by_rule(model, uses, initializer));
  }
  for (const auto& [key, value] : model.metadata) {
    if (key.starts_with(onnx_roles_detail::kAbsentPrefix))
      roles.absent.push_back(onnx_roles_detail::absent_tensor(model, key, value));
    if (!key.starts_with(onnx_roles_detail::kRolePrefix)) continue;
    if (value != "parameter" && value != "buffer")
      onnx_roles_detail::fail_metadata(model, key, value);
    const auto found =
        index.find(std::string_view(key).substr(onnx_roles_detail::kRolePrefix.size()));
    if (found == index.end()) continue;
    roles.initializers[found->second] =
        value == "parameter" ? OnnxRole::kParameter : OnnxRole::kBuffer;
  }
  for (const auto& [name, role] : wanted) {
    const auto found = index.find(name);
    if (found == index.end()) {
      std::vector<std::string> known;
      for (const OnnxInitializer& initializer : model.initializers)
        known.push_back(model.names[initializer.value]);
      throw UserError({}, fmt::format("model.roles.{}", name),
                      fmt::format("{} has no initializer of this name{}", model.path,
                                  known_names(name, known)));
    }
    roles.initializers[found->second] = role;
  }
  return roles;
}

}  // namespace tidemark
