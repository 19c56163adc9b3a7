#include "hwprofiles/gpu_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "graph/core/paths.hpp"
#include "graph/core/words.hpp"

namespace tidemark {
namespace gpu_names_detail {
namespace {

// Words of makers, families and kinds of memory, which the names of profiles do not have.
constexpr auto kSilent = std::to_array<std::string_view>(
    {"nvidia", "nv",         "geforce", "tesla", "amd",   "instinct", "gpu",
     "tensor", "core",       "hbm2",    "hbm2e", "hbm3",  "hbm3e",    "gb",
     "gib",    "generation", "google",  "cloud", "intel", "oam"});

// Returns the words that are written as one: "h100sxm5" is h100 and sxm5, "3090ti" is 3090 and ti.
std::vector<std::string> split_word(const std::string& word) {
  constexpr auto kForms = std::to_array<std::string_view>({"sxm", "pcie", "nvl"});
  for (const std::string_view form : kForms) {
    const std::size_t at = word.find(form);
    if (at != std::string::npos && at > 0) return {word.substr(0, at), word.substr(at)};
  }
  constexpr auto kAdditions = std::to_array<std::string_view>({"ti", "d", "super", "ada"});
  constexpr std::size_t kDigits = 4;  // of "4090"
  const bool number = word.size() > kDigits && word.find_first_not_of("0123456789") == kDigits;
  if (!number ||
      std::find(kAdditions.begin(), kAdditions.end(), word.substr(kDigits)) == kAdditions.end())
    return {word};
  return {word.substr(0, kDigits), word.substr(kDigits)};
}

// Returns the words of a name in lower case, the families apart: "RTX4090" is rtx and 4090.
std::vector<std::string> words_of(std::string_view name) {
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
  std::vector<std::string> words;
  for (std::string& part : parts) {
    constexpr auto kFamilies = std::to_array<std::string_view>({"rtx", "gtx", "tpu"});
    for (const std::string_view family : kFamilies) {
      if (!part.starts_with(family) || part.size() == family.size()) continue;
      words.emplace_back(family);
      part.erase(0, family.size());
      break;
    }
    for (std::string& word : split_word(part))
      words.push_back(std::move(word));
  }
  return words;
}

// Returns the parts of a name in lower case: "RTX4090" is rtx and 4090, "SXM4" is sxm, "80 GB" and
// "80GB" are 80gb, "Gaudi 2" is gaudi2.
std::vector<std::string> parts_of(std::string_view name) {
  std::vector<std::string> result;
  for (const std::string& part : words_of(name)) {
    const bool number = part.find_first_not_of("0123456789") == std::string::npos;
    if (part.starts_with("sxm")) {
      result.emplace_back("sxm");
    } else if ((part == "gb" || part == "gib") && !result.empty()) {
      result.back() += "gb";
    } else if (number && !result.empty() && result.back() == "gaudi") {
      result.back() += part;
    } else if (std::find(kSilent.begin(), kSilent.end(), part) == kSilent.end()) {
      result.push_back(part);
    }
  }
  return result;
}

bool has(std::span<const std::string> parts, std::string_view part) {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

// The profile of one of a card's two dies.
std::vector<std::string> parts_of_mi250_die() {
  return {"mi250x", "64gb"};
}

// Returns the parts of a name that say which GPU it is. Drivers name a Grace Hopper by the memory
// of its CPU: "GH200 480GB" and "GH200 120GB" are both the one with 96 GB of HBM3. Grace's GPUs
// have one form, and racks of GB200 are NVL72 or NVL36. NVIDIA's data sheets state 180, 186 or 192
// GB of the same B200 and GB200. HIP calls each die of the two cards "AMD Instinct MI250X/MI250".
std::vector<std::string> telling_parts(std::string_view name) {
  std::vector<std::string> parts = parts_of(name);
  const auto leave_out = [&](std::initializer_list<std::string_view> silent) {
    std::erase_if(parts, [&](const std::string& part) {
      return std::find(silent.begin(), silent.end(), part) != silent.end();
    });
  };
  if (has(parts, "gh200")) leave_out({"480gb", "240gb", "120gb", "sxm"});
  if (has(parts, "gb200")) leave_out({"186gb", "192gb", "sxm", "nvl72", "nvl36"});
  if (has(parts, "b200")) leave_out({"180gb", "192gb"});
  if (has(parts, "mi250x") && has(parts, "mi250")) return parts_of_mi250_die();
  return parts;
}

// A GPU without a profile: the parts that its name must have, the profile that is nearest, and how
// the two differ.
struct Kin {
  std::string_view parts;
  std::string_view profile;
  std::string_view difference;
};

// Those with more parts come first. Chips, memories and rates are those of the makers' data sheets
// of both cards (NVIDIA's and AMD's product pages), recalled, not verified; they are words of a
// message and no figure of a simulation.
constexpr auto kKin = std::to_array<Kin>({
    {"h200 nvl", "h200-sxm-141gb", "the same chip and memory as a PCIe card of 600 W"},
    {"v100 pcie", "v100-pcie-32gb", "the same card with another memory"},
    {"5000 ada", "rtx-6000-ada-48gb", "the same chip with fewer multiprocessors and less memory"},
    {"pro 6000", "rtx-5090-32gb", "the same chip with more multiprocessors and 96 GB"},
    {"3090 ti", "rtx-3090-24gb", "the same chip with two multiprocessors more and faster memory"},
    {"3080 ti", "rtx-3090-24gb", "the same chip with fewer multiprocessors and less memory"},
    {"4090 d", "rtx-4090-24gb", "the same chip with fewer multiprocessors"},
    {"4090 laptop", "rtx-4090-24gb",
     "a smaller chip of its generation, with less memory and power"},
    {"2080 ti", "t4-16gb", "its generation at several times the rate"},
    {"titan rtx", "t4-16gb", "its generation at several times the rate"},
    {"quadro rtx", "t4-16gb", "its generation at several times the rate"},
    {"a800", "a100-sxm-80gb", "the same chip with a slower NVLink"},
    {"a30", "a100-pcie-40gb", "the same chip with about half the multiprocessors and 24 GB"},
    {"a40", "rtx-a6000-48gb", "the same chip with slower memory"},
    {"a5000", "rtx-a6000-48gb", "the same chip with fewer multiprocessors and 24 GB"},
    {"a5500", "rtx-a6000-48gb", "the same chip with fewer multiprocessors and 24 GB"},
    {"a4500", "rtx-a6000-48gb", "the same chip with fewer multiprocessors and 20 GB"},
    {"a4000", "rtx-a6000-48gb", "a smaller chip of its generation, with 16 GB"},
    {"h800", "h100-sxm-80gb", "the same chip with a slower NVLink"},
    {"h20", "h100-sxm-80gb",
     "the same chip at a fraction of its rate, with 96 GB of faster memory"},
    {"b300", "b200-sxm-192gb", "its generation with more memory"},
    {"gb300", "gb200", "its generation with more memory"},
    {"l40", "l40s-48gb",
     "the same chip and memory with half the rate of matrix products and less power"},
    {"3080", "rtx-3090-24gb", "the same chip with fewer multiprocessors and less memory"},
    {"4080", "rtx-4090-24gb", "a smaller chip of its generation, with 16 GB"},
    {"5080", "rtx-5090-32gb", "a smaller chip of its generation, with 16 GB"},
    {"mi325x", "mi300x-192gb", "the same chip with 256 GB of faster memory"},
    {"mi300a", "mi300x-192gb", "its generation with fewer compute units and 128 GB"},
    {"mi250", "mi250x-64gb", "the same chip with fewer compute units"},
    {"mi210", "mi250x-64gb", "one such die with fewer compute units"},
});

bool has_all(std::span<const std::string> parts, std::string_view wanted) {
  while (!wanted.empty()) {
    const std::size_t end = std::min(wanted.find(' '), wanted.size());
    if (!has(parts, wanted.substr(0, end))) return false;
    wanted.remove_prefix(std::min(end + 1, wanted.size()));
  }
  return true;
}

// Returns the gigabytes that a name states: 80 of a100-sxm-80gb.
std::optional<int> memory_of(std::span<const std::string> parts) {
  for (const std::string& part : parts) {
    int gigabytes = 0;
    const char* const end = part.data() + part.size();
    const auto [at, fault] = std::from_chars(part.data(), end, gigabytes);
    if (fault == std::errc{} && std::string_view(at, end) == "gb") return gigabytes;
  }
  return std::nullopt;
}

// Returns the gigabytes of the card of which "3g.40gb" is a slice. The memory is cut into eighths:
// 1g has one, 2g two, 3g and 4g four, 7g all (NVIDIA's MIG user guide, profiles of A100 and H100).
std::optional<int> memory_of_card(std::span<const std::string> slice) {
  constexpr auto kEighths = std::to_array<std::pair<std::string_view, int>>(
      {{"1g", 1}, {"2g", 2}, {"3g", 4}, {"4g", 4}, {"7g", 8}});
  const std::optional<int> memory = memory_of(slice);
  for (const auto& [profile, eighths] : kEighths) {
    if (memory && has(slice, profile)) return *memory * 8 / eighths;
  }
  return std::nullopt;
}

bool is_form(std::string_view part) {
  return part == "sxm" || part == "pcie" || part == "nvl";
}
bool is_memory(std::string_view part) {
  return part.ends_with("gb");
}

// Returns whether a part of a name says the form or the memory rather than the chip.
bool is_variant(std::string_view part) {
  return is_form(part) || is_memory(part) || part == "rtx" || part.ends_with("tb");
}

// Orders profiles by how far their memory is from the wanted one, then modules before cards.
void sort_by_distance(std::vector<std::string>& profiles, std::optional<int> wanted) {
  const auto distance = [&](const std::string& profile) {
    const std::vector<std::string> parts = parts_of(profile);
    const std::optional<int> memory = memory_of(parts);
    const int apart = wanted && memory ? std::abs(*wanted - *memory) : 0;
    return std::tuple(apart, !has(parts, "sxm"), parts.size(), profile);
  };
  std::sort(profiles.begin(), profiles.end(),
            [&](const std::string& a, const std::string& b) { return distance(a) < distance(b); });
}

// Returns the profiles of the chip that is named that have most parts in common; none where the
// name says another chip.
std::vector<std::string> of_the_same_chip(std::span<const std::string> wanted,
                                          std::span<const std::string> profiles) {
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const std::string& profile : profiles) {
    std::size_t common = 0;
    bool chip = false;
    for (const std::string& part : parts_of(profile)) {
      if (!has(wanted, part)) continue;
      ++common;
      chip = chip || !is_variant(part);
    }
    if (chip) found.emplace_back(common, profile);
  }
  std::size_t most = 0;
  for (const auto& [common, profile] : found)
    most = std::max(most, common);
  std::vector<std::string> result;
  for (auto& [common, profile] : found) {
    if (common == most) result.push_back(std::move(profile));
  }
  return result;
}

std::string say_nearest(std::string_view profiles, std::string_view difference,
                        std::string_view one) {
  return fmt::format(
      "; the nearest {} {} ({}): name it with the figures that differ, or write a profile that is "
      "`like: {}`",
      profiles.find(',') == std::string_view::npos ? "is" : "are", profiles, difference, one);
}

}  // namespace
}  // namespace gpu_names_detail

bool name_one_gpu(std::string_view one, std::string_view other) {
  const std::vector<std::string> a = gpu_names_detail::telling_parts(one);
  const std::vector<std::string> b = gpu_names_detail::telling_parts(other);
  // Whether `from` says nothing that `to` does not, but a memory or a form of which `to` says none.
  const auto agrees = [](std::span<const std::string> from, std::span<const std::string> to) {
    return std::all_of(from.begin(), from.end(), [&](const std::string& part) {
      if (gpu_names_detail::has(to, part)) return true;
      if (gpu_names_detail::is_memory(part))
        return std::none_of(to.begin(), to.end(), gpu_names_detail::is_memory);
      return gpu_names_detail::is_form(part) &&
             std::none_of(to.begin(), to.end(), gpu_names_detail::is_form);
    });
  };
  return !a.empty() && !b.empty() && agrees(a, b) && agrees(b, a);
}

bool is_profile_path(std::string_view text) {
  if (is_yaml_name(text)) return true;
  if (text.find('/') == std::string_view::npos) return false;
  return gpu_names_detail::telling_parts(text) != gpu_names_detail::parts_of_mi250_die();
}

std::vector<std::string> profiles_like(std::string_view name,
                                       std::span<const std::string> profiles) {
  const std::vector<std::string> wanted = gpu_names_detail::telling_parts(name);
  std::vector<std::string> found;
  if (wanted.empty()) return found;
  for (const std::string& profile : profiles) {
    const std::vector<std::string> parts = gpu_names_detail::parts_of(profile);
    const bool all = std::all_of(wanted.begin(), wanted.end(), [&](const std::string& part) {
      return gpu_names_detail::has(parts, part);
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

std::string nearest_gpu(std::string_view name, std::span<const std::string> profiles) {
  std::vector<std::string> parts = gpu_names_detail::telling_parts(name);
  const auto slice = std::find(parts.begin(), parts.end(), "mig");
  const bool sliced = slice != parts.end();
  const std::optional<int> of_slice =
      gpu_names_detail::memory_of_card(std::span(slice, parts.end()));
  parts.erase(slice, parts.end());
  for (const gpu_names_detail::Kin& kin : gpu_names_detail::kKin) {
    const bool known = std::find(profiles.begin(), profiles.end(), kin.profile) != profiles.end();
    if (known && gpu_names_detail::has_all(parts, kin.parts))
      return gpu_names_detail::say_nearest(kin.profile, kin.difference, kin.profile);
  }
  if (std::string hint = did_you_mean(name, profiles); !hint.empty()) return hint;
  std::vector<std::string> same = gpu_names_detail::of_the_same_chip(parts, profiles);
  if (same.empty()) return {};
  const std::optional<int> stated = gpu_names_detail::memory_of(parts);
  gpu_names_detail::sort_by_distance(same, stated ? stated : of_slice);
  return gpu_names_detail::say_nearest(
      fmt::format("{}", fmt::join(same, ", ")),
      sliced ? "of which a MIG slice is a part" : "another memory, form or version of it",
      same.front());
}

}  // namespace tidemark
