// Modules that work in place: by the file's metadata or by the user's patterns.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/import/onnx/onnx_modules.hpp"

namespace tidemark {
namespace onnx_in_place_detail {
namespace {

constexpr std::string_view kPrefix = "tidemark.inplace:";

// Classes of torch.nn that take `inplace`. A module of another class may have an attribute of that
// name, which says nothing about operators.
constexpr std::array<std::string_view, 21> kClasses = {"ReLU",
                                                       "ReLU6",
                                                       "LeakyReLU",
                                                       "RReLU",
                                                       "ELU",
                                                       "SELU",
                                                       "CELU",
                                                       "SiLU",
                                                       "Hardswish",
                                                       "Hardsigmoid",
                                                       "Hardtanh",
                                                       "Mish",
                                                       "Threshold",
                                                       "Dropout",
                                                       "AlphaDropout",
                                                       "Dropout1d",
                                                       "Dropout2d",
                                                       "Dropout3d",
                                                       "FeatureAlphaDropout",
                                                       "Swish",
                                                       "MemoryEfficientSwish"};

// Whether `pattern`, in which * stands for any text, is all of `path`.
bool fits(std::string_view pattern, std::string_view path) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == path;
  if (!path.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t from = star; from <= path.size(); ++from) {
    if (fits(rest, path.substr(from))) return true;
  }
  return false;
}

// Returns the path of a module by that of a repeated call: layer1.relu of layer1.relu_1.
std::string_view without_call(std::string_view path) {
  const std::size_t digits = path.find_last_not_of("0123456789");
  const bool numbered = digits != std::string_view::npos && digits > 0 &&
                        digits + 1 < path.size() && path[digits] == '_';
  return numbered ? path.substr(0, digits) : path;
}

}  // namespace
}  // namespace onnx_in_place_detail

InPlaceModules::InPlaceModules(const OnnxModel& model, const OnnxModules& modules,
                               const std::vector<std::string>& patterns) {
  using onnx_in_place_detail::fits;
  using onnx_in_place_detail::kClasses;
  using onnx_in_place_detail::kPrefix;
  using onnx_in_place_detail::without_call;
  for (const auto& [key, value] : model.metadata) {
    if (!key.starts_with(kPrefix)) continue;
    if (std::find(kClasses.begin(), kClasses.end(), value) == kClasses.end()) continue;
    paths_.insert(key.substr(kPrefix.size()));
  }
  for (const std::string& pattern : patterns) {
    bool found = false;
    for (const OnnxModule& module : modules.all) {
      const std::string_view path = without_call(module.path);
      if (!fits(pattern, path)) continue;
      found = true;
      paths_.insert(std::string(path));
    }
    if (!found) {
      throw UserError(
          {}, "model.in_place",
          fmt::format("{} has no module {}", model.path, tidemark::quoted_excerpt(pattern)));
    }
  }
}

bool InPlaceModules::contain(std::string_view path) const {
  return paths_.contains(path) || paths_.contains(onnx_in_place_detail::without_call(path));
}

}  // namespace tidemark
