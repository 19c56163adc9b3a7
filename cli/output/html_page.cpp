#include "cli/output/html_page.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/text/compare_table.hpp"
#include "cli/text/override_words.hpp"
#include "cli/text/point_summary.hpp"
#include "cli/text/wording.hpp"
#include "graph/core/piped_files.hpp"
#include "plots/report/run_columns.hpp"
#include "plots/role_style.hpp"
#include "scenarios/results/compared_time.hpp"
#include "scenarios/results/document_json.hpp"
#include "scenarios/results/result_document.hpp"
#include "scenarios/studies/compare_document.hpp"
#include "sim/allocators/address_layout.hpp"
#include "sim/step/run_compiled.hpp"

namespace tidemark {
namespace html_page_detail {
namespace {

using Json = nlohmann::ordered_json;

// Returns the strokes of each hatching, [x0, y0, x1, y1] in a square of kHatchSide pixels.
Json hatches() {
  Json list = Json::array();
  for (int h = 0; h <= static_cast<int>(Hatch::kDots); ++h) {
    Json strokes = Json::array();
    for (const HatchStroke& s : strokes_of(static_cast<Hatch>(h)))
      strokes.push_back({s.x0, s.y0, s.x1, s.y1});
    list.push_back(std::move(strokes));
  }
  return list;
}

Json roles() {
  Json list = Json::array();
  for (int r = 0; r < kRoles; ++r) {
    const AreaInk ink = ink_of(static_cast<Role>(r));
    list.push_back({{"name", name_of(static_cast<Role>(r))},
                    {"label", style_of(static_cast<Role>(r)).label},
                    {"colour", fmt::format("#{:06x}", ink.rgb)},
                    {"hatch", static_cast<int>(ink.hatch)}});
  }
  return list;
}

Json stack_order() {
  Json list = Json::array();
  for (const Role role : kStackOrder)
    list.push_back(static_cast<int>(role));
  return list;
}

// Names a point by what distinguishes it: "micro_batch 4, no policy", behind its name where other
// points have other names.
std::string point_words(const PointResult& point, bool named) {
  const std::string changes = changes_in_words(point.overrides, {});
  if (changes.empty()) return point.name;
  return named ? fmt::format("{}: {}", point.name, changes) : changes;
}

bool have_names(std::span<const PointResult> points) {
  return std::any_of(points.begin(), points.end(),
                     [&](const PointResult& point) { return point.name != points.front().name; });
}

// Returns the labels of points; points of equal settings are distinguished by their number.
std::vector<std::string> labels_of(std::span<const PointResult> points) {
  const bool named = have_names(points);
  std::vector<std::string> labels;
  for (const PointResult& point : points)
    labels.push_back(point_words(point, named));
  std::map<std::string, int> uses;
  for (const std::string& label : labels)
    ++uses[label];
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (uses[labels[i]] > 1) labels[i] = fmt::format("{} [{}]", labels[i], i + 1);
  }
  return labels;
}

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

// Returns the scenario with all its defaults.
Json resolved(const Scenario& scenario) {
  const TrainingOptions& t = scenario.training;
  const DeviceProfile& device = scenario.device;
  const bool in_file = !scenario.model.name.empty() && scenario.model.kind != ModelKind::kPreset;
  Json json = {{"model", scenario.model.name.empty() ? std::string("layers of the scenario")
                         : in_file                   ? file_name(scenario.model.name)
                                                     : scenario.model.name},
               {"device", device.description.empty() ? device.name : device.description},
               {"device memory", format_bytes(device.hbm.capacity)},
               {"framework context", format_bytes(device.framework.context)},
               {"data-parallel ranks", scenario.mesh.ranks()},
               {"allocator", scenario.allocator->traits().name}};
  if (scenario.model.kind != ModelKind::kCostGraph) {
    json["precision"] = rules_of(t.precision).name;
    if (t.mode == StepMode::kForward) {
      json["mode"] = t.model.generation ? "generate" : "forward";
    } else {
      json["optimizer"] = name_of(t.optimizer.kind);
    }
    json["accumulate"] = t.accumulate;
  }
  json["steps simulated"] = t.steps;
  json["policies"] = scenario.policy_names.empty()
                         ? std::string("none")
                         : fmt::format("{}", fmt::join(scenario.policy_names, ", "));
  return json;
}

// Writes paths relative to the scenario's file, and of files elsewhere the name alone: a report may
// be passed on, and must not show the author's folders.
void shorten_paths(Value& value) {
  namespace fs = std::filesystem;
  const fs::path path = value.scalar;
  if (value.is_scalar() && path.is_absolute() && !is_open_file_of_process(path)) {
    std::error_code error;
    const fs::path folder = fs::absolute(folder_of_file(value.location.file) / ".", error);
    const fs::path beside = path.lexically_relative(folder.lexically_normal());
    const bool inside = !error && !beside.empty() && *beside.begin() != "..";
    value.scalar = (inside ? beside : path.filename()).string();
  }
  for (Value::Entry& entry : value.entries)
    shorten_paths(entry.value);
}

// Returns {"class", "points": [[budget, overhead], ...]}, or null.
Json least_of(const Comparison& comparison) {
  const LeastOverheads least = least_overheads(comparison);
  if (least.by_budget.empty()) return nullptr;
  Json points = Json::array();
  for (const auto& [budget, overhead] : least.by_budget)
    points.push_back({budget.count, overhead});
  return {{"class", least.schedule_class}, {"points", std::move(points)}};
}

// Returns what the page compares points by, without what it only says of single ones.
Json compared_figures(const Json& entry) {
  static const std::map<std::string, std::vector<std::string>> compared{
      {"name", {}},
      {"label", {}},
      {"status", {}},
      {"overrides", {}},
      {"settings", {}},
      {"charts", {}},
      {"memory", {"capacity", "device_needed", "peak_live"}},
      {"time", {"step", "compared"}},
      {"throughput", {"samples_per_second", "tokens_per_second"}},
      {"failure", {"message"}}};
  Json kept = Json::object();
  for (const auto& [key, inner] : compared) {
    const auto found = entry.find(key);
    if (found == entry.end()) continue;
    if (inner.empty() || !found->is_object()) {
      kept[key] = *found;
      continue;
    }
    for (const std::string& name : inner) {
      if (found->contains(name)) kept[key][name] = (*found)[name];
    }
  }
  return kept;
}

std::vector<PointResult> results_of(const Comparison& comparison) {
  std::vector<PointResult> results;
  for (const ComparePoint& point : comparison.points)
    results.push_back(point.result);
  return results;
}

}  // namespace
}  // namespace html_page_detail

