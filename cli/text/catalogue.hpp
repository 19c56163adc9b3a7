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

// The names of one kind. The entries are made when they are asked for: those of the GPUs read
// every profile, which takes five times as long as all the others.
struct Catalogue {
  std::string kind;      // "models"
  std::string singular;  // "model"
  std::function<std::vector<CatalogueEntry>()> entries;
  std::function<std::string()> footer = [] { return std::string(); };  // lines that `list` adds
};

// Returns models, gpus, policies, allocators, optimizers, in this order, for as long as
// `environment` lives. With `wanted` profiles of other GPUs are not read: their entries have names
// alone.
[[nodiscard]] std::vector<Catalogue> catalogues(
    const Environment& environment, const std::optional<std::string>& wanted = std::nullopt);

}  // namespace tidemark
