#include "policies/shard/shard_units.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/words.hpp"

namespace tidemark {
namespace shard_units_detail {
namespace {

constexpr std::string_view kBlocks = "blocks";
constexpr std::string_view kWhole = "whole";

// Whether a module is the named one or lies in it.
bool is_within(std::string_view module, std::string_view name) {
  if (!module.starts_with(name)) return false;
  return module.size() == name.size() || module[name.size()] == '.';
}

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
    if (is_within(layer.name, name)) return;
    if (layer.name.find('.') == std::string::npos) known.push_back(layer.name);
  }
  throw UserError({}, fmt::format("policies.{}.{}", policy, key),
                  fmt::format("the model has no module {}{}; its modules are {}", quoted(name),
                              did_you_mean(name, known), fmt::join(known, ", ")));
}

}  // namespace
}  // namespace shard_units_detail

UnitOptions decode_units(const Decoder& d) {
  UnitOptions options;
  options.keep_gathered = d.list<std::string>("keep_gathered");
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
                       std::string_view policy)
    : of_layer_(graph.layers.size()) {
  namespace detail = shard_units_detail;
  for (const std::vector<std::string>& unit : options.units) {
    for (const std::string& name : unit) {
      if (name != detail::kBlocks) detail::check_module(graph, name, "units", policy);
    }
  }
  for (const std::string& name : options.keep_gathered)
    detail::check_module(graph, name, "keep_gathered", policy);
  // Units by their key: the listed entry, and the block where the entry is one unit per block.
  std::vector<std::pair<std::size_t, int>> keys;
  const std::size_t root = options.units.size();
  const auto unit_of = [&](const Layer& layer) {
    std::pair<std::size_t, int> found{root, kNoBlock};
    std::size_t longest = 0;
    for (std::size_t i = 0; i < options.units.size(); ++i) {
      for (const std::string& name : options.units[i]) {
        if (name == detail::kBlocks) {
          if (layer.block != kNoBlock && longest == 0) found = {i, layer.block};
        } else if (name.size() > longest && detail::is_within(layer.name, name)) {
          longest = name.size();
          found = {i, kNoBlock};
        }
      }
    }
    return found;
  };
  std::vector<std::size_t> of_key;
  IdVector<LayerId, std::size_t> key_of(graph.layers.size(), 0);
  for (const LayerId id : ids_of(graph.layers)) {
    const auto key = unit_of(graph.layers[id]);
    const auto known = std::find(keys.begin(), keys.end(), key);
    key_of[id] = static_cast<std::size_t>(known - keys.begin());
    if (known == keys.end()) keys.push_back(key);
  }
  std::vector<std::optional<std::size_t>> unit_of_key(keys.size());
  for (const ParameterId id : ids_of(graph.parameters)) {
    const LayerId layer = graph.parameters[id].layer;
    std::pair<std::size_t, int> key{root, kNoBlock};
    std::optional<std::size_t> rootless;
    std::optional<std::size_t>* unit = &rootless;
    if (layer.valid()) {
      key = keys[key_of[layer]];
      unit = &unit_of_key[key_of[layer]];
    }
    if (!*unit) {
      // A parameter outside all modules belongs to the root.
      const auto same =
          std::find_if(units_.begin(), units_.end(), [&](const ShardUnit& u) { return u.is_root; });
      if (key.first == root && same != units_.end()) {
        *unit = static_cast<std::size_t>(same - units_.begin());
      } else {
        *unit = units_.size();
        units_.push_back({.is_root = key.first == root});
      }
    }
    ShardUnit& found = units_[**unit];
    found.parameters.push_back(id);
    if (layer.valid() && !found.kept) {
      found.kept = std::any_of(options.keep_gathered.begin(), options.keep_gathered.end(),
                               [&](const std::string& name) {
                                 return detail::is_within(graph.layers[layer].name, name);
                               });
    }
    if (!found.name.empty()) continue;
    found.name = found.is_root ? "root" : std::string(graph.layer_name(layer));
    if (key.second != kNoBlock) found.name = fmt::format("block {}", key.second);
  }
  for (const LayerId id : ids_of(graph.layers))
    of_layer_[id] = unit_of_key[key_of[id]];
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

}  // namespace tidemark
