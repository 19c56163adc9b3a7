#include "graph/import/layer_model.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/scalars.hpp"
#include "graph/models/layers.hpp"
#include "graph/models/model_limits.hpp"

namespace tidemark {
namespace {

// Keys beside the kind of a layer.
constexpr std::array<std::string_view, 3> kLayerKeys = {"name", "from", "tap"};
constexpr std::array<std::string_view, 8> kStructures = {
    "sequence", "block", "repeat", "residual", "add", "multiply", "cat", "matmul"};

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

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

  Graph build() {
    read_sizes();
    read_modules();
    Taps taps;
    TensorId x = read_inputs(taps);
    const Decoder layers = list_at(document_, "layers");
    document_.finish();
    x = run(layers, x, taps);
    if (!is_floating(builder_.tensor(x).dtype)) layers.fail("the result holds no numbers");
    builder_.set_output(x);
    builder_.set_samples(options_.micro_batch, tokens_);
    add_loss(layers, x);
    return checked(builder_.finish());
  }

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
  // The layers of a structure: its value itself, or the key `layers` of a mapping.
  [[nodiscard]] static Decoder layers_of(const Decoder& value);
  // `value` as a mapping; a scalar or a list stands for the parameter `first`.
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

// A name that this format gives a meaning of its own cannot name a size or a module.
void require_name(const Decoder& at, const std::string& name, std::string_view what) {
  if (is_size_name(name)) return;
  at.fail(fmt::format("{} is no name for a {}: expected letters, digits and _",
                      tidemark::quoted(name), what));
}

Decoder LayerModel::list_at(const Decoder& parent, std::string_view key) {
  if (!parent.has(key)) parent.fail_at(key, "required key is missing; expected a list of layers");
  const Decoder list = parent.optional_child(key);
  if (!list.value().is_sequence()) {
    list.fail(fmt::format("expected a list of layers, found {}", found(list.value())));
  }
  return list;
}

Decoder LayerModel::layers_of(const Decoder& value) {
  if (value.value().is_sequence()) return value;
  if (!value.value().is_mapping()) {
    value.fail(fmt::format("expected a list of layers, found {}", found(value.value())));
  }
  return list_at(value, "layers");
}

// batch, sequence, image, then `sizes` in the order of the file, each of which may use those
// before.
void LayerModel::read_sizes() {
  check_options(options_);
  const Decoder defaults = document_.optional_child("defaults");
  const auto sequence =
      defaults.optional<std::int64_t>("sequence", kDefaultSequence, up_to(kMaxSequence));
  const auto image = defaults.optional<std::int64_t>("image", 224, up_to(kMaxImage));
  defaults.finish();
  sizes_.set("batch", options_.micro_batch);
  sizes_.set("sequence", options_.sequence.value_or(sequence));
  sizes_.set("image", options_.image.value_or(image));
  std::vector<std::string> known;
  for (const auto& [name, own] : document_.optional_child("sizes").entries()) {
    require_name(own, name, "size");
    const bool changed = overrides_.has(name);
    const Decoder value = changed ? overrides_.optional_child(name) : own;
    sizes_.set(name, evaluate_size(value.value(), sizes_, value.path(), 0, kMaxSequence));
    known.push_back(name);
  }
  overrides_.finish();
}

void LayerModel::read_modules() {
  for (const auto& [name, module] : document_.optional_child("modules").entries()) {
    require_name(module, name, "module");
    if (find_layer_kind(name) != nullptr || is_one_of(name, kStructures) ||
        is_one_of(name, kLayerKeys)) {
      module.fail(fmt::format("'{}' is a kind of layer already", name));
    }
    Module body{.parameters = module.list<std::string>("parameters"),
                .layers = list_at(module, "layers")};
    for (const std::string& parameter : body.parameters)
      require_name(module, parameter, "parameter");
    module.finish();
    modules_.emplace(name, std::move(body));
  }
}

TensorId LayerModel::read_inputs(Taps& taps) {
  static constexpr std::array<std::string_view, 2> kTypes = {"float", "int64"};
  const auto inputs = document_.required_child("inputs").entries();
  if (inputs.empty()) document_.fail_at("inputs", "expected at least one input");
  TensorId first;
  for (const auto& [name, input] : inputs) {
    require_name(input, name, "tap");
    const Decoder mapping = parameters_of(input, "shape", "input");
    const std::vector<std::int64_t> extents =
        LayerParameters(mapping, sizes_).sizes("shape", 1, std::int64_t{1} << 40);
    if (extents.empty()) mapping.fail("expected a shape, such as [batch, 3, image, image]");
    const bool whole = mapping.optional_word("type", kTypes, "float") == "int64";
    mapping.finish();
    Shape shape;
    for (std::int64_t extent : extents)
      shape.push_back(extent);
    static_cast<void>(element_count(shape));
    const TensorId tensor = builder_.input(name, shape, whole ? DType::kInt64 : builder_.dtype());
    if (whole && shape.rank() == 2 && tokens_ == 0) tokens_ = element_count(shape);
    if (!first.valid()) first = tensor;
    taps.here[name] = tensor;
  }
  return first;
}

void LayerModel::add_loss(const Decoder& layers, TensorId x) {
  if (options_.loss == LossKind::kNone) return;
  if (options_.loss == LossKind::kMse) return builder_.mse_loss(x);
  if (builder_.shape(x).rank() < 2) {
    layers.fail(
        fmt::format("cross_entropy needs samples and classes, the result has the shape {}; "
                    "use training.loss: mse or none",
                    to_string(builder_.shape(x))));
  }
  builder_.cross_entropy_loss(x);
}

TensorId LayerModel::run(const Decoder& layers, TensorId x, Taps& taps) {
  if (++depth_ > kMaxLayerDepth) {
    layers.fail(
        fmt::format("more than {} lists of layers are inside one another; does a module "
                    "use itself?",
                    kMaxLayerDepth));
  }
  int position = 0;
  for (const Decoder& layer : layers.items())
    x = run_layer(layer, std::to_string(position++), x, taps);
  --depth_;
  return x;
}

// One entry of a list: its kind, and name, from and tap beside it.
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
                  fmt::format("no layer is called {}{}", tidemark::quoted(kind), hint));
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

// The shortcut through a 1x1 convolution (images) or a linear layer where channels differ.
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

// add, multiply, cat, matmul: the result so far with one tap or several.
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
  throw UserError(name.location.line > 0 ? name.location : at.location(), path,
                  fmt::format("no tap is called {}{}", tidemark::quoted(name.scalar), hint));
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

}  // namespace

Graph build_layer_model(const Decoder& document, const Decoder& overrides, const std::string& name,
                        const ModelOptions& options) {
  const auto own = document.optional<std::string>("name", name);
  return LayerModel(document, overrides, own.empty() ? name : own, options).build();
}

bool is_layer_model(const Value& document) {
  return document.find("inputs") != nullptr && document.find("layers") != nullptr;
}

}  // namespace tidemark
