// The files of a run: results.json, results.csv, timeline.csv, torch_snapshot.pickle.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "scenarios/simulate.hpp"

namespace tidemark {

// A point on its own, with what its charts need.
struct DetailedPoint {
  Value document;  // with what the point changes
  Scenario scenario;
  PointResult result;
  PointDetail detail;
};
// Simulates the only point of a document, or point `index` of its sweep. Throws UserError.
[[nodiscard]] DetailedPoint simulate_in_detail(const Value& document, std::size_t index,
                                               const Environment& environment,
                                               const SimulateOptions& options);

// Which files a run writes, and where.
struct ReportFiles {
  std::string folder;  // empty: none
  bool json = true;    // results.json
  bool csv = true;     // results.csv
  // timeline.csv of a single point; of several, timeline-1.csv ... only where the scenario lists
  // csv among its formats, since each point is simulated once more for it.
  bool timelines = false;
  // torch_snapshot.pickle of a single point; of several, torch_snapshot-1.pickle ... Only where the
  // scenario lists it.
  bool torch_snapshots = false;
  // report.html: all points on one page. Where the scenario lists it, and with a folder and no
  // formats wherever it can be made.
  bool html = false;
};
// Of a document: -o, else its report.dir, else none. Throws UserError.
[[nodiscard]] ReportFiles report_files(const Value& document, const std::string& output_option,
                                       const Environment& environment);

// All files or none; nothing when there is no folder. Throws UserError.
void write_report(const ReportFiles& files, const DetailedPoint& point);
// `documents` are those whose points these are, in order.
void write_report(const ReportFiles& files, std::span<const PointResult> points,
                  std::span<const Value> documents, const Environment& environment);

// Throws UserError when `folder` is given and cannot be written; leaves nothing behind.
void check_writable(const std::string& folder);

[[nodiscard]] int exit_code(std::span<const PointResult> points);

}  // namespace tidemark
