// The key `budget` of policies.
#pragma once

#include <optional>

#include "graph/core/decoder.hpp"
#include "graph/core/units.hpp"

namespace tidemark {

// Decodes `budget`, a number of live bytes; none where it is not given. A share of the peak without
// policies is refused: only a study that simulates the step without them knows that peak, so the
// error names `compare`. Throws UserError.
[[nodiscard]] std::optional<Bytes> decode_budget(const Decoder& parameters, Range range);

}  // namespace tidemark
