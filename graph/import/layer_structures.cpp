// Structures of a layer model (sequence, repeat, residual, joins, modules) and its single layers.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/scalars.hpp"
#include "graph/import/layer_model.hpp"
#include "graph/import/layer_walk.hpp"
#include "graph/models/model_limits.hpp"

namespace tidemark {

namespace layer_structures_detail {
namespace {

// Two layers of one list cannot have the same name, given or from their position: their parameters
// would be the same.
void require_new_name(const Decoder& layer, int position,
                      std::map<std::string, Location, std::less<>>& named) {
  std::string name = std::to_string(position);
  Location location = layer.location();
  if (const Value* given = layer.value().is_mapping() ? layer.value().find("name") : nullptr) {
    if (given->is_scalar()) name = given->scalar;
    location = given->location;
  }
  const auto [found, fresh] = named.emplace(name, location);
  if (fresh) return;
  throw UserError(location, layer.path() + ".name",
                  fmt::format("the layer in line {} is called {} already; names of one list differ",
                              found->second.line, tidemark::quoted_excerpt(name)));
}

}  // namespace
}  // namespace layer_structures_detail

TensorId LayerModel::run(const Decoder& layers, TensorId x, Taps& taps) {
  if (++depth_ > kMaxLayerDepth) {
    layers.fail(
        fmt::format("more than {} lists of layers are inside one another; does a module "
                    "use itself?",
                    kMaxLayerDepth));
  }
  int position = 0;
  std::map<std::string, Location, std::less<>> named;
  for (const Decoder& layer : layers.items()) {
    layer_structures_detail::require_new_name(layer, position, named);
    x = run_layer(layer, std::to_string(position++), x, taps);
  }
  --depth_;
  return x;
}

// Runs one entry of a list: its kind, and name, from and tap beside it.
TensorId LayerModel::run_layer(const Decoder& layer, const std::string& position, TensorId x,
                               Taps& taps) {
  if (++built_ > kMaxBuiltLayers) {
    layer.fail(fmt::format("more than {} layers, repetitions included", kMaxBuiltLayers));
  }
  if (layer.value().is_scalar()) {
    return run_kind(layer.value().scalar, layer, position, x, taps);
  }
  if (!layer.value().is_mapping()) {
    layer.fail(
        fmt::format("expected a layer: a word or a mapping, found {}", found(layer.value())));
  }
  const auto name = layer.optional<std::string>("name", position);
  if (name.empty()) layer.fail_at("name", "a module needs a name");
  if (layer.has("from")) {
    x = tap_named(layer, *layer.value().find("from"), layer.path() + ".from", taps);
  }
  const auto tap = layer.maybe<std::string>("tap");
  std::string kind;
  for (const Value::Entry& entry : layer.value().entries) {
    if (is_one_of(entry.key, kLayerKeys)) continue;
    if (!kind.empty()) {
      throw UserError(
          entry.location, layer.path(),
          fmt::format("'{}' is given already; a layer has one kind, name, from and tap", kind));
    }
    kind = entry.key;
  }
  if (!kind.empty()) x = run_kind(kind, layer, name, x, taps);
  if (tap) {
    require_name(layer, *tap, "tap");
    taps.here[*tap] = x;
  }
  return x;
}

TensorId LayerModel::run_kind(const std::string& kind, const Decoder& layer,
                              const std::string& module, TensorId x, Taps& taps) {
  const bool is_word = layer.value().is_scalar();
  const Decoder value = is_word ? Decoder() : layer.optional_child(kind);
  const auto at_kind = [&]() -> Location {
    for (const Value::Entry& entry : layer.value().entries) {
      if (entry.key == kind) return entry.location;
    }
    return layer.location();
  };
  const std::string path = is_word ? layer.path() : value.path();
  try {
    if (is_one_of(kind, kStructures)) {
      if (is_word) layer.fail(fmt::format("'{}' needs a value", kind));
      return run_structure(kind, value, module, x, taps);
    }
    if (const auto body = modules_.find(kind); body != modules_.end()) {
      return run_module(body->second, is_word ? layer : value, module, x, taps);
    }
    if (const LayerKind* leaf = find_layer_kind(kind)) {
      return run_leaf(*leaf, is_word ? layer : value, module, x, taps);
    }
  } catch (const UserError& error) {
    if (error.location().line > 0) throw;
    // Shape rules know operators and shapes, not files.
    throw UserError(at_kind(), error.path().empty() ? path : error.path(), error.problem());
  }
  std::vector<std::string> known(kStructures.begin(), kStructures.end());
  for (const LayerKind& leaf : layer_kinds())
    known.emplace_back(leaf.name);
  for (const auto& [name, body] : modules_)
    known.push_back(name);
  std::string hint = did_you_mean(kind, known);
  if (hint.empty()) hint = fmt::format("; known are {}", fmt::join(known, ", "));
  throw UserError(at_kind(), path,
                  fmt::format("no layer is called {}{}", tidemark::quoted_excerpt(kind), hint));
}

TensorId LayerModel::run_structure(const std::string& kind, const Decoder& value,
                                   const std::string& module, TensorId x, Taps& taps) {
  if (kind == "repeat") return run_repeat(value, module, x, taps);
  if (kind == "residual") return run_residual(value, module, x, taps);
  if (kind == "sequence" || kind == "block") {
    const Decoder layers = layers_of(value);
    if (value.value().is_mapping()) value.finish();
    const auto scope = kind == "block" ? builder_.block(module) : builder_.scope(module);
    return run(layers, x, taps);
  }
  return run_join(kind, value, module, x, taps);
}

TensorId LayerModel::run_repeat(const Decoder& value, const std::string& module, TensorId x,
                                Taps& taps) {
  if (!value.value().is_mapping()) value.fail("expected {times: ..., layers: [...]}");
  const std::int64_t times = LayerParameters(value, sizes_).size("times", kMaxLayers);
  const auto index = value.maybe<std::string>("index");
  if (index) require_name(value, *index, "size");
  const Decoder layers = list_at(value, "layers");
  value.finish();
  const std::size_t known = sizes_.size();
  for (std::int64_t i = 0; i < times; ++i) {
    if (index) sizes_.set(*index, i);
    const auto block = builder_.block(fmt::format("{}.{}", module, i));
    x = run(layers, x, taps);
    sizes_.cut(known);
  }
  return x;
}

TensorId LayerModel::run_residual(const Decoder& value, const std::string& module, TensorId x,
                                  Taps& taps) {
  const Decoder layers = layers_of(value);
  bool project = false;
  bool in_place = false;
  if (value.value().is_mapping()) {
    project = value.optional<bool>("project", false);
    in_place = value.optional<bool>("in_place", false);
    value.finish();
  }
  auto scope = builder_.scope(module);
  scope.local(x);
  const TensorId result = run(layers, x, taps);
  const TensorId shortcut = project ? projected(value, x, result) : x;
  if (!(builder_.shape(shortcut) == builder_.shape(result))) {
    value.fail(fmt::format("its layers turn {} into {}, which cannot be added to it{}",
                           to_string(builder_.shape(x)), to_string(builder_.shape(result)),
                           project ? "" : "; with `project: true` channels may differ"));
  }
  return in_place ? builder_.add_tensors(result, shortcut, true)
                  : builder_.add_tensors(shortcut, result);
}

// Sends the shortcut through a 1x1 convolution (images) or a linear layer where channels differ.
TensorId LayerModel::projected(const Decoder& value, TensorId x, TensorId like) {
  const Shape& from = builder_.shape(x);
  const Shape& to = builder_.shape(like);
  if (from.rank() != to.rank() || from.rank() < 2) {
    value.fail(fmt::format("no projection leads from {} to {}", to_string(from), to_string(to)));
  }
  if (from.rank() != 4) {
    return from[-1] == to[-1] ? x : builder_.linear("project", x, to[-1]);
  }
  if (from == to) return x;
  const std::int64_t stride = std::max<std::int64_t>(1, from[2] / std::max<std::int64_t>(1, to[2]));
  return builder_.conv2d("project", x, to[1], {.kernel = 1, .stride = stride});
}

// Runs add, multiply, cat or matmul: the result so far with one tap or several.
TensorId LayerModel::run_join(const std::string& kind, const Decoder& value,
                              const std::string& module, TensorId x, Taps& taps) {
  const Decoder mapping = parameters_of(value, "with", kind);
  std::vector<TensorId> others;
  if (mapping.has("with")) {
    const Value& with = *mapping.value().find("with");
    const std::string path = mapping.path() + ".with";
    if (with.is_sequence()) {
      for (const Value& name : with.items)
        others.push_back(tap_named(mapping, name, path, taps));
    } else {
      others.push_back(tap_named(mapping, with, path, taps));
    }
  } else {
    others.push_back(x);
  }
  if (others.empty() || (others.size() > 1 && kind != "cat")) {
    mapping.fail_at("with", kind == "cat" ? "expected a tap" : "expected one tap");
  }
  const auto scope = builder_.scope(module);
  if (mapping.has("layers")) {
    const Decoder layers = list_at(mapping, "layers");
    for (TensorId& other : others)
      other = run(layers, other, taps);
  } else if (!mapping.has("with")) {
    mapping.fail("expected a tap or layers");
  }
  if (kind == "matmul") return run_matmul(mapping, x, others.front());
  if (kind == "cat") {
    const int rank = builder_.shape(x).rank();
    if (rank == 0) mapping.fail("a scalar cannot be concatenated");
    std::int64_t axis =
        LayerParameters(mapping, sizes_).size("axis", std::min(1, rank - 1), -rank, rank - 1);
    if (axis < 0) axis += rank;
    mapping.finish();
    others.insert(others.begin(), x);
    return builder_.cat(others, static_cast<int>(axis));
  }
  mapping.finish();
  return kind == "add" ? builder_.add_tensors(x, others.front())
                       : builder_.multiply(x, others.front());
}

TensorId LayerModel::run_matmul(const Decoder& value, TensorId x, TensorId other) {
  const bool transpose = value.optional<bool>("transpose", false);
  value.finish();
  const Shape& a = builder_.shape(x);
  const Shape& b = builder_.shape(other);
  const bool fits = a.rank() >= 2 && b.rank() >= 2 && (b.rank() == 2 || a.rank() == b.rank()) &&
                    a[-1] == (transpose ? b[-1] : b[-2]);
  if (!fits) {
    value.fail(fmt::format("{} cannot be multiplied by {}{}", to_string(a), to_string(b),
                           transpose ? " transposed" : ""));
  }
  if (b.rank() == 2 && transpose) return builder_.linear_with(x, other);
  return builder_.matmul(x, transpose ? builder_.transpose(other, -2, -1) : other);
}

TensorId LayerModel::run_module(const Module& body, const Decoder& value, const std::string& module,
                                TensorId x, const Taps& taps) {
  const bool is_word = value.value().is_scalar() && body.parameters.empty();
  const std::string first = body.parameters.size() == 1 ? body.parameters.front() : "";
  const Decoder mapping = is_word ? Decoder() : parameters_of(value, first, "module");
  const LayerParameters parameters(mapping, sizes_);
  std::vector<std::int64_t> given;
  for (const std::string& parameter : body.parameters) {
    if (!mapping.has(parameter)) {
      value.fail(fmt::format("the parameter '{}' is missing; the module takes {}", parameter,
                             fmt::join(body.parameters, ", ")));
    }
    given.push_back(parameters.size(parameter, 0, 0, kMaxSequence));
  }
  mapping.finish();
  const std::size_t known = sizes_.size();
  for (std::size_t i = 0; i < given.size(); ++i)
    sizes_.set(body.parameters[i], given[i]);
  Taps inner{.outer = &taps};
  auto scope = builder_.scope(module);
  const TensorId result = run(body.layers, x, inner);
  sizes_.cut(known);
  return result;
}

TensorId LayerModel::run_leaf(const LayerKind& kind, const Decoder& value,
                              const std::string& module, TensorId x, const Taps& taps) {
  const bool is_word = value.value().is_scalar() && value.value().scalar == kind.name;
  Value empty;
  empty.kind = Value::Kind::kMapping;
  empty.location = value.location();
  const Decoder mapping = is_word
                              ? Decoder(written_out_.emplace_back(std::move(empty)), value.path())
                              : parameters_of(value, kind.first_parameter, kind.name);
  const LayerParameters parameters(mapping, sizes_);
  const auto tap = [&](std::string_view key) {
    return tap_named(mapping, *mapping.value().find(key), fmt::format("{}.{}", mapping.path(), key),
                     taps);
  };
  const LayerContext context{.builder = builder_,
                             .options = options_,
                             .parameters = parameters,
                             .module = module,
                             .x = x,
                             .tap = tap};
  TensorId result;
  if (kind.makes_scope) {
    result = kind.build(context);
  } else {
    const auto scope = builder_.scope(module);
    result = kind.build(context);
  }
  mapping.finish();
  return result;
}

TensorId LayerModel::tap_named(const Decoder& at, const Value& name, const std::string& path,
                               const Taps& taps) const {
  if (!name.is_scalar()) {
    throw UserError(name.location, path, fmt::format("expected a tap, found {}", found(name)));
  }
  if (const auto tap = taps.find(name.scalar)) return *tap;
  const std::vector<std::string> known = taps.names();
  std::string hint = did_you_mean(name.scalar, known);
  if (hint.empty()) hint = fmt::format("; known are {}", fmt::join(known, ", "));
  throw UserError(
      name.location.line > 0 ? name.location : at.location(), path,
      fmt::format("no tap is called {}{}", tidemark::quoted_excerpt(name.scalar), hint));
}

Decoder LayerModel::parameters_of(const Decoder& value, std::string_view first,
                                  std::string_view kind) {
  const Value& given = value.value();
  if (given.is_mapping()) return value;
  Value mapping;
  mapping.kind = Value::Kind::kMapping;
  mapping.location = value.location();
  if (!given.is_null()) {
    if (first.empty()) {
      value.fail(fmt::format("'{}' needs its parameters by name, found {}", kind, found(given)));
    }
    mapping.entries.push_back(
        {.key = std::string(first), .location = given.location, .value = given});
  }
  written_out_.push_back(std::move(mapping));
  return Decoder(written_out_.back(), value.path());
}

}  // namespace tidemark
