// Writes the files of a run: results.json, results.csv, timeline.csv, pictures, traces, snapshots.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "scenarios/results/peak_terms.hpp"
#include "scenarios/studies/simulate_point.hpp"
#include "scenarios/studies/simulate_points.hpp"

namespace tidemark {

// The files that a run writes, and their folder.
struct ReportFiles {
  std::string folder;  // folder; empty: none
  bool json = true;    // results.json
  bool csv = true;     // results.csv
  // timeline.csv for a single point; for several, timeline-1.csv ... only where the scenario lists
  // csv among its formats.
  bool timelines = false;
  // torch_snapshot.pickle for a single point; for several, torch_snapshot-1.pickle ... Only where
  // the scenario lists it.
  bool torch_snapshots = false;
  // timeline.svg for a single point; for several, timeline-1.svg ..., timelines.svg and pareto.svg.
  bool svg = false;
  // trace.json and trace.perfetto-trace; for several points trace-1.json ...
  bool chrome_traces = false;
  bool perfetto_traces = false;
  // report.html: all points on one page. Written where the scenario lists it, and with a folder and
  // no formats wherever it can be made.
  bool html = false;
  // Whether any file other than the page needs each point in detail.
  [[nodiscard]] bool any_detail() const {
    return timelines || torch_snapshots || svg || chrome_traces || perfetto_traces;
  }
};
// Chooses the folder, -o before the document's report.dir, and the formats. Throws UserError.
[[nodiscard]] ReportFiles report_files(const Value& document, const std::string& output_option,
                                       const Environment& environment);

// Writes all files or none; nothing when there is no folder. Throws UserError.
void write_report(const ReportFiles& files, const DetailedPoint& point);

// Writes the files of several points. Files about one point are written while its run is in memory:
// no point is simulated again for a chart.
class PointsReport {
 public:
  explicit PointsReport(ReportFiles files);
  ~PointsReport();
  PointsReport(PointsReport&&) noexcept;
  PointsReport& operator=(PointsReport&&) noexcept;

  [[nodiscard]] const ReportFiles& files() const { return files_; }
  // Whether add() is of any use.
  [[nodiscard]] bool wants_detail() const;
  // Takes what the files need of point `index`; from any thread. Throws UserError.
  void add(std::size_t index, const SimulatedPoint& point);
  // Returns points that the page would chart and that were not added, as they came from an earlier
  // run.
  [[nodiscard]] std::vector<std::size_t> without_charts(std::span<const PointResult> points) const;
  // Writes all files or none; nothing when there is no folder. Throws UserError.
  void write(std::span<const PointResult> points);

 private:
  struct Collected;

  ReportFiles files_;
  std::unique_ptr<Collected> collected_;
};

// Returns the result document as it is printed, with the figures that a paper reports.
[[nodiscard]] std::string document_text(std::span<const PointResult> points,
                                        const std::vector<std::string>& published);

// Throws UserError when `folder` is given and cannot be written; leaves no files behind.
void check_writable(const std::string& folder);

[[nodiscard]] int exit_code(std::span<const PointResult> points);

}  // namespace tidemark
