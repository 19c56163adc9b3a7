// The units of figures of the result document and of devices.
#pragma once

#include <cstdint>
#include <string_view>

namespace tidemark {

enum class FigureUnit : std::uint8_t {
  kNone,    // a count, a share, a rate, or not known
  kNumber,  // a number that was written without a unit
  kBytes,
  kSeconds
};

// Returns the unit of a figure by its name, as "time.step".
[[nodiscard]] FigureUnit unit_of(std::string_view figure);

}  // namespace tidemark
