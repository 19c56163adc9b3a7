// The goal of a search: a figure to minimise or maximise, or several, and constraints on others.
//
//   goal: {minimize: time.step, subject_to: ["memory.device_used <= 0.95 * hardware.hbm.capacity"]}
//   goal: {minimize: [time.per_token, memory.device_used]}
//
// They are expressions (expression.hpp) over these figures:
//   memory.peak_live, time.step ...   those of a point in the result document
//   policies.NAME.gap                 of the listed policy of that name
//   ranks.0.memory.peak_live          of the first stage of a pipeline
//   hardware.hbm.capacity ...         those of the device's profile, with the scenario's overrides
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "graph/core/decoder.hpp"
#include "hwprofiles/figures.hpp"
#include "scenarios/read/expression.hpp"

namespace tidemark {

// Whether an entry of the result document has a figure of that name, even if it is null.
[[nodiscard]] bool has_figure(const nlohmann::ordered_json& entry, std::string_view name);
// Returns the look-up in an entry of the result document, and in a device. It gives not-a-number
// for figures that are null or were not looked for, and for `policies.` and `ranks.` of a point
// that does not have that policy.
[[nodiscard]] FigureLookup figures_of(const nlohmann::ordered_json& entry,
                                      const std::vector<Figure>& device);
// Returns the look-up of a point that `fits` or not. A step that does not run to its end has no
// throughput, cost and utilization: where the document says 0, they are not a number.
[[nodiscard]] FigureLookup known_figures(FigureLookup figures, bool fits);

// Returns the figures that every point has, with those of the device: what a goal may name.
[[nodiscard]] std::vector<std::string> figure_names(const std::vector<Figure>& device);

// Decodes a sum of figures, `path` is where it is. Throws UserError: it cannot be read, or names
// what no figure is.
[[nodiscard]] Expression decode_figures(const Value& value, const std::string& path,
                                        const std::vector<Figure>& device);

struct Goal {
  bool maximize = true;  // every objective, or minimise every one
  std::vector<Expression> objectives{Expression("throughput.samples_per_second", false)};
  std::vector<Expression> subject_to;
};

// Decodes a scenario's `goal`; without one it is the fastest: the most samples per second. Throws
// UserError: neither or both of minimize and maximize, expressions that cannot be read, names that
// no figure has, a list without any.
[[nodiscard]] Goal decode_goal(const Value& scenario, const std::vector<Figure>& device);

}  // namespace tidemark
