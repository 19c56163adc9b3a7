#include "hwprofiles/networks.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "graph/core/paths.hpp"
#include "hwprofiles/device_profile.hpp"

namespace tidemark {
namespace networks_detail {
namespace {

std::string folder_of_networks(const std::string& profiles) {
  return (std::filesystem::path(profiles) / "networks").string();
}

}  // namespace
}  // namespace networks_detail

std::vector<std::string> network_names(std::span<const std::string> folders) {
  std::vector<std::string> names;
  for (const std::string& folder : folders) {
    for (std::string& name : profile_names(networks_detail::folder_of_networks(folder)))
      names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Value load_network(const std::string& name, std::span<const std::string> folders,
                   const Location& named_at, const std::string& path) {
  const std::vector<std::string> known = network_names(folders);
  if (!std::binary_search(known.begin(), known.end(), name)) {
    throw UserError(named_at, path,
                    fmt::format("unknown network '{}'{}; known: {}, or {{bandwidth, latency}}",
                                name, did_you_mean(name, known), fmt::join(known, ", ")));
  }
  for (const std::string& folder : folders) {
    const auto file =
        std::filesystem::path(networks_detail::folder_of_networks(folder)) / (name + ".yaml");
    if (path_exists(file)) return read_document(file.string());
  }
  throw UserError(named_at, path,
                  fmt::format("the file of network '{}' does not exist any more", name));
}

}  // namespace tidemark
