// Colours and letters of the roles of memory, in one place, so that every chart and table agrees.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/ir/tensor.hpp"
#include "graph/ir/training_graph.hpp"
#include "plots/drawing/drawing.hpp"
#include "sim/result/role_labels.hpp"

namespace tidemark {

struct RoleStyle {
  std::string_view label;   // label that label_of() returns
  int colour = 0;           // index in the 256-colour palette; the colour-blind can tell them apart
  std::string_view letter;  // used for output without colour
};

[[nodiscard]] const RoleStyle& style_of(Role role);
// Returns styles of what the device holds besides tensors.
[[nodiscard]] const RoleStyle& context_style();  // CUDA context
[[nodiscard]] const RoleStyle& cached_style();   // reserved by the allocator, not in use

// The ink of an area in a picture. Neighbours in the stack differ in lightness or in hatching, for
// readers without colour.
struct AreaInk {
  std::uint32_t rgb = 0;
  Hatch hatch = Hatch::kNone;
};
[[nodiscard]] AreaInk ink_of(Role role);
inline constexpr AreaInk kContextInk{0x9a9a9a, Hatch::kVertical};

// Short names of the phases, where there is little room.
inline constexpr std::string_view kShortPhases[kPhases] = {"fwd", "bwd", "opt"};

// Adds ANSI escapes; returns `text` itself when `colour` is false.
[[nodiscard]] std::string paint(std::string_view text, int foreground, bool colour);
[[nodiscard]] std::string bold(std::string_view text, bool colour);
[[nodiscard]] std::string dim(std::string_view text, bool colour);

inline constexpr int kGood = 71;   // green
inline constexpr int kBad = 167;   // red
inline constexpr int kNote = 179;  // amber

}  // namespace tidemark
