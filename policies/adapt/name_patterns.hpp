// Patterns that choose parameters by their names: keys `layers` and `except` of policies.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/core/decoder.hpp"
#include "graph/ir/graph.hpp"

namespace tidemark {

// A pattern is one of fnmatch(3) in which * crosses dots; the name of a module covers everything
// below it: "h.*.attn" matches h.0.attn.c_attn.weight. `except` wins.
struct NamePatterns {
  std::vector<std::string> layers;
  std::vector<std::string> except;

  [[nodiscard]] bool matches(std::string_view name) const;
};

// Reads `layers` and `except` of a policy; all layers when none are given.
[[nodiscard]] NamePatterns decode_patterns(const Decoder& parameters);

// Returns the parameters whose names match. Throws UserError for a pattern that matches nothing,
// naming the module or parameter that is written most alike; `policy` is for the message.
[[nodiscard]] std::vector<ParameterId> matching_parameters(const Graph& graph,
                                                           const NamePatterns& patterns,
                                                           std::string_view policy);

// Whether one pattern matches a name, as above.
[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view name);

}  // namespace tidemark
