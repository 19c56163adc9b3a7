#include "scenarios/studies/search/lines.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "graph/core/numbers.hpp"
#include "scenarios/results/document_json.hpp"

namespace tidemark {
namespace lines_detail {
namespace {

std::optional<std::int64_t> integer_of(const Value& value) {
  try {
    return read_integer(value, "", 0, std::numeric_limits<std::int64_t>::max());
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

}  // namespace
}  // namespace lines_detail

std::vector<std::vector<std::size_t>> lines_along(std::string_view key,
                                                  std::span<const std::vector<Override>> points) {
  using Member = std::pair<std::int64_t, std::size_t>;  // the key's value, and the point
  std::map<std::string, std::vector<Member>> by_others;
  for (std::size_t i = 0; i < points.size(); ++i) {
    std::optional<std::int64_t> number;
    nlohmann::ordered_json others = nlohmann::ordered_json::array();
    for (const Override& change : points[i]) {
      if (change.key == key) {
        number = lines_detail::integer_of(change.value);
      } else {
        others.push_back({change.key, to_json(change.value)});
      }
    }
    if (number) by_others[others.dump()].emplace_back(*number, i);
  }
  std::vector<std::vector<std::size_t>> lines;
  for (auto& [text, members] : by_others) {
    if (members.size() < 2) continue;
    std::sort(members.begin(), members.end());
    std::vector<std::size_t>& line = lines.emplace_back();
    for (const Member& member : members)
      line.push_back(member.second);
  }
  return lines;
}

}  // namespace tidemark
