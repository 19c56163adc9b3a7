#include <stdexcept>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "sim/memory/torch/roundup_intervals.hpp"
#include "sim/memory/torch/torch_options.hpp"

namespace tidemark {
namespace decode_torch_options_detail {
namespace {

// Runs a parser of texts for a key of a scenario.
template <class F>
auto at_key(const Decoder& decoder, std::string_view key, F&& parse) {
  try {
    return parse();
  } catch (const std::invalid_argument& error) {
    // Parsers of the whole text name the option; here the path names it.
    std::string problem = error.what();
    const std::string name = std::string(key) + ": ";
    if (problem.starts_with(name)) problem.erase(0, name.size());
    decoder.fail_at(key, problem);
  }
}

// Decodes for example {256MiB: 1, 512MiB: 2, ">": 4}.
RoundupDivisions decode_intervals(const Decoder& mapping) {
  RoundupIntervals intervals;
  for (const auto& [key, value] : mapping.entries()) {
    const auto divisions = value.as<std::int64_t>(at_least(0));
    try {
      if (key == ">") {
        intervals.set_rest(divisions);
        continue;
      }
      const Bytes size = parse_bytes(key);
      if (size.count % kMiB.count != 0)
        throw std::invalid_argument("intervals are whole MiB, found " + quoted_excerpt(key));
      intervals.set(size / kMiB, divisions);
    } catch (const std::invalid_argument& error) {
      std::string problem = error.what();
      constexpr std::string_view kName = "roundup_power2_divisions: ";
      if (problem.starts_with(kName)) problem.erase(0, kName.size());
      value.fail(problem);
    }
  }
  return intervals.divisions();
}

}  // namespace
}  // namespace decode_torch_options_detail

TorchAllocatorOptions decode_torch_options(const Decoder& allocator) {
  static constexpr std::array<std::string_view, 1> kVersions{kTorchAllocatorVersion};
  static_cast<void>(allocator.optional_word("version", kVersions, kTorchAllocatorVersion));
  TorchAllocatorOptions options;
  if (const auto conf = allocator.maybe<std::string>("conf")) {
    options = decode_torch_options_detail::at_key(allocator, "conf",
                                                  [&] { return parse_alloc_conf(*conf); });
  }
  if (const auto limit = allocator.maybe<Bytes>(
          "max_split_size", above(static_cast<double>(kSmallestSplitLimitMb * kMiB.count)))) {
    options.max_split_size = *limit;
  }
  constexpr std::string_view kRoundup = "roundup_power2_divisions";
  const Value* given = allocator.value().find(kRoundup);
  if (given != nullptr && given->is_mapping()) {
    options.roundup_power2_divisions =
        decode_torch_options_detail::decode_intervals(allocator.optional_child(kRoundup));
  } else if (given != nullptr && given->is_sequence()) {
    allocator.fail_at(kRoundup, fmt::format("expected {}, found a list", kRoundupForms));
  } else if (const auto text = allocator.maybe<std::string>(kRoundup)) {
    options.roundup_power2_divisions = decode_torch_options_detail::at_key(
        allocator, kRoundup, [&] { return parse_roundup_divisions(*text); });
  }
  constexpr std::string_view kThreshold = "garbage_collection_threshold";
  if (const auto threshold = allocator.maybe<double>(kThreshold, between(0, 1))) {
    options.garbage_collection_threshold = decode_torch_options_detail::at_key(
        allocator, kThreshold, [&] { return check_collection_threshold(*threshold); });
  }
  options.expandable_segments =
      allocator.optional<bool>("expandable_segments", options.expandable_segments);
  if (const auto fraction =
          allocator.maybe<double>("memory_fraction", {.low = 0, .high = 1, .low_excluded = true})) {
    options.memory_fraction = fraction;
  }
  options.cuda_graph = allocator.optional<bool>("cuda_graph", options.cuda_graph);
  return options;
}

}  // namespace tidemark
