#include "hwprofiles/gpu_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace tidemark {
namespace gpu_names_detail {
namespace {

// Words of makers, families and kinds of memory, which the names of profiles do not have.
constexpr auto kSilent = std::to_array<std::string_view>(
    {"nvidia", "nv",         "geforce", "tesla", "amd",   "instinct", "gpu",
     "tensor", "core",       "hbm2",    "hbm2e", "hbm3",  "hbm3e",    "gb",
     "gib",    "generation", "google",  "cloud", "intel", "oam"});

// Returns the parts of a name in lower case: "RTX4090" is rtx and 4090, "SXM4" is sxm, "80 GB" and
// "80GB" are 80gb.
std::vector<std::string> parts_of(std::string_view name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) == 0) {
      parts.emplace_back();
    } else {
      parts.back() += static_cast<char>(std::tolower(letter));
    }
  }
  std::erase(parts, "");
  std::vector<std::string> result;
  for (const std::string& part : parts) {
    if (part.starts_with("sxm")) {
      result.emplace_back("sxm");
    } else if ((part.starts_with("rtx") || part.starts_with("gtx") || part.starts_with("tpu")) &&
               part.size() > 3) {
      result.push_back(part.substr(0, 3));
      result.push_back(part.substr(3));
    } else if ((part == "gb" || part == "gib") && !result.empty()) {
      result.back() += "gb";
    } else if (std::find(kSilent.begin(), kSilent.end(), part) == kSilent.end()) {
      result.push_back(part);
    }
  }
  return result;
}

}  // namespace
}  // namespace gpu_names_detail

std::vector<std::string> profiles_like(std::string_view name,
                                       std::span<const std::string> profiles) {
  const std::vector<std::string> wanted = gpu_names_detail::parts_of(name);
  std::vector<std::string> found;
  if (wanted.empty()) return found;
  for (const std::string& profile : profiles) {
    const std::vector<std::string> parts = gpu_names_detail::parts_of(profile);
    const bool all = std::all_of(wanted.begin(), wanted.end(), [&](const std::string& part) {
      return std::find(parts.begin(), parts.end(), part) != parts.end();
    });
    if (all) found.push_back(profile);
  }
  return found;
}

std::vector<std::string> profiles_meant(std::string_view name,
                                        std::span<const std::string> profiles) {
  const std::vector<std::string> all = profiles_like(name, profiles);
  std::vector<std::string> modules;
  for (const std::string& profile : all) {
    if (profile.find("-sxm-") != std::string::npos) modules.push_back(profile);
  }
  const std::vector<std::string>& usual = modules.empty() ? all : modules;
  std::vector<std::string> plain;
  std::size_t least = 0;
  for (const std::string& profile : usual) {
    const std::size_t parts = gpu_names_detail::parts_of(profile).size();
    if (plain.empty() || parts < least) {
      plain = {profile};
      least = parts;
    } else if (parts == least) {
      plain.push_back(profile);
    }
  }
  return plain.size() == 1 ? plain : all;
}

}  // namespace tidemark
