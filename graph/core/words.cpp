#include "graph/core/words.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <vector>

namespace tidemark {
namespace words_detail {
namespace {

constexpr std::size_t kLongestWord = 64;  // longer texts are no slips

std::string lower_case(std::string_view word) {
  std::string lower(word);
  for (char& c : lower)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`
// (optimal string alignment distance).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j)
    above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

}  // namespace
}  // namespace words_detail

std::optional<std::string> nearest_word(std::string_view word,
                                        std::span<const std::string> candidates) {
  if (word.empty() || word.size() > words_detail::kLongestWord) return std::nullopt;
  // One slip in a short word, two in a middling one, three in a long one.
  const std::size_t slips = word.size() <= 4 ? 1 : word.size() <= 8 ? 2 : 3;
  const std::string wanted = words_detail::lower_case(word);
  std::size_t best = std::min(slips, word.size() - 1) + 1;
  std::optional<std::string> nearest;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > wanted.size() + slips || wanted.size() > candidate.size() + slips) {
      continue;
    }
    const std::size_t distance =
        words_detail::edit_distance(wanted, words_detail::lower_case(candidate));
    if (distance >= best) continue;
    best = distance;
    nearest = candidate;
  }
  return nearest;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::optional<std::string> nearest = nearest_word(word, candidates);
  return nearest ? "; did you mean '" + *nearest + "'?" : "";
}

}  // namespace tidemark
