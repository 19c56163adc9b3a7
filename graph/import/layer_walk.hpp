// The state of one reading of a YAML layer model: private to layer_model.cpp, which reads the
// document, and layer_structures.cpp, which walks its layers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/core/decoder.hpp"
#include "graph/models/layers/layers.hpp"

namespace tidemark {

// Keys of a layer beside its kind.
inline constexpr std::array<std::string_view, 3> kLayerKeys = {"name", "from", "tap"};
inline constexpr std::array<std::string_view, 8> kStructures = {
    "sequence", "block", "repeat", "residual", "add", "multiply", "cat", "matmul"};

[[nodiscard]] inline bool is_one_of(std::string_view word,
                                    std::span<const std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Throws UserError for a name with a meaning of its own in this format: it cannot name a size or a
// module.
void require_name(const Decoder& at, const std::string& name, std::string_view what);

// Names of tensors; inner ones hide outer ones.
struct Taps {
  const Taps* outer = nullptr;
  std::map<std::string, TensorId, std::less<>> here = {};

  [[nodiscard]] std::optional<TensorId> find(std::string_view name) const {
    if (const auto found = here.find(name); found != here.end()) return found->second;
    return outer == nullptr ? std::nullopt : outer->find(name);
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all = outer == nullptr ? std::vector<std::string>{} : outer->names();
    for (const auto& [name, tensor] : here)
      all.push_back(name);
    return all;
  }
};

struct Module {
  std::vector<std::string> parameters;
  Decoder layers;
};

class LayerModel {
 public:
  LayerModel(const Decoder& document, const Decoder& overrides, const std::string& name,
             const ModelOptions& options)
      : document_(document),
        overrides_(overrides),
        options_(options),
        builder_(name, options.dtype) {}

  Graph build();

 private:
  void read_sizes();
  void read_modules();
  TensorId read_inputs(Taps& taps);
  void add_loss(const Decoder& layers, TensorId x);

  TensorId run(const Decoder& layers, TensorId x, Taps& taps);
  TensorId run_layer(const Decoder& layer, const std::string& position, TensorId x, Taps& taps);
  TensorId run_kind(const std::string& kind, const Decoder& layer, const std::string& module,
                    TensorId x, Taps& taps);
  TensorId run_structure(const std::string& kind, const Decoder& value, const std::string& module,
                         TensorId x, Taps& taps);
  TensorId run_repeat(const Decoder& value, const std::string& module, TensorId x, Taps& taps);
  TensorId run_residual(const Decoder& value, const std::string& module, TensorId x, Taps& taps);
  TensorId run_join(const std::string& kind, const Decoder& value, const std::string& module,
                    TensorId x, Taps& taps);
  TensorId run_matmul(const Decoder& value, TensorId x, TensorId other);
  TensorId run_module(const Module& body, const Decoder& value, const std::string& module,
                      TensorId x, const Taps& taps);
  TensorId run_leaf(const LayerKind& kind, const Decoder& value, const std::string& module,
                    TensorId x, const Taps& taps);
  TensorId projected(const Decoder& value, TensorId x, TensorId like);

  [[nodiscard]] TensorId tap_named(const Decoder& at, const Value& name, const std::string& path,
                                   const Taps& taps) const;
  [[nodiscard]] static Decoder list_at(const Decoder& parent, std::string_view key);
  // Returns the layers of a structure: its value itself, or the key `layers` of a mapping.
  [[nodiscard]] static Decoder layers_of(const Decoder& value);
  // Returns `value` as a mapping; a scalar or a list stands for the parameter `first`.
  Decoder parameters_of(const Decoder& value, std::string_view first, std::string_view kind);

  const Decoder& document_;
  const Decoder& overrides_;
  const ModelOptions& options_;
  ModelBuilder builder_;
  SizeNames sizes_;
  std::map<std::string, Module, std::less<>> modules_;
  std::deque<Value> written_out_;  // mappings that short forms stand for
  std::int64_t tokens_ = 0;
  int built_ = 0;
  int depth_ = 0;
};

}  // namespace tidemark
