#include "policies/shard/shard_units.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/words.hpp"
#include "graph/ir/module_name.hpp"

namespace tidemark {
namespace shard_units_detail {
namespace {

constexpr std::string_view kBlocks = "blocks";
constexpr std::string_view kWhole = "whole";
constexpr std::array<std::string_view, 3> kTrainedUnits{"none", "each", "one"};

std::vector<std::string> words_of(const Decoder& item) {
  if (!item.value().is_sequence()) return {item.as<std::string>()};
  std::vector<std::string> words;
  for (const Decoder& word : item.items())
    words.push_back(word.as<std::string>());
  return words;
}

void check_module(const TrainingGraph& graph, std::string_view name, std::string_view key,
                  std::string_view policy) {
  std::vector<std::string> known;
  for (const Layer& layer : graph.layers) {
    if (is_in_module(layer.name, name)) return;
    if (layer.name.find('.') == std::string::npos) known.push_back(layer.name);
  }
  throw UserError(
      {}, fmt::format("policies.{}.{}", policy, key),
      fmt::format("the model has no module {}{}; its modules are {}", quoted_excerpt(name),
                  did_you_mean(name, known), fmt::join(known, ", ")));
}

void check_modules(const TrainingGraph& graph, const UnitOptions& options,
                   std::string_view policy) {
  for (const std::vector<std::string>& unit : options.units) {
    for (const std::string& name : unit) {
      if (name != kBlocks) check_module(graph, name, "units", policy);
    }
  }
  for (const std::string& name : options.keep_gathered)
    check_module(graph, name, "keep_gathered", policy);
}

// A unit by its listed entry, and by the block where the entry is one unit per block. The root is
// counted behind the entries, and units of a policy's own behind the root.
using UnitKey = std::pair<std::size_t, int>;

UnitKey root_key(const UnitOptions& options) {
  return {options.units.size(), kNoBlock};
}

// Returns the unit of a module: that which names it, or the closest of those around it.
UnitKey key_of(const TrainingGraph& graph, LayerId id, const UnitOptions& options) {
  const Layer& layer = graph.layers[id];
  UnitKey found = root_key(options);
  if (options.own_units.contains(id) && options.own_units[id])
    return {found.first + 1 + *options.own_units[id], kNoBlock};
  std::size_t longest = 0;
  for (std::size_t i = 0; i < options.units.size(); ++i) {
    for (const std::string& name : options.units[i]) {
      const bool blocks = name == kBlocks;
      if (blocks && layer.block != kNoBlock && longest == 0) found = {i, layer.block};
      if (blocks || name.size() <= longest || !is_in_module(layer.name, name)) continue;
      longest = name.size();
      found = {i, kNoBlock};
    }
  }
  return found;
}

// Returns the module that holds a parameter: its name without the last word.
std::string_view module_of(std::string_view parameter) {
  return parameter.substr(0, std::min(parameter.rfind('.'), parameter.size()));
}

// The units of parameters, and of the operators of modules.
class UnitKeys {
 public:
  UnitKeys(const TrainingGraph& graph, const UnitOptions& options)
      : graph_(graph), options_(options) {
    if (options.trained != TrainedUnits::kEach) return;
    for (const Parameter& parameter : graph.parameters) {
      const std::string_view module = module_of(parameter.name);
      if (parameter.trained && parameter.name.substr(module.size()) == ".weight")
        apart_.try_emplace(module, apart_.size());
    }
  }

  [[nodiscard]] bool is_root(UnitKey key) const { return key == root_key(options_); }
  [[nodiscard]] bool spans_model(UnitKey key) const { return is_root(key) || key == rest(); }
  [[nodiscard]] bool is_apart(const Parameter& parameter) const {
    return apart_.contains(module_of(parameter.name));
  }
  [[nodiscard]] UnitKey of(LayerId layer) const {
    const UnitKey key = layer.valid() ? key_of(graph_, layer, options_) : root_key(options_);
    return is_root(key) ? rest() : key;
  }
  [[nodiscard]] UnitKey of(const Parameter& parameter) const {
    if (options_.trained == TrainedUnits::kOne && parameter.trained) return root_key(options_);
    const auto apart = apart_.find(module_of(parameter.name));
    if (apart == apart_.end()) return of(parameter.layer);
    return {root_key(options_).first + 1 + apart->second, kNoBlock};
  }

 private:
  // Returns the unit of parameters that are in no other: the root, unless that is of the trained
  // parameters alone.
  [[nodiscard]] UnitKey rest() const {
    UnitKey key = root_key(options_);
    if (options_.trained == TrainedUnits::kOne) ++key.first;
    return key;
  }

