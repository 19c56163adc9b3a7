#include "graph/import/layer_model.hpp"

#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/scalars.hpp"
#include "graph/import/layer_walk.hpp"
#include "graph/models/losses.hpp"
#include "graph/models/model_limits.hpp"

namespace tidemark {

Graph LayerModel::build() {
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

void require_name(const Decoder& at, const std::string& name, std::string_view what) {
  if (is_size_name(name)) return;
  at.fail(fmt::format("{} is no name for a {}: expected letters, digits and _",
                      tidemark::quoted_excerpt(name), what));
}

Decoder LayerModel::list_at(const Decoder& parent, std::string_view key) {
  if (!parent.has(key)) parent.fail_at(key, "required key is missing; expected a list of layers");
  Decoder list = parent.optional_child(key);
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
  for (const Value::Entry& entry : document_.value().entries) {
    if (entry.key == "input" && !document_.has("inputs")) {
      throw UserError(entry.location, "input", "unknown key; did you mean 'inputs'?");
    }
  }
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
    if (whole && shape.rank() == 2 && tokens_ == 0) tokens_ = element_count(shape).count;
    if (!first.valid()) first = tensor;
    taps.here[name] = tensor;
  }
  return first;
}

void LayerModel::add_loss(const Decoder& layers, TensorId x) {
  if (takes_classes(options_.loss) && builder_.shape(x).rank() < 2) {
    layers.fail(fmt::format(
        "{} needs samples and classes, the result has the shape {}; "
        "use training.loss: mse or none",
        kLossNames.at(static_cast<std::size_t>(options_.loss)), to_string(builder_.shape(x))));
  }
  tidemark::add_loss(builder_, x, options_.loss);
}

Graph build_layer_model(const Decoder& document, const Decoder& overrides, const std::string& name,
                        const ModelOptions& options) {
  const auto own = document.optional<std::string>("name", name);
  return LayerModel(document, overrides, own.empty() ? name : own, options).build();
}

bool is_layer_model(const Value& document) {
  // `input` for `inputs` is a slip that the reader of layer models explains.
  return (document.find("inputs") != nullptr || document.find("input") != nullptr) &&
         document.find("layers") != nullptr;
}

}  // namespace tidemark
