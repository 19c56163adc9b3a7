// The key `published`, which says what a source reports for a scenario: texts, which are shown as
// they are, and figures of its points, which `tidemark validate` holds against ours:
//
//   published:
//     - "a text"
//     - {source: "README of torchtune", figure: memory.peak_active, values: [60.0GiB, 51.0GiB, ~]}
//
// A figure is a sum of figures, as in a goal; `values` has one for each point, in the order of the
// points, and ~ for a point that the source says nothing of. `value` is that of a single point.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "graph/core/value.hpp"
#include "hwprofiles/figures.hpp"
#include "scenarios/read/expression.hpp"

namespace tidemark {

struct PublishedFigure {
  Location location;
  std::string source;
  Expression figure;
  std::vector<std::optional<double>> values;  // by point: bytes, seconds, or a number
};

// Decodes the figures of a scenario's `published`; `device` has the figures of its device. Throws
// UserError: no source, names that no figure has, values of another unit.
[[nodiscard]] std::vector<PublishedFigure> decode_published(const Value& scenario,
                                                            const std::vector<Figure>& device);

// Throws UserError if `published` is no list of texts and mappings. What they say is of all points
// together, and decoded once.
void require_published_list(const Value& scenario);

// Whether `published` has figures.
[[nodiscard]] bool has_published_figures(const Value& scenario);

// Throws UserError if a figure has not one value for each of so many points.
void check_published(const std::vector<PublishedFigure>& figures, std::size_t points);

// Returns what `published` says, a line for each entry.
[[nodiscard]] std::vector<std::string> published_lines(const Value& scenario);

}  // namespace tidemark
