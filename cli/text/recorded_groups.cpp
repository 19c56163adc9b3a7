#include "cli/text/recorded_groups.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

namespace tidemark {
namespace recorded_groups_detail {
namespace {

// Returns "h.*.attn" of "h.3.attn": numbers between dots distinguish repeated layers.
std::string without_numbers(std::string_view label) {
  std::string text;
  for (std::size_t i = 0; i < label.size(); ++i) {
    const auto digit = [&](std::size_t at) {
      return at < label.size() && std::isdigit(static_cast<unsigned char>(label[at])) != 0;
    };
    std::size_t end = i;
    while (digit(end))
      ++end;
    const bool between = end > i && end < label.size() && label[end] == '.' &&
                         (i == 0 || label[i - 1] == '.' || label[i - 1] == ' ');
    text += between ? '*' : label[i];
    if (between) i = end - 1;
  }
  return text;
}

}  // namespace
}  // namespace recorded_groups_detail

std::string Multiple::ratio() const {
  const std::int64_t more = std::max(a.bytes, b.bytes) / std::min(a.bytes, b.bytes);
  return b.bytes > a.bytes ? fmt::format("{} times", more) : fmt::format("1/{}", more);
}

std::vector<Alike> group_alike(const RecordedPeak& peak, const std::vector<std::size_t>& which) {
  std::map<std::pair<std::string, Bytes>, std::int64_t> counts;
  for (const std::size_t i : which) {
    ++counts[{recorded_groups_detail::without_numbers(peak.live[i].label), peak.live[i].bytes}];
  }
  std::vector<Alike> groups;
  groups.reserve(counts.size());
  for (const auto& [key, count] : counts)
    groups.push_back({key.first, key.second, count});
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Alike& x, const Alike& y) { return x.sum() > y.sum(); });
  return groups;
}

std::vector<MatchedAlike> group_matched(const RecordedPeak& a, const RecordedPeak& b,
                                        const AllocationMatch& match) {
  std::map<std::tuple<MatchedBy, std::string, std::string, Bytes, Bytes>, std::int64_t> counts;
  for (const AllocationPair& pair : match.pairs) {
    const LiveAllocation& of_a = a.live[pair.a];
    const LiveAllocation& of_b = b.live[pair.b];
    ++counts[{pair.how, recorded_groups_detail::without_numbers(of_a.label),
              recorded_groups_detail::without_numbers(of_b.label), of_a.bytes, of_b.bytes}];
  }
  std::vector<MatchedAlike> groups;
  for (const auto& [key, count] : counts) {
    const auto& [how, label_a, label_b, bytes_a, bytes_b] = key;
    groups.push_back({how, label_a, label_b, bytes_a, bytes_b, count});
  }
  std::stable_sort(groups.begin(), groups.end(), [](const MatchedAlike& x, const MatchedAlike& y) {
    const std::int64_t by = std::abs(x.difference().count);
    const std::int64_t than = std::abs(y.difference().count);
    return by != than ? by > than : x.bytes_a * x.count > y.bytes_a * y.count;
  });
  return groups;
}

std::vector<Multiple> multiples_of(const std::vector<Alike>& of_a, const std::vector<Alike>& of_b,
                                   Bytes peak) {
  constexpr std::int64_t kMostTimes = 8;
  constexpr std::int64_t kSmall = 200;  // groups below this part of the peak are small
  std::vector<Multiple> found;
  std::vector<char> taken(of_b.size(), 0);
  for (const Alike& a : of_a) {
    if (a.bytes == Bytes(0) || (a.count == 1 && a.bytes < peak / kSmall)) continue;
    for (std::size_t j = 0; j < of_b.size(); ++j) {
      const Alike& b = of_b[j];
      if (taken[j] != 0 || b.count != a.count || b.bytes == Bytes(0)) continue;
      const Bytes large = std::max(a.bytes, b.bytes);
      const Bytes small = std::min(a.bytes, b.bytes);
      if (large.count % small.count != 0 || large / small > kMostTimes) continue;
      found.push_back({a, b});
      taken[j] = 1;
      break;
    }
  }
  return found;
}

}  // namespace tidemark