HtmlPage::HtmlPage(std::span<const PointResult> points, const std::string& reproduce,
                   const std::string& point_command)
    : HtmlPage(points, reproduce, point_command, points.size() <= kWholePoints) {}

HtmlPage::HtmlPage(std::span<const PointResult> points, const std::string& reproduce,
                   const std::string& point_command, bool whole)
    : report_({.title = title_of(points), .runs = std::vector<std::string>(points.size())}),
      summary_(std::make_unique<html_page_detail::Json>(result_document({}))),
      points_(points),
      labels_(html_page_detail::labels_of(points)),
      unit_(compared_unit(points)),
      whole_(whole) {
  html_page_detail::Json& summary = *summary_;
  summary["title"] = report_.title;
  summary["reproduce"] = reproduce;
  summary["point_command"] = point_command;
  summary["roles"] = html_page_detail::roles();
  summary["stack_order"] = html_page_detail::stack_order();
  summary["context_colour"] = fmt::format("#{:06x}", kContextInk.rgb);
  summary["context_hatch"] = static_cast<int>(kContextInk.hatch);
  summary["hatches"] = html_page_detail::hatches();
  summary["time_of"] = name_of(unit_);
  html_page_detail::Json& entries = summary["points"];
  for (std::size_t i = 0; i < points.size(); ++i) {
    html_page_detail::Json entry = entry_of(i);
    entries.push_back(whole ? std::move(entry) : html_page_detail::compared_figures(entry));
  }
}

nlohmann::ordered_json HtmlPage::entry_of(std::size_t index) const {
  const PointResult& point = points_[index];
  html_page_detail::Json entry = result_entry(point);
  entry["label"] = labels_[index];
  html_page_detail::Json& settings = entry["settings"] = html_page_detail::Json::object();
  for (const auto& [key, value] : point.overrides)
    settings[key] = short_setting(value);
  entry["charts"] = false;
  if (point.status == PointStatus::kError) return entry;
  entry["memory"]["context"] = point.context.count;
  entry["memory"]["device_needed"] = point.device_needed().count;
  const std::optional<double> seconds = seconds_per(unit_, point);
  entry["time"]["compared"] =
      seconds ? html_page_detail::Json(*seconds) : html_page_detail::Json(nullptr);
  return entry;
}

