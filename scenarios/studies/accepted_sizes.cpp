#include "scenarios/studies/accepted_sizes.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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
constexpr std::array<std::string_view, 3> kDimensions{"tensor_parallel", "context_parallel",
                                                      "pipeline"};

// A size that a policy of the list gives a dimension.
struct Given {
  std::string key;  // "policies.tensor_parallel.size"
  int size = 1;
};

// The GPUs of a document, and the sizes that its policies divide them into.
struct Asked {
  int count = 1;
  std::vector<Given> sizes;
  std::int64_t product = 1;  // of the sizes
};

int count_of(const Value& document) {
  const Value* hardware = document.find("hardware");
  if (hardware == nullptr || !hardware->is_mapping()) return 1;
  return Decoder(*hardware, "hardware").optional<int>("count", 1, between(1, kMaxCount));
}

// Throws UserError where a number is none, or out of its range.
Asked asked_of(const Value& document) {
  Asked asked{.count = count_of(document)};
  const Value* policies = document.find("policies");
  if (policies == nullptr || !policies->is_sequence()) return asked;
  for (const Value& item : policies->items) {
    if (!item.is_mapping() || item.entries.size() != 1) continue;
    const Value::Entry& entry = item.entries.front();
    for (const std::string_view dimension : kDimensions) {
      if (entry.key != dimension || !entry.value.is_mapping()) continue;
      const std::string policy = fmt::format("policies.{}", dimension);
      const int size = Decoder(entry.value, policy).optional<int>("size", 1, between(1, kMaxCount));
      asked.sizes.push_back({policy + ".size", size});
    }
  }
  for (const Given& dimension : asked.sizes) {
    asked.product *= dimension.size;
    if (asked.product > kMaxCount) break;  // no count is so large; one more size might overflow
  }
  return asked;
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
  Asked asked;
  try {
    asked = asked_of(document);
  } catch (const UserError&) {
    return error;  // which says what is wrong with the count
  }
  const auto& [count, given, product] = asked;
  if (given.empty() || product > kMaxCount || count % product == 0) return error;
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
  for (const Given& dimension : given) {
    if (dimension.size == 1) continue;
    const std::int64_t others = product / dimension.size;
    std::vector<int> smaller;
    std::vector<int> larger;
    for (int size = dimension.size - 1; size >= 1; --size) {
      if (count % (others * size) == 0) smaller.push_back(size);
    }
    for (int size = dimension.size + 1; size <= count / others; ++size) {
      if (count % (others * size) == 0) larger.push_back(size);
    }
    add(dimension.key, smaller, larger);
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
