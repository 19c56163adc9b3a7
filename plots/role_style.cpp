#include "plots/role_style.hpp"

#include <array>

#include <fmt/format.h>

namespace tidemark {

const RoleStyle& style_of(Role role) {
  // Styles by Role. Hues after Okabe and Ito's palette for colour-blind readers.
  static constexpr std::array<RoleStyle, kRoles> kStyles{{
      {.label = label_of(Role::kParameter), .colour = 25, .letter = "█"},
      {.label = label_of(Role::kGradient), .colour = 74, .letter = "▒"},
      {.label = label_of(Role::kOptimizerState), .colour = 67, .letter = "▓"},
      {.label = label_of(Role::kBuffer), .colour = 145, .letter = "b"},
      {.label = label_of(Role::kInput), .colour = 109, .letter = "i"},
      {.label = label_of(Role::kSavedActivation), .colour = 172, .letter = "░"},
      {.label = label_of(Role::kActivationGradient), .colour = 185, .letter = "+"},
      {.label = label_of(Role::kTemporary), .colour = 71, .letter = "t"},
      {.label = label_of(Role::kGradientBucket), .colour = 110, .letter = "g"},
      {.label = label_of(Role::kGatheredParameter), .colour = 31, .letter = "p"},
      {.label = label_of(Role::kCommunication), .colour = 168, .letter = "c"},
      {.label = label_of(Role::kFrozenParameter), .colour = 66, .letter = "f"},
      {.label = label_of(Role::kQuantisedParameter), .colour = 24, .letter = "q"},
      {.label = label_of(Role::kAdapter), .colour = 166, .letter = "a"},
      {.label = label_of(Role::kTeacher), .colour = 102, .letter = "T"},
      {.label = label_of(Role::kLoader), .colour = 73, .letter = "l"},
      {.label = label_of(Role::kKeyValueCache), .colour = 136, .letter = "k"},
      {.label = label_of(Role::kWorkspace), .colour = 99, .letter = "w"},
  }};
  return kStyles[static_cast<std::size_t>(role)];
}

const RoleStyle& context_style() {
  static constexpr RoleStyle kStyle{.label = "CUDA context", .colour = 240, .letter = "▪"};
  return kStyle;
}

const RoleStyle& cached_style() {
  static constexpr RoleStyle kStyle{.label = "reserved, unused", .colour = 237, .letter = "·"};
  return kStyle;
}

AreaInk ink_of(Role role) {
  static constexpr std::array<AreaInk, kRoles> kInks{{
      {0x1f4e79, Hatch::kNone},        // parameters
      {0xc2dcef, Hatch::kNone},        // gradients
      {0x7aa6cc, Hatch::kRising},      // optimizer state
      {0x8d8d8d, Hatch::kDots},        // buffers
      {0x5f948d, Hatch::kCross},       // inputs
      {0xe0933a, Hatch::kNone},        // saved activations
      {0xf7e3a1, Hatch::kFalling},     // activation gradients
      {0x2f6b36, Hatch::kNone},        // temporaries
      {0x4f8fc0, Hatch::kCross},       // gradient buckets
      {0x3d79b0, Hatch::kDots},        // gathered parameters
      {0xc2567f, Hatch::kRising},      // communication buffers
      {0x4a6b7c, Hatch::kRising},      // frozen parameters
      {0x2b5d73, Hatch::kCross},       // quantised parameters
      {0xd35f2d, Hatch::kDots},        // adapters
      {0x6f7f6a, Hatch::kHorizontal},  // teacher
      {0x86b5ad, Hatch::kDots},        // loader
      {0xb5892e, Hatch::kCross},       // key-value cache
      {0xb98ab8, Hatch::kHorizontal},  // workspace
  }};
  return kInks[static_cast<std::size_t>(role)];
}

std::string paint(std::string_view text, int foreground, bool colour) {
  return colour ? fmt::format("\x1b[38;5;{}m{}\x1b[0m", foreground, text) : std::string(text);
}

std::string bold(std::string_view text, bool colour) {
  return colour ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

std::string dim(std::string_view text, bool colour) {
  return colour ? fmt::format("\x1b[2m{}\x1b[0m", text) : std::string(text);
}

}  // namespace tidemark
