// Copies between tiers in words, for people and for scripts.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/text/wording.hpp"

namespace tidemark {

// Returns "offload hides 93 % of its copies; the rest costs 4.1 ms; host RAM 61.0 GiB"; empty when
// nothing has moved.
[[nodiscard]] std::string transfer_verdict(const PointResult& point);

// Returns the time lost to each link, and to the `top` tensors with the largest stalls. `width` is
// the terminal's; 0 where there is none.
[[nodiscard]] std::string explain_transfers(const PointResult& point, const PointDetail& detail,
                                            std::size_t top, bool colour, std::size_t width);

// Returns the time lost to each link and to every tensor that moved, for `explain --json`.
[[nodiscard]] nlohmann::ordered_json transfers_json(const PointResult& point,
                                                    const PointDetail& detail);

}  // namespace tidemark
