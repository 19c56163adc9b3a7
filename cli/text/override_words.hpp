// The settings that a point changes, in words; shared by tables, charts, pages and commands.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/text/wording.hpp"

namespace tidemark {

// Returns the last part of a key: "micro_batch" for "training.micro_batch".
[[nodiscard]] std::string last_word(std::string_view key);

// Returns the value that overrides give a key, in words; empty where they do not change it.
[[nodiscard]] std::string changed_value(std::span<const Override> overrides, std::string_view key);

// Returns "micro_batch 4"; policies need no key: "checkpoint_every(period 1)".
[[nodiscard]] std::string change_in_words(std::string_view key, std::string_view title,
                                          const std::string& value);

struct ChangeWords {
  bool whole_keys = false;     // "training.micro_batch 4" rather than "micro_batch 4"
  bool with_name = false;      // the name of a point is a change like any other
  bool bare_hardware = false;  // "a100-sxm-80gb" rather than "hardware a100-sxm-80gb"
};
// Returns what a point changes, in its own order: "micro_batch 4, no policy". Empty where it
// changes nothing.
[[nodiscard]] std::string changes_in_words(std::span<const Override> overrides,
                                           const ChangeWords& words);

}  // namespace tidemark
