// The formats of reports: what `report.formats` lists.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/output/output_folder.hpp"
#include "scenarios/results/time_terms.hpp"
#include "scenarios/studies/assumed_influence.hpp"
#include "scenarios/studies/detailed_point.hpp"

namespace tidemark {

// The names and signatures of the files about one run.
struct RunFiles {
  std::string suffix;     // "-2" for the second of several points
  std::string reproduce;  // says how to make them again; empty: unknown
};

struct ReportFormat {
  std::string_view name;
  // Adds the files about one run. Null: none.
  void (*add_run)(OutputFolder& output, const RunFiles& files,
                  const DetailedPoint& point) = nullptr;
  // Whether each of several runs has such files only where the scenario lists the format.
  bool runs_only_if_listed = false;
  // Adds the files for which the figures of all points suffice. Null: none.
  void (*add_points)(OutputFolder& output, std::span<const PointResult> points) = nullptr;
};

// Returns all formats in the order in which their files are written. The page of html and the
// pictures of several points in svg need what PointsReport collects.
[[nodiscard]] std::span<const ReportFormat> report_formats();

using TextSink = std::function<void(std::string_view)>;

// Writes the result document as it is printed, with the figures that a paper reports and, of a
// single point, `assumed`: the figures of its device that it hangs on, and `terms`: its time by
// operator and layer; null for none. Entries are made and written one by one: those of ten thousand
// points take some hundred megabytes.
void write_document(const TextSink& write, std::span<const PointResult> points,
                    const std::vector<std::string>& published,
                    const AssumedReport* assumed = nullptr, const TimeTerms* terms = nullptr);

}  // namespace tidemark
