// Finds profiles on disk, and lays one over another and the scenario's changes over both.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "graph/core/paths.hpp"
#include "graph/core/piped_files.hpp"
#include "hwprofiles/assumed_figures.hpp"
#include "hwprofiles/device_profile.hpp"
#include "hwprofiles/gpu_names.hpp"

namespace tidemark {
namespace profile_files_detail {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".yaml";
// Profiles with changes that are kept: the values of a swept key, each some 20 KiB.
constexpr std::size_t kMostChanged = 64;
constexpr std::string_view kOverridden = "overridden by the scenario";

// Returns the file of a profile. `beside` is the folder of the file that named it, tried first for
// paths.
std::string find_profile(const std::string& name, std::span<const std::string> folders,
                         const std::string& beside, const Location& named_at) {
  if (is_profile_path(name)) {
    const fs::path relative = fs::path(beside) / name;
    return path_exists(relative) ? relative.string() : name;
  }
  std::vector<std::string> known;
  for (const std::string& folder : folders) {
    const fs::path file = fs::path(folder) / (name + std::string(kExtension));
    if (path_exists(file)) return file.string();
    for (std::string& other : profile_names(folder)) {
      if (std::find(known.begin(), known.end(), other) == known.end()) {
        known.push_back(std::move(other));
      }
    }
  }
  const std::vector<std::string> like = profiles_meant(name, known);
  if (like.size() == 1) return find_profile(like.front(), folders, beside, named_at);
  if (like.size() > 1) {
    throw UserError(named_at, {},
                    fmt::format("several GPUs are called '{}': {}", name, fmt::join(like, ", ")));
  }
  std::string list;
  for (const std::string& other : known)
    list += (list.empty() ? "" : ", ") + other;
  throw UserError(named_at, {},
                  "unknown GPU '" + name + "'" + nearest_gpu(name, known) +
                      (known.empty() ? "" : " (known: " + list + ", or the path of a profile)"));
}

// Returns the rate that a figure of a link gives; none for what is no rate, which is reported when
// the whole profile is decoded.
std::optional<double> rate_in(const Value* link, std::string_view key) {
  const Value* figure = link == nullptr ? nullptr : link->find(key);
  if (figure != nullptr && figure->is_mapping()) figure = figure->find("value");
  if (figure == nullptr || !figure->is_scalar()) return std::nullopt;
  try {
    return parse_bandwidth(figure->scalar).value;
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

const Value* link_in(const Value& profile, std::string_view name) {
  const Value* links = profile.find("links");
  return links == nullptr ? nullptr : links->find(name);
}

// Lays `changes` over `base`. A link that is given another rate alone keeps the share of it that it
// has while the other direction is busy, unless that is given, too.
Value lay_over(const Value& base, const Value& changes, const std::string& source) {
  Value merged = merge_figures(base, changes, source);
  for (const std::string_view name : {"h2d", "d2h"}) {
    const Value* change = link_in(changes, name);
    const std::optional<double> alone = rate_in(change, "alone");
    const std::optional<double> old_alone = rate_in(link_in(base, name), "alone");
    const std::optional<double> old_duplex = rate_in(link_in(base, name), "duplex");
    if (!alone || !old_alone || !old_duplex || change->find("duplex") != nullptr) continue;
    const double share = *old_duplex / *old_alone;
    const Value& given = *change->find("alone");
    Value rate = given.is_mapping() ? *given.find("value") : given;
    rate.scalar = write_bandwidth({std::max(1.0, std::floor(*alone * share))});
    *merged.find("links")->find(name)->find("duplex") =
        figure_value(rate, fmt::format("derived: the profile's share of alone, {:.3g}", share));
  }
  return merged;
}

// Begin the sources of figures that do not depend on the device, and of those taken over before.
constexpr std::array<std::string_view, 4> kKeptSources = {"by definition", "PyTorch ",
                                                          "DeepSpeed, aio", kTakenOver};

// Returns the figures of a profile as another chip takes them over: their sources say so.
Value taken_over(const Value& figures, const std::string& profile) {
  Value taken = figures;
  for (Value::Entry& entry : taken.entries) {
    std::string& text = entry.value.scalar;
    const bool kept = std::any_of(kKeptSources.begin(), kKeptSources.end(),
                                  [&](std::string_view start) { return text.starts_with(start); });
    if (entry.key == "source" && !kept) text = fmt::format("{}{}: {}", kTakenOver, profile, text);
    if (entry.value.is_mapping()) entry.value = taken_over(entry.value, profile);
  }
  return taken;
}

// Reads a profile over everything that it extends. `known` has what was read before, by the path of
// the file: most profiles extend the same few.
const Value& read_profile(const std::string& file, std::span<const std::string> folders,
                          std::map<std::string, Value>& known,
                          std::vector<std::string>& open_files) {
  const auto read_before = known.find(file);
  if (read_before != known.end()) return read_before->second;
  const std::string identity = identity_of_path(file).string();
  Value profile = read_document(file);
  const bool same_chip = profile.find("extends") != nullptr;
  const std::string key = same_chip ? "extends" : "like";
  const Value* extends = profile.find(key);
  if (extends == nullptr) return known.emplace(file, std::move(profile)).first->second;
  if (same_chip && profile.find("like") != nullptr) {
    throw UserError(profile.find("like")->location, "like",
                    "a profile has either extends, for the same chip, or like, for another one");
  }
  if (!extends->is_scalar()) {
    throw UserError(extends->location, key, "expected the name or the path of a profile");
  }
  open_files.push_back(identity);
  const std::string base_file =
      find_profile(extends->scalar, folders, folder_of_file(file).string(), extends->location);
  const std::string base_identity = identity_of_path(base_file).string();
  if (std::find(open_files.begin(), open_files.end(), base_identity) != open_files.end()) {
    throw UserError(extends->location, key, "a profile cannot extend itself");
  }
  if (open_files.size() >= kMaxExtends) {
    throw UserError(extends->location, key,
                    fmt::format("more than {} profiles extend one another", kMaxExtends));
  }
  Value base = read_profile(base_file, folders, known, open_files);
  if (!same_chip) base = taken_over(base, fs::path(base_file).stem().string());
  std::erase_if(profile.entries, [&](const Value::Entry& entry) { return entry.key == key; });
  return known.emplace(file, lay_over(base, profile, {})).first->second;
}

}  // namespace
}  // namespace profile_files_detail

std::vector<std::string> profile_names(const std::string& folder) {
  std::vector<std::string> names;
  for (const std::string& file : names_in_folder(folder)) {
    const std::filesystem::path path(file);
    if (path.extension() == profile_files_detail::kExtension) names.push_back(path.stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

const Value& ProfileCache::read(const std::string& file, std::span<const std::string> folders) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> open_files;
  return profile_files_detail::read_profile(file, folders, profiles_, open_files);
}

const DeviceProfile& ProfileCache::decoded(const std::string& file,
                                           std::span<const std::string> folders) {
  const Value& profile = read(file, folders);
  const std::lock_guard lock(mutex_);
  const auto known = decoded_.find(file);
  if (known != decoded_.end()) return known->second;
  return decoded_.emplace(file, decode_device_profile(Decoder(profile))).first->second;
}

std::string ProfileCache::file_of(const std::string& name,
                                  const std::function<std::string()>& find) {
  const std::lock_guard lock(mutex_);
  const auto known = files_.find(name);
  if (known != files_.end()) return known->second;
  return files_.emplace(name, find()).first->second;
}

DeviceProfile ProfileCache::changed(const std::string& file, std::span<const std::string> folders,
                                    const Value& changes) {
  const Value& profile = read(file, folders);
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(changed_.begin(), changed_.end(), [&](const Changed& entry) {
    return entry.file == file && says_the_same(entry.changes, changes);
  });
  if (known != changed_.end()) {
    changed_.splice(changed_.begin(), changed_, known);
    return known->profile;
  }
  const Value merged = profile_files_detail::lay_over(
      profile, changes, std::string(profile_files_detail::kOverridden));
  changed_.push_front({file, changes, decode_device_profile(Decoder(merged, "hardware"))});
  if (changed_.size() > profile_files_detail::kMostChanged) changed_.pop_back();
  return changed_.front().profile;
}

DeviceProfile load_device_profile(const std::string& name_or_path,
                                  std::span<const std::string> folders, const Value* overrides,
                                  const Location& named_at, ProfileCache* cache) {
  ProfileCache fresh;
  ProfileCache& profiles = cache != nullptr ? *cache : fresh;
  const std::string file = profiles.file_of(name_or_path, [&] {
    return profile_files_detail::find_profile(name_or_path, folders, {}, named_at);
  });
  return overrides == nullptr ? profiles.decoded(file, folders)
                              : profiles.changed(file, folders, *overrides);
}

}  // namespace tidemark