HtmlPage::HtmlPage(const Comparison& comparison, std::span<const PointCharts> charts,
                   const std::string& reproduce)
    : HtmlPage(html_page_detail::results_of(comparison), reproduce, {}, true) {
  points_ = {};
  report_.title = comparison.name;
  html_page_detail::Json& summary = *summary_;
  const html_page_detail::Json document = compare_document(comparison);
  summary["title"] = report_.title;
  summary["compare"] = {{"base", document["base"]},
                        {"cost_graph", comparison.cost_graph},
                        {"least", html_page_detail::least_of(comparison)}};
  std::map<std::size_t, std::size_t> first;  // first point of each evaluation
  for (std::size_t i = 0; i < comparison.points.size(); ++i) {
    const ComparePoint& point = comparison.points[i];
    html_page_detail::Json& entry = summary["points"][i];
    html_page_detail::Json& compared = entry["compare"] = document["points"][i]["compare"];
    compared["policies"] = policies_label(point);
    compared["reason"] = reason_of(point);
    compared["same_run_as"] = first.try_emplace(point.evaluation, i).first->second;
    entry["label"] = run_label(comparison, point);
  }
  std::size_t charted = 0;
  for (const bool best : {true, false}) {
    for (const auto& [evaluation, index] : first) {
      const bool known = evaluation < charts.size() && !charts[evaluation].columns.empty();
      if (!known || comparison.points[index].best != best || charted == kChartedPoints) continue;
      add_charts(index, charts[evaluation]);
      ++charted;
    }
  }
}

void HtmlPage::add_charts(std::size_t index, PointCharts charts) {
  report_.runs.at(index) = std::move(charts.columns);
  html_page_detail::Json& entry = (*summary_)["points"][index];
  if (!whole_) entry = entry_of(index);
  entry["charts"] = true;
  entry.update(html_page_detail::Json::parse(charts.facts));
}

void HtmlPage::write(std::ostream& out) {
  report_.summary =
      summary_->dump(-1, ' ', false, html_page_detail::Json::error_handler_t::replace);
  write_html_report(out, report_);
}

HtmlPage::~HtmlPage() = default;

PointCharts charts_of(const DetailedPoint& point) {
  PointCharts charts;
  const PointDetail& detail = point.detail;
  const Compiled& compiled = detail.compiled;
  const bool fits = point.result.status == PointStatus::kFits;
  ReportedRun run{.graph = detail.model->training,
                  .order = compiled.order,
                  .program = compiled.program,
                  .costs = compiled.costs,
                  .scratch = detail.scratch,
                  .timeline = detail.timeline};
  // A point that does not fit is drawn as it would be with unlimited memory, and so are its
  // addresses.
  const AddressLayout layout = address_layout(point.scenario, compiled, detail.timeline, fits);
  run.layout = &layout;
  charts.columns = run_columns(run);

  html_page_detail::Json entry;
  entry["setting"] = setting_line(point.result, point.scenario, *detail.model);
  if (const std::string& name = detail.model->training.name; name.find('/') != std::string::npos) {
    entry["setting"] =
        html_page_detail::file_name(name) + entry["setting"].get<std::string>().substr(name.size());
  }
  entry["resolved"] = html_page_detail::resolved(point.scenario);
  Value document = without_sweep(point.document);
  for (Value::Entry& key : document.entries) {
    if (key.key == "model" || key.key == "hardware" || key.key == "report") {
      html_page_detail::shorten_paths(key.value);
    }
  }
  entry["document"] = to_json(document);
  const std::uint32_t failed = point.result.run.failed_instruction;
  entry["failed_position"] = failed < compiled.program.size()
                                 ? html_page_detail::Json(static_cast<std::int64_t>(
                                       compiled.program.position[failed].value))
                                 : html_page_detail::Json(nullptr);
  charts.facts = entry.dump(-1, ' ', false, html_page_detail::Json::error_handler_t::replace);
  return charts;
}

}  // namespace tidemark