  const TrainingGraph& graph_;
  const UnitOptions& options_;
  std::map<std::string_view, std::size_t>
      apart_;  // modules that are units with trained_units: each
};

bool is_kept(const Layer& layer, const UnitOptions& options) {
  return std::any_of(options.keep_gathered.begin(), options.keep_gathered.end(),
                     [&](const std::string& name) { return is_in_module(layer.name, name); });
}

}  // namespace
}  // namespace shard_units_detail

std::string policy_of(MeshDimension dimension, const Mesh& mesh) {
  const std::string_view suffix = dimension == MeshDimension::kPipeline ? "" : "_parallel";
  return fmt::format("{}{}: {{size: {}}}", name_of(dimension), suffix, mesh.size(dimension));
}

UnitOptions decode_units(const Decoder& d) {
  UnitOptions options;
  options.keep_gathered = d.list<std::string>("keep_gathered");
  const std::string trained =
      d.optional_word("trained_units", shard_units_detail::kTrainedUnits, "none");
  options.trained = trained == "each"  ? TrainedUnits::kEach
                    : trained == "one" ? TrainedUnits::kOne
                                       : TrainedUnits::kNone;
  d.mention("units", "text or list", "blocks | whole | classes of modules");
  if (!d.has("units")) return options;
  const Value& given = *d.value().find("units");
  if (given.is_scalar()) {
    const std::string word = d.required<std::string>("units");
    if (word == shard_units_detail::kWhole) {
      options.units.clear();
    } else if (word != shard_units_detail::kBlocks) {
      options.units = {{word}};
    }
    return options;
  }
  options.units.clear();
  for (const Decoder& item : d.optional_child("units").items())
    options.units.push_back(shard_units_detail::words_of(item));
  return options;
}

ShardUnits::ShardUnits(const TrainingGraph& graph, const UnitOptions& options,
                       std::string_view policy, bool experts_apart)
    : of_layer_(graph.layers.size()) {
  namespace detail = shard_units_detail;
  detail::check_modules(graph, options, policy);
  const detail::UnitKeys keys(graph, options);
  // Whether it is the part of a unit with its experts.
  using PartKey = std::pair<detail::UnitKey, bool>;
  std::map<PartKey, std::size_t> known;
  for (const ParameterId id : ids_of(graph.parameters)) {
    const Parameter& parameter = graph.parameters[id];
    const LayerId layer = parameter.layer;
    // A parameter outside all modules belongs to the root.
    const detail::UnitKey key = keys.of(parameter);
    const bool experts = experts_apart && parameter.of_expert;
    const auto [unit, fresh] = known.try_emplace(PartKey{key, experts}, units_.size());
    if (fresh) {
      std::string name = keys.is_root(key)          ? "root"
                         : keys.spans_model(key)    ? "rest"
                         : key.second != kNoBlock   ? fmt::format("block {}", key.second)
                         : keys.is_apart(parameter) ? std::string(detail::module_of(parameter.name))
                                                    : std::string(graph.layer_name(layer));
      if (experts) name += " experts";
      units_.push_back({.name = std::move(name),
                        .is_root = keys.is_root(key) && !experts,
                        .spans_model = keys.spans_model(key) && !experts,
                        .of_experts = experts});
    }
    ShardUnit& found = units_[unit->second];
    found.parameters.push_back(id);
    found.kept = found.kept || (layer.valid() && detail::is_kept(graph.layers[layer], options));
  }
  for (const LayerId id : ids_of(graph.layers)) {
    const auto unit = known.find(PartKey{keys.of(id), false});
    if (unit != known.end()) of_layer_[id] = unit->second;
  }
}

std::vector<UnitVisit> unit_visits(
    const TrainingGraph& graph, const ShardUnits& units, const std::vector<OperatorId>& part,
    const IdVector<StorageId, std::optional<std::size_t>>& storages) {
  std::vector<UnitVisit> visits(units.all().size());
  const auto visit = [&](std::optional<std::size_t> unit, std::size_t at) {
    if (!unit) return;
    UnitVisit& known = visits[*unit];
    if (!known.happens) known = {.first = at, .last = at, .happens = true};
    known.last = at;
  };
  for (std::size_t at = 0; at < part.size(); ++at) {
    visit(units.of(graph.operators[part[at]].layer), at);
    for (const Touch& touch : graph.touches_of(part[at])) {
      if (touch.storage.index() < storages.size()) visit(storages[touch.storage], at);
    }
  }
  return visits;
}

std::vector<std::size_t> visited_units(const std::vector<UnitVisit>& visits) {
  std::vector<std::size_t> order;
  for (std::size_t u = 0; u < visits.size(); ++u) {
    if (visits[u].happens) order.push_back(u);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return visits[a].first < visits[b].first; });
  return order;
}

}  // namespace tidemark
