// Colours and letters of the roles of memory: one place, so that every chart and table agrees.
#pragma once

#include <string>
#include <string_view>

#include "graph/ir/tensor.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/result/role_labels.hpp"

namespace tidemark {

struct RoleStyle {
  std::string_view label;   // as label_of() says it
  int colour = 0;           // of the 256-colour palette; told apart also by the colour-blind
  std::string_view letter;  // for output without colour
};

[[nodiscard]] const RoleStyle& style_of(Role role);
// Styles of what the device holds besides tensors.
[[nodiscard]] const RoleStyle& context_style();  // CUDA context
[[nodiscard]] const RoleStyle& cached_style();   // reserved by the allocator, not in use

// Names of the phases where there is little room.
inline constexpr std::string_view kShortPhases[kPhases] = {"fwd", "bwd", "opt"};

// ANSI escapes; `text` itself when `colour` is false.
[[nodiscard]] std::string paint(std::string_view text, int foreground, bool colour);
[[nodiscard]] std::string bold(std::string_view text, bool colour);
[[nodiscard]] std::string dim(std::string_view text, bool colour);

inline constexpr int kGood = 71;   // green
inline constexpr int kBad = 167;   // red
inline constexpr int kNote = 179;  // amber

}  // namespace tidemark
