#include "cli/text/advice.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "hwprofiles/assumed_figures.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/short_form.hpp"
#include "scenarios/results/document_json.hpp"
#include "scenarios/studies/suggestions.hpp"

namespace tidemark {
namespace advice_detail {
namespace {

constexpr std::size_t kShownGpus = 4;
constexpr std::size_t kShownSegments = 5;
constexpr std::size_t kShownTensors = 2;  // tensors shown of a segment

// Returns "'h.3.attn.saved' (12.0 MiB), 'wte' (3.0 MiB) and 4 more".
std::string in_use_of(const PartlyFreeSegment& segment) {
  std::string text;
  const std::size_t shown = std::min(segment.in_use.size(), kShownTensors);
  for (std::size_t i = 0; i < shown; ++i) {
    const TensorInUse& tensor = segment.in_use[i];
    text += fmt::format("{}{}{}{} ({}, {})", text.empty() ? "" : ", ", tensor.layer,
                        tensor.layer.empty() ? "" : ": ", tensor.tensor,
                        style_of(tensor.role).label, format_bytes(tensor.bytes));
  }
  if (segment.in_use_count > shown)
    text += fmt::format(" and {} more", segment.in_use_count - shown);
  return text;
}

// Says what the allocator had when it refused, and which tensors hold the segments that are partly
// free.
std::string memory_at_failure(const PointResult& point, bool colour, std::size_t width) {
  const Failure& failure = *point.failure;
  std::string text;
  if (!point.allocator.has_segments) {
    const std::string sentence =
        fmt::format("Of {} that the {} allocator may use {} were left.",
                    format_bytes(point.capacity - point.context), point.allocator.name,
                    format_bytes(failure.device_free));
    for (const std::string& line : wrap(sentence, width - 2))
      text += "  " + line + '\n';
    return text;
  }
  const std::string inside =
      fmt::format("{} were free inside segments, the largest block {}.",
                  format_bytes(failure.free_in_segments), format_bytes(failure.largest_free));
  const bool limited = failure.allowed && failure.segment <= failure.device_free;
  const std::string sentence =
      limited ? fmt::format(
                    "The allocator needed {} ({} rounded) from the device, which had {}, "
                    "but may reserve no more than {}, allowed by memory_fraction; {}",
                    format_bytes(failure.segment), format_bytes(failure.rounded),
                    format_bytes(failure.device_free), format_bytes(*failure.allowed), inside)
              : fmt::format(
                    "The allocator asked the device for {} ({} rounded) and the device had "
                    "{}; {}",
                    format_bytes(failure.segment), format_bytes(failure.rounded),
                    format_bytes(failure.device_free), inside);
  for (const std::string& line : wrap(sentence, width - 2))
    text += "  " + line + '\n';
  if (failure.partly_free.empty()) return text;
  text += "\n  " + bold("Segments that are partly free", colour) +
          dim(fmt::format(" ({} in all)", failure.partly_free.size()), colour) + '\n';
  Table table({{"size", Align::kRight},
               {"free", Align::kRight},
               {"in one piece", Align::kRight},
               {"kept by"}},
              4);
  const std::size_t shown = std::min(failure.partly_free.size(), kShownSegments);
  for (std::size_t i = 0; i < shown; ++i) {
    const PartlyFreeSegment& segment = failure.partly_free[i];
    table.add_row({{format_bytes(segment.size)},
                   {format_bytes(segment.free)},
                   {format_bytes(segment.largest_free)},
                   {in_use_of(segment)}});
  }
  return text + table.text(colour, width) + '\n';
}

// Names the memory that a run lacked where it is not the device's.
std::string_view place_of(RunStatus status) {
  if (status == RunStatus::kOutOfHostMemory) return " into host memory";
  return status == RunStatus::kOutOfNvme ? " on NVMe" : "";
}

// Returns the row of a change that was tried.
std::vector<Cell> row_of(const Suggestion& remedy) {
  const bool tokens = remedy.tokens_per_second > 0;
  const double speed = tokens ? remedy.tokens_per_second : remedy.samples_per_second;
  const std::string_view unit = tokens ? "tokens/s" : "samples/s";
  const std::string_view other = remedy.changes_numbers ? ", changes the numbers" : "";
  return {{remedy.change},
          {format_bytes(remedy.device_used)},
          {remedy.fits ? fmt::format("{} {}", rate(speed), unit) : ""},
          {remedy.fits ? fmt::format("fits{}", other)
                       : fmt::format("does not fit{}", place_of(remedy.status)),
           remedy.fits ? kGood : kBad}};
}

// Returns the changes that fit, and the few that come nearest of those that do not.
std::vector<const Suggestion*> worth_showing(const std::vector<Suggestion>& tried) {
  constexpr std::ptrdiff_t kNearest = 2;
  std::vector<const Suggestion*> shown;
  shown.reserve(tried.size());
  for (const Suggestion& suggestion : tried)
    shown.push_back(&suggestion);
  const auto failing =
      std::find_if(shown.begin(), shown.end(), [](const Suggestion* s) { return !s->fits; });
  std::stable_sort(failing, shown.end(), [](const Suggestion* a, const Suggestion* b) {
    return a->device_used < b->device_used;
  });
  if (shown.end() - failing > kNearest) shown.erase(failing + kNearest, shown.end());
  return shown;
}

// Returns what a user writes for a change: on our command line, in PyTorch, for Hugging Face.
std::string settings_of(const Suggestion& remedy) {
  constexpr std::size_t kIndent = 4;
  std::string text(kIndent - 1, ' ');
  for (const auto& [key, value] : remedy.overrides)
    text += fmt::format(" -s '{}={}'", key, as_json(value));
  text += '\n';
  const auto lines = [&](std::string_view what, const std::vector<std::string>& settings) {
    if (settings.empty()) return;
    text += fmt::format("  {}:\n", what);
    for (const std::string& line : settings)
      text += std::string(kIndent, ' ') + line + '\n';
  };
  lines("in PyTorch", remedy.pytorch);
  lines("for Hugging Face's Trainer", remedy.hugging_face);
  return text;
}

// Returns a sentence as lines of `width`, indented.
std::string paragraph(const std::string& sentence, std::size_t width) {
  std::string text;
  for (const std::string& line : wrap(sentence, width - 2))
    text += "  " + line + '\n';
  return text;
}

// Lists the changes that would help, and the devices that are large enough.
std::string remedies(const PointResult& point, const Environment& environment, Bytes needed,
                     bool colour, std::size_t width) {
  std::string text;
  text += '\n';
  text += "  " + bold("What would help", colour) +
          dim(" (changes simulated; GPUs by the memory that this step needs)", colour) + '\n';
  Table table({{""}, {"", Align::kRight}, {"", Align::kRight}, {""}}, 4);
  const std::vector<Suggestion> tried =
      !point.failure ? std::vector<Suggestion>() : point.failure->tried;
  const std::vector<const Suggestion*> shown_changes = worth_showing(tried);
  for (const Suggestion* remedy : shown_changes)
    table.add_row(row_of(*remedy));
  const std::vector<std::string> gpus = gpus_with(needed, environment);
  if (gpus.empty()) {
    table.add_row(
        {{"a larger GPU"}, {format_bytes(needed)}, {""}, {"none listed is that large", kBad}});
  } else {
    const std::size_t shown = std::min(gpus.size(), kShownGpus);
    table.add_row(
        {{"a larger GPU: " +
          fmt::format("{}", fmt::join(gpus.begin(),
                                      gpus.begin() + static_cast<std::ptrdiff_t>(shown), ", "))},
         {format_bytes(needed)},
         {""},
         {"large enough", kGood}});
  }
  text += table.text(colour, width);
  if (shown_changes.size() < tried.size()) {
    text += paragraph(fmt::format("{} more were tried and do not fit; --json has them.",
                                  tried.size() - shown_changes.size()),
                      width);
  }
  if (const Suggestion* best = best_that_fits(tried)) {
    const bool other = best != &tried.front();
    text += paragraph(fmt::format("Of these {}{} is the fastest:", best->change,
                                  other ? ", among those that change no numbers," : ""),
                      width);
    text += settings_of(*best);
    if (is_close(best->device_used, point.capacity)) {
      text += paragraph(fmt::format("It leaves less than {} of the memory free, and {}.",
                                    kPeakErrorText, kCloseReason),
                        width);
    }
  }
  return text;
}

}  // namespace
}  // namespace advice_detail

std::vector<std::string> gpus_with(Bytes bytes, const Environment& environment) {
  std::vector<std::pair<Bytes, std::string>> found;
  for (const std::string& name : gpu_names(environment)) {
    const DeviceProfile profile = load_device_profile(name, environment.profile_folders, nullptr,
                                                      {}, environment.profiles.get());
    if (!is_roofline_only(profile) && profile.hbm.capacity >= bytes)
      found.emplace_back(profile.hbm.capacity, name);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  names.reserve(found.size());
  for (auto& [capacity, name] : found)
    names.push_back(std::move(name));
  return names;
}

std::string explain_failure(const PointResult& point, const Environment& environment, bool colour,
                            std::size_t width) {
  std::string text;
  const auto paragraph = [&](const std::string& sentence) {
    text += advice_detail::paragraph(sentence, width);
  };
  if (point.failure) {
    paragraph(point.failure->reason + ".");
    if (point.run.status == RunStatus::kOutOfMemory && point.context <= point.capacity) {
      text += advice_detail::memory_at_failure(point, colour, width);
      if (point.failure->message != point.failure->reason)
        paragraph("PyTorch says: " + point.failure->message);
    }
  }
  // The budget is too small, whatever the device.
  if (point.status == PointStatus::kInfeasible) {
    for (const PolicyOutcome& outcome : point.policies) {
      if (!outcome.plan || outcome.plan->infeasible.empty()) continue;
      paragraph(
          fmt::format("What is shown is the schedule of {} that comes nearest; it would keep "
                      "to a budget of {}. Give more, or another policy.",
                      outcome.name, format_bytes(outcome.plan->peak)));
    }
    return text;
  }
  const Bytes needed = point.device_that_does();
  const Bytes persistent = point.model_bytes() + point.buffers;
  // The reason already says by how much; a larger device would not help. A step that runs has
  // exceeded a budget.
  if (point.run.status == RunStatus::kOutOfHostMemory ||
      point.run.status == RunStatus::kOutOfNvme || point.run.status == RunStatus::kCompleted) {
    return text;
  }
  const std::string missing = format_bytes(needed - point.capacity);
  const std::string there = format_bytes(point.capacity);
  const std::string all = format_bytes(needed);
  paragraph(all == there
                ? fmt::format("It needs {} more than the {} of this device.", missing, there)
                : fmt::format("It needs a device of {}; this one has {}, so {} are missing.", all,
                              there, missing));
  if (persistent + point.context > point.capacity) {
    paragraph(fmt::format(
        "Parameters, gradients and optimizer state alone take {}: recomputing or offloading "
        "activations is not enough.",
        format_bytes(persistent)));
  }
  text += advice_detail::remedies(point, environment, needed, colour, width);
  return text;
}

}  // namespace tidemark
