// Everything that has a name, for `list` to show and `describe` to explain.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/text/console.hpp"
#include "scenarios/read/scenario.hpp"

namespace tidemark {

struct CatalogueEntry {
  std::string name;
  std::string group;    // "language", "residency"; empty for one group
  std::string summary;  // one line
  std::function<std::string(const Console&)> describe;  // lines ending with '\n'
};

struct Catalogue {
  std::string kind;      // "models"
  std::string singular;  // "model"
  std::vector<CatalogueEntry> entries;
  std::string footer = {};  // printed by `list` below, lines ending with '\n'
};

// Returns models, gpus, policies, allocators, optimizers, in this order. With `wanted` profiles of
// other GPUs are not read: their entries have names alone.
[[nodiscard]] std::vector<Catalogue> catalogues(
    const Environment& environment, const std::optional<std::string>& wanted = std::nullopt);

}  // namespace tidemark
