// An ONNX file as the importer sees it: names replaced by ids, weights by their shapes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph/core/ids.hpp"
#include "graph/core/saturated.hpp"
#include "graph/ir/dtype.hpp"

namespace tidemark {

using OnnxValueId = Id<struct OnnxValueTag>;  // a name: an input, an initializer, a node's output
using OnnxNodeId = Id<struct OnnxNodeTag>;

// Largest number of elements of a constant whose content is kept; of larger ones only the shape is
// known. Operands that shapes depend on have a few elements, masks and position tables have many.
inline constexpr Elements kKnownElements{4096};

// A constant tensor. Integers and bools are in `integers`, floating numbers in `numbers`,
// row-major; both are empty when the content is not known.
struct OnnxConstant {
  DType dtype = DType::kInt64;
  std::vector<std::int64_t> dims;
  std::vector<std::int64_t> integers;
  std::vector<double> numbers;
  bool known = false;

  [[nodiscard]] Elements elements() const {
    std::int64_t count = 1;
    for (std::int64_t extent : dims)
      count *= extent;
    return Elements(count);
  }
  [[nodiscard]] bool is_scalar() const { return dims.empty(); }
  // Returns element `index` as a number, whatever its type.
  [[nodiscard]] double number(std::size_t index = 0) const {
    return is_floating(dtype) ? numbers[index] : static_cast<double>(integers[index]);
  }
  [[nodiscard]] std::int64_t integer(std::size_t index = 0) const {
    return is_floating(dtype) ? saturated(numbers[index]) : integers[index];
  }
};

using OnnxAttribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>,
                                   std::vector<double>, OnnxConstant>;

struct OnnxNode {
  std::string op;
  std::string domain;  // empty: ONNX's own operators
  std::string name;
  std::vector<OnnxValueId> inputs;  // an absent optional input is invalid
  std::vector<OnnxValueId> outputs;
  std::vector<std::pair<std::string, OnnxAttribute>> attributes;

  template <class T>
  [[nodiscard]] const T* find(std::string_view attribute) const {
    for (const auto& [known, value] : attributes) {
      if (known == attribute) return std::get_if<T>(&value);
    }
    return nullptr;
  }
  template <class T>
  [[nodiscard]] T get(std::string_view attribute, T fallback) const {
    const T* found = find<T>(attribute);
    return found != nullptr ? *found : fallback;
  }
  [[nodiscard]] std::int64_t integer(std::string_view attribute, std::int64_t fallback = 0) const {
    return get<std::int64_t>(attribute, fallback);
  }
  [[nodiscard]] std::vector<std::int64_t> list(std::string_view attribute) const {
    return get<std::vector<std::int64_t>>(attribute, {});
  }
  [[nodiscard]] bool has_input(std::size_t index) const {
    return index < inputs.size() && inputs[index].valid();
  }
};

// An extent of an input: a number, or a name that stands for one, or neither (-1 and no name).
struct OnnxExtent {
  std::int64_t extent = -1;
  std::string name;
};

struct OnnxInput {
  OnnxValueId value;
  DType dtype = DType::kFloat32;
  std::vector<OnnxExtent> extents;
};

struct OnnxInitializer {
  OnnxValueId value;
  OnnxConstant tensor;
};

struct OnnxModel {
  std::string path;
  std::int64_t opset = 0;  // version of ONNX's own operators
  std::vector<std::pair<std::string, std::string>> metadata;
  IdVector<OnnxValueId, std::string> names;
  std::vector<OnnxInput> inputs;  // excludes initializers that older files list here too
  std::vector<OnnxInitializer> initializers;
  std::vector<OnnxValueId> outputs;
  IdVector<OnnxNodeId, OnnxNode> nodes;  // nodes in execution order

  // Returns "node '/h.0/attn/Softmax' (Softmax)" for messages.
  [[nodiscard]] std::string describe(OnnxNodeId node) const;
};

// Reads the file at `path`; the data of weights is stepped over, so it does not matter whether they
// are present, in a file beside it, or stripped. Throws UserError: no such file, truncated, not
// ONNX, an operator set before 11, a node that reads what nothing computes before it; or that this
// build has no protobuf.
[[nodiscard]] OnnxModel read_onnx(const std::string& path);

}  // namespace tidemark
