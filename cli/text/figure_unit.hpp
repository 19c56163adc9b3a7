// The units of figures of the result document and of devices.
#pragma once

#include <cstdint>
#include <string_view>

#include "scenarios/read/expression.hpp"

namespace tidemark {

enum class FigureUnit : std::uint8_t { kNone, kBytes, kSeconds };

// Returns the unit of a figure by its name, as "time.step".
[[nodiscard]] FigureUnit unit_of(std::string_view figure);
// Returns the unit of an expression, or of a difference of its sides: that of its figures, if it
// has one on each side and only numbers beside them.
[[nodiscard]] FigureUnit unit_of(const Expression& expression);

}  // namespace tidemark
