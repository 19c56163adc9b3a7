// Writes the files of a run: results.json, results.csv, timeline.csv, pictures, traces, snapshots.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/output/formats.hpp"
#include "cli/output/swept_plot.hpp"
#include "scenarios/results/peak_terms.hpp"
#include "scenarios/studies/simulate_point.hpp"
#include "scenarios/studies/simulate_points.hpp"

namespace tidemark {

// The files that a run writes, and their folder.
struct ReportFiles {
  std::string folder;  // folder; empty: none
  // Names of report_formats().
  std::vector<std::string> formats{"json", "csv"};
  bool listed = false;             // whether the scenario lists them
  std::vector<PlotRequest> plots;  // pictures of figures over swept keys
  std::string reproduce;           // the line that says how to make the pictures again; empty: none
  std::string point_command;       // runs one of several points, see ScenarioInput; empty: unknown

  [[nodiscard]] bool wants(std::string_view format) const;
  // Returns the wanted formats that have files about each run, the only one or one of several.
  [[nodiscard]] std::vector<const ReportFormat*> of_runs(bool several) const;
};
// Returns json, csv and, where it can be made, the page.
[[nodiscard]] ReportFiles default_report_files(std::string folder, std::string reproduce);
// Chooses the folder, -o before the document's report.dir, and the formats. Throws UserError.
[[nodiscard]] ReportFiles report_files(const Value& document, const std::string& output_option,
                                       const Environment& environment, std::string reproduce);

// Reads the requests of --plot, see parse_plot(). Throws UserError where there is no folder, too.
[[nodiscard]] std::vector<PlotRequest> parse_plots(const std::vector<std::string>& texts,
                                                   std::span<const Value> documents,
                                                   const std::string& folder,
                                                   const std::string& fitted = {});

// Adds the pictures and says which cannot be drawn.
void add_plots(OutputFolder& output, std::span<const PlotRequest> plots,
               std::span<const PointResult> points, const std::string& reproduce);

// Writes all files or none, and says which; nothing when there is no folder. Files that an earlier
// report has left in the folder, and that this one does not write, are removed. Throws UserError.
// `assumed` is what the point hangs on, for results.json; null: it was not examined.
void write_report(const ReportFiles& files, const DetailedPoint& point,
                  const AssumedReport* assumed = nullptr);

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
  // Writes all files as write_report() does.
  void write(std::span<const PointResult> points);

 private:
  struct Collected;

  ReportFiles files_;
  std::unique_ptr<Collected> collected_;
};

// Names the files that were written, on stderr.
void say_written(const OutputFolder& output);

// Throws UserError when `folder` is given and cannot be written; leaves no files behind.
void check_writable(const std::string& folder);

// The same for a command that is no sweep. Throws UserError where another process runs a sweep in
// the folder, too.
void check_free(const std::string& folder);

// Returns the exit code of a command that has simulated `points`: 2 where one could not be built,
// else 0 where one fits, else 1.
[[nodiscard]] int exit_code(std::span<const PointResult> points);

}  // namespace tidemark
