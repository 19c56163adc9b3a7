#include "scenarios/read/environment.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "hwprofiles/device_profile.hpp"
#include "policies/solver/plan_cache.hpp"
#include "tidemark/paths.hpp"

namespace tidemark {
namespace environment_detail {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kProfiles = "hwprofiles";

// Returns the folder of the running program, through symbolic links; empty when it is not known.
fs::path folder_of(const std::string& executable) {
  std::error_code error;
  // A name without a folder was found on the search path: only the system knows where.
  const bool has_folder = executable.find('/') != std::string::npos;
  const fs::path link = has_folder ? fs::path(executable) : fs::path("/proc/self/exe");
  const fs::path file = fs::canonical(link, error);
  return error ? fs::path() : file.parent_path();
}

}  // namespace
}  // namespace environment_detail

Environment::Environment()
    : plans(std::make_unique<PlanCache>()), profiles(std::make_unique<ProfileCache>()) {}
Environment::~Environment() = default;
Environment::Environment(Environment&&) noexcept = default;
Environment& Environment::operator=(Environment&&) noexcept = default;

Environment default_environment(const std::string& executable) {
  std::vector<std::filesystem::path> candidates;
  const std::filesystem::path program = environment_detail::folder_of(executable);
  if (!program.empty()) candidates.push_back(program / kDataBesideExecutable);
  candidates.emplace_back(kSourceDirectory);
  candidates.emplace_back(kInstallDataDirectory);

  Environment environment;
  for (const std::filesystem::path& candidate : candidates) {
    std::error_code error;
    const std::filesystem::path folder =
        std::filesystem::canonical(candidate / environment_detail::kProfiles, error);
    if (error || !std::filesystem::is_directory(folder, error)) continue;
    std::vector<std::string>& known = environment.profile_folders;
    if (std::find(known.begin(), known.end(), folder.string()) == known.end()) {
      known.push_back(folder.string());
    }
  }
  return environment;
}

std::vector<std::string> gpu_names(const Environment& environment) {
  std::vector<std::string> names;
  for (const std::string& folder : environment.profile_folders) {
    for (std::string& name : profile_names(folder))
      names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace tidemark
