#include "scenarios/read/listed_numbers.hpp"

#include <algorithm>
#include <cstddef>

namespace tidemark {

std::string listed_numbers(const Value& value) {
  if (!value.is_scalar() || value.scalar.find(',') == std::string::npos ||
      value.scalar.find_first_not_of("0123456789, ") != std::string::npos)
    return {};
  std::string numbers;
  for (const char c : value.scalar) {
    if (c == ',') numbers += ", ";
    if (c != ',' && c != ' ') numbers += c;
  }
  return numbers;
}

std::string number_in_groups(std::string_view listed) {
  std::string number;
  for (std::size_t begin = 0; begin <= listed.size();) {
    const std::size_t end = std::min(listed.find(", ", begin), listed.size());
    const std::string_view group = listed.substr(begin, end - begin);
    const bool leads = begin == 0;
    const bool is_group =
        leads ? !group.empty() && group.size() <= 3 && group.front() != '0' : group.size() == 3;
    if (!is_group || group.find_first_not_of("0123456789") != std::string_view::npos) return {};
    number += group;
    begin = end + 2;
  }
  return number;
}

}  // namespace tidemark
