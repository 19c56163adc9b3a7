// A kind of layer, and the arguments of its function.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/core/decoder.hpp"
#include "graph/models/builder.hpp"
#include "graph/models/layers/size_expression.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

// The parameters of one layer of a file.
class LayerParameters {
 public:
  LayerParameters(Decoder decoder, const SizeNames& sizes)
      : decoder_(std::move(decoder)), sizes_(sizes) {}

  [[nodiscard]] std::int64_t size(std::string_view key, std::int64_t highest) const;
  [[nodiscard]] std::int64_t size(std::string_view key, std::int64_t fallback, std::int64_t lowest,
                                  std::int64_t highest) const;
  // Reads the extents of a shape, or axes; empty when absent.
  [[nodiscard]] std::vector<std::int64_t> sizes(std::string_view key, std::int64_t lowest,
                                                std::int64_t highest) const;
  [[nodiscard]] const Decoder& decoder() const { return decoder_; }

 private:
  Decoder decoder_;
  const SizeNames& sizes_;
};

// The arguments of a layer's function.
struct LayerContext {
  ModelBuilder& builder;
  const ModelOptions& options;
  const LayerParameters& parameters;
  std::string module;                                 // name of the layer's module
  TensorId x;                                         // result of the previous layer
  std::function<TensorId(std::string_view key)> tap;  // returns the tap that a parameter names
};

struct LayerKind {
  std::string_view name;
  std::string_view first_parameter;  // may be given without its name; empty: none may
  std::string_view parameters;       // "heads, kv_heads, causal: false, ..." for documentation
  TensorId (*build)(const LayerContext& context);
  bool makes_scope = false;  // opens the scope of its module; otherwise its caller does
};

// Fails unless the input has `lowest` to `highest` axes.
void need_axes(const LayerContext& c, int lowest, int highest = kMaxRank);
// Fails unless the input holds floating-point numbers.
void need_numbers(const LayerContext& c);
// Fails unless `groups` divides `channels`; `which` names these.
void need_groups(const LayerContext& c, std::int64_t groups, std::int64_t channels,
                 std::string_view which);
[[nodiscard]] bool read_flag(const LayerContext& c, std::string_view key, bool fallback);
// Reads a probability of dropout, which training.dropout overrides.
[[nodiscard]] double read_probability(const LayerContext& c, std::string_view key, double fallback);
// Reads an axis of the input, counted from the front.
[[nodiscard]] int read_axis(const LayerContext& c, std::string_view key, std::int64_t fallback);

// A name as a template argument.
template <std::size_t Length>
struct LayerWord {
  char text[Length]{};
  // NOLINTNEXTLINE: a string literal as a template argument
  constexpr LayerWord(const char (&literal)[Length]) { std::copy_n(literal, Length, text); }
};

}  // namespace tidemark
