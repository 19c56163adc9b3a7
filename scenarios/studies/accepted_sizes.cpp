#include "scenarios/studies/accepted_sizes.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "graph/core/decoder.hpp"
#include "graph/core/errors.hpp"
#include "scenarios/read/decode_parts.hpp"
#include "scenarios/read/short_form.hpp"
#include "sim/step/build_training.hpp"

namespace tidemark {
namespace accepted_sizes_detail {
namespace {

constexpr int kMostTrials = 8;  // models are built for the smaller or the larger numbers of a key

int count_of(const Value& document) {
  const Value* hardware = document.find("hardware");
  if (hardware == nullptr || !hardware->is_mapping()) return 1;
  return Decoder(*hardware, "hardware").optional<int>("count", 1, between(1, kMaxCount));
}

// Returns the first of the numbers that is accepted for a key.
std::optional<int> first_accepted(const std::string& key, const std::vector<int>& numbers,
                                  const Value& document, const Environment& environment) {
  for (std::size_t i = 0; i < numbers.size() && i < kMostTrials; ++i) {
    Value changed = document;
    try {
      apply_override(changed, {key, text_value(fmt::to_string(numbers[i]), document.location)});
      static_cast<void>(build_training(decode_scenario(changed, environment)));
    } catch (const UserError&) {
      continue;
    }
    return numbers[i];
  }
  return std::nullopt;
}

// Returns the error with what is accepted, or itself if it is another one, or nothing is.
UserError with_accepted_sizes(const UserError& error, const Value& document,
                              const Environment& environment) {
  if (error.path() != "hardware.count") return error;
  int count = 1;
  MeshRequest asked;
  try {
    count = count_of(document);
    asked = mesh_request(Decoder(document), environment);
  } catch (const UserError&) {
    return error;  // which says what is wrong with the count
  }
  const std::int64_t product = asked.divided();
  if (product > kMaxCount || count % product == 0) return error;
  std::vector<std::string> found;
  const auto add = [&](const std::string& key, const std::vector<int>& smaller,
                       const std::vector<int>& larger) {
    std::vector<int> accepted;
    for (const std::vector<int>& numbers : {smaller, larger}) {
      const std::optional<int> number = first_accepted(key, numbers, document, environment);
      if (number) accepted.push_back(*number);
    }
    if (!accepted.empty()) found.push_back(fmt::format("{}: {}", key, fmt::join(accepted, " or ")));
  };
  for (const MeshDimension dimension : kDividingDimensions) {
    const int given = asked.size(dimension);
    if (given == 1) continue;
    const std::int64_t others = product / given;
    std::vector<int> smaller;
    std::vector<int> larger;
    for (int size = given - 1; size >= 1; --size) {
      if (count % (others * size) == 0) smaller.push_back(size);
    }
    for (int size = given + 1; size <= count / others; ++size) {
      if (count % (others * size) == 0) larger.push_back(size);
    }
    add(asked.key(dimension), smaller, larger);
  }
  const auto below = static_cast<int>(count / product * product);
  const auto above = static_cast<int>(below + product);
  add("hardware.count", below > 0 ? std::vector<int>{below} : std::vector<int>{},
      above <= kMaxCount ? std::vector<int>{above} : std::vector<int>{});
  if (found.empty()) return error;
  return {error.location(), error.path(),
          fmt::format("{}; write {}", error.problem(), fmt::join(found, ", or "))};
}

}  // namespace
}  // namespace accepted_sizes_detail

Scenario decode_alone(const Value& document, const Environment& environment) {
  try {
    return decode_scenario(document, environment);
  } catch (const UserError& error) {
    throw accepted_sizes_detail::with_accepted_sizes(error, document, environment);
  }
}

}  // namespace tidemark
