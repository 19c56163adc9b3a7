// Suggestions for misspelt words.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tidemark {

// Returns the candidate closest to `word` by edit distance (a swap of neighbours counts as one,
// letter case as none), if close enough to be a slip.
[[nodiscard]] std::optional<std::string> nearest_word(std::string_view word,
                                                      std::span<const std::string> candidates);
// Returns "; did you mean 'x'?" or "".
[[nodiscard]] std::string did_you_mean(std::string_view word,
                                       std::span<const std::string> candidates);

}  // namespace tidemark
