// Writes the pictures of a run: timeline.svg and addresses.svg, and of several points timelines.svg
// and pareto.svg, each next to the same as PDF and to a CSV of what it shows. `reproduce` is the
// line below each picture that says how to make it again.
#pragma once

#include <span>
#include <string>

#include "cli/output/output_folder.hpp"
#include "plots/memory_figure.hpp"
#include "scenarios/studies/detailed_point.hpp"

namespace tidemark {

// Writes STEM.svg and STEM.pdf.
void add_chart(OutputFolder& output, const std::string& stem, const SvgChart& chart);
// Returns the last step of a point.
[[nodiscard]] MemoryFigure figure_of(const DetailedPoint& point, const std::string& reproduce);
void add_timeline_svg(OutputFolder& output, const std::string& stem, const DetailedPoint& point,
                      const std::string& reproduce);
// Adds addresses.svg: where the allocator put each block. Nothing for those without addresses.
void add_addresses_svg(OutputFolder& output, const std::string& stem, const DetailedPoint& point,
                       const std::string& reproduce);
// Adds the picture of a pipeline's stages and its numbers; nothing without a pipeline.
void add_pipeline_svg(OutputFolder& output, const std::string& stem, const DetailedPoint& point);

// Names a point among several by what it changes, else by its scenario.
[[nodiscard]] std::string point_label(const PointResult& point, std::size_t number);
// timelines.svg shows several runs over each other. At most this many stay legible.
inline constexpr std::size_t kOverlaid = 12;
void add_overlaid_svg(OutputFolder& output, const std::vector<NamedFigure>& runs);
// Adds pareto.svg: peak against time. Nothing for fewer than two points that could be built.
// `setting` is what the points have in common, below the title.
void add_pareto_svg(OutputFolder& output, std::span<const PointResult> points,
                    const std::string& setting, const std::string& reproduce);

}  // namespace tidemark
