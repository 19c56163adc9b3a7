// Networks between hosts by name: networks/*.yaml beside the profiles, with the figures of
// NetworkProfile.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/core/decoder.hpp"

namespace tidemark {

// Lists the networks of the folders of profiles, sorted.
[[nodiscard]] std::vector<std::string> network_names(std::span<const std::string> folders);

// Returns the figures of a network, as `links.network` of a profile has them. `named_at` is where
// the user wrote the name, under `path`. Throws UserError for an unknown name, with the nearest
// one.
[[nodiscard]] Value load_network(const std::string& name, std::span<const std::string> folders,
                                 const Location& named_at, const std::string& path);

}  // namespace tidemark
