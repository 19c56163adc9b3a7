#include "scenarios/studies/accepted_sizes.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/decoder.hpp"
#include "graph/core/errors.hpp"
#include "scenarios/read/short_form.hpp"
#include "sim/step/build_training.hpp"

namespace tidemark {
namespace accepted_sizes_detail {
namespace {

constexpr int kMostTrials = 8;  // models are built for one error
constexpr std::array<std::string_view, 3> kDimensions{"tensor_parallel", "context_parallel",
                                                      "pipeline"};

// A size that a policy of the list gives a dimension.
struct Given {
  std::string key;  // "policies.tensor_parallel.size"
  int size = 1;
};

std::vector<Given> given_sizes(const Value& document) {
  std::vector<Given> sizes;
  const Value* policies = document.find("policies");
  if (policies == nullptr || !policies->is_sequence()) return sizes;
  for (const Value& item : policies->items) {
    if (!item.is_mapping() || item.entries.size() != 1) continue;
    const Value::Entry& entry = item.entries.front();
    for (const std::string_view dimension : kDimensions) {
      const Value* size = entry.key == dimension ? entry.value.find("size") : nullptr;
      if (size != nullptr)
        sizes.push_back({fmt::format("policies.{}.size", dimension), Decoder(*size).as<int>()});
    }
  }
  return sizes;
}

class Trials {
 public:
  Trials(const Value& document, const Environment& environment)
      : document_(document), environment_(environment) {}

  [[nodiscard]] bool accepted(const std::string& key, int number) {
    if (++made_ > kMostTrials) return false;
    Value changed = document_;
    try {
      apply_override(changed, {key, text_value(fmt::to_string(number), document_.location)});
      static_cast<void>(build_training(decode_scenario(changed, environment_)));
    } catch (const UserError&) {
      return false;
    }
    return true;
  }

 private:
  const Value& document_;
  const Environment& environment_;
  int made_ = 0;
};

// Returns "KEY: 2 or 4": the first of the smaller and of the larger numbers that are accepted.
std::string nearest_accepted(const std::string& key, const std::vector<int>& smaller,
                             const std::vector<int>& larger, Trials& trials) {
  std::string found;
  for (const std::vector<int>& numbers : {smaller, larger}) {
    for (const int number : numbers) {
      if (!trials.accepted(key, number)) continue;
      found += found.empty() ? fmt::format("{}: {}", key, number) : fmt::format(" or {}", number);
      break;
    }
  }
  return found;
}

int count_of(const Value& document) {
  const Value* hardware = document.find("hardware");
  const Value* count = hardware == nullptr ? nullptr : hardware->find("count");
  return count == nullptr ? 1 : Decoder(*count).as<int>();
}

// Returns the error with what is accepted, or itself if it is another one, or nothing is.
UserError with_accepted_sizes(const UserError& error, const Value& document,
                              const Environment& environment) {
  if (error.path() != "hardware.count") return error;
  const std::vector<Given> given = given_sizes(document);
  std::int64_t product = 1;
  for (const auto& dimension : given)
    product *= dimension.size;
  const int count = count_of(document);
  if (given.empty() || product < 1 || count % product == 0) return error;
  Trials trials(document, environment);
  std::vector<std::string> found;
  const auto add = [&](const std::string& key, const std::vector<int>& smaller,
                       const std::vector<int>& larger) {
    std::string numbers = nearest_accepted(key, smaller, larger, trials);
    if (!numbers.empty()) found.push_back(std::move(numbers));
  };
  for (const auto& dimension : given) {
    const std::int64_t others = product / dimension.size;
    if (dimension.size == 1) continue;
    std::vector<int> smaller;
    std::vector<int> larger;
    for (int size = dimension.size - 1; size >= 1; --size) {
      if (count % (others * size) == 0) smaller.push_back(size);
    }
    for (int size = dimension.size + 1; size <= count; ++size) {
      if (count % (others * size) == 0) larger.push_back(size);
    }
    add(dimension.key, smaller, larger);
  }
  const auto below = static_cast<int>(count / product * product);
  add("hardware.count", below > 0 ? std::vector<int>{below} : std::vector<int>{},
      {static_cast<int>(below + product)});
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
