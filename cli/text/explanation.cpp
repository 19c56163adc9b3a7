#include "cli/text/explanation.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/text/peak_groups.hpp"
#include "cli/text/point_summary.hpp"
#include "cli/text/term_settings_text.hpp"
#include "cli/text/time_report.hpp"
#include "cli/text/transfer_report.hpp"
#include "cli/text/wording.hpp"
#include "graph/core/printable.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "scenarios/results/peak_terms.hpp"
#include "scenarios/results/result_document.hpp"
#include "scenarios/studies/term_settings.hpp"

namespace tidemark {
namespace explanation_detail {
namespace {

constexpr std::size_t kTermBarWidth = 24;
// Columns with these numbers are left out on narrow terminals, the highest first.
constexpr int kSpareBar = 3;
constexpr int kSpareOperator = 2;
constexpr int kSpareBytes = 1;  // the column of GiB gives nearly the same

class Explanation {
 public:
  Explanation(const DetailedPoint& point, const ExplanationView& view)
      : detailed_(point),
        point_(point.result),
        detail_(point.detail),
        scenario_(point.scenario),
        top_(view.top),
        all_(view.all),
        colour_(view.colour),
        width_(view.width),
        more_gpus_(view.more_gpus),
        total_(sum_of(point_.peak.by_role)) {}

  [[nodiscard]] std::string text() const {
    return heading() + roles() + explain_settings(detailed_, colour_, width_) + more_gpus() +
           layers() + tensors() + saved() + phases() +
           explain_transfers(point_, detail_, all_ ? static_cast<std::size_t>(-1) : top_, colour_,
                             width_) +
           time_tables(time_terms(point_, detail_),
                       {.top = top_, .all = all_, .colour = colour_, .width = width_}) +
           device();
  }

 private:
  [[nodiscard]] std::string title(const std::string& words) const {
    return '\n' + bold(words, colour_) + '\n';
  }
  // Returns a table of terms that ends with their sum.
  [[nodiscard]] std::string sum_table(const Terms& terms, const std::vector<int>& colours) const;
  [[nodiscard]] std::string heading() const;
  [[nodiscard]] std::string roles() const;
  [[nodiscard]] std::string more_gpus() const {
    return more_gpus_ ? explain_more_gpus(*more_gpus_, total_, colour_, width_) : std::string();
  }
  [[nodiscard]] std::string layers() const;
  [[nodiscard]] std::string tensors() const;
  [[nodiscard]] std::string saved() const;
  [[nodiscard]] std::string phases() const;
  [[nodiscard]] std::string device() const;
  [[nodiscard]] std::string reserved_terms() const;

  const DetailedPoint& detailed_;
  const PointResult& point_;
  const PointDetail& detail_;
  const Scenario& scenario_;
  std::size_t top_;
  bool all_;
  bool colour_;
  std::size_t width_;
  const std::optional<MoreGpus>& more_gpus_;
  Bytes total_;  // bytes at the peak
};

std::string Explanation::sum_table(const Terms& terms, const std::vector<int>& colours) const {
  const BytesColumn unit(total_);
  Table table({{""},
               {"bytes", Align::kRight},
               {"", Align::kRight},
               {"", Align::kRight},
               {"", Align::kLeft, kSpareBar}},
              kIndent);
  Bytes sum;
  Bytes largest(1);
  for (const auto& [name, bytes] : terms) {
    sum += bytes;
    largest = std::max(largest, bytes);
  }
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const auto& [name, bytes] = terms[i];
    table.add_row(
        {{name},
         {grouped(bytes.count)},
         {unit.text(bytes)},
         {share_of(bytes, sum)},
         {bar(static_cast<double>(bytes.count) / static_cast<double>(largest.count), kTermBarWidth),
          i < colours.size() ? colours[i] : 245}});
  }
  table.add_row({{"sum", -1, true}, {grouped(sum.count), -1, true}, {unit.text(sum), -1, true}});
  return table.text(colour_, width_);
}

std::string Explanation::heading() const {
  const bool fits = point_.status == PointStatus::kFits;
  std::string text = fmt::format(
      "{}: {}\n", bold(printable(point_.name), colour_),
      bold(paint(fits ? "fits" : "does not fit", fits ? kGood : kBad, colour_), colour_));
  const std::string setting = setting_line(point_, scenario_, *detail_.model);
  for (const std::string& words : wrap(setting, width_ > 2 ? width_ - 2 : setting.size()))
    text += "  " + dim(words, colour_) + '\n';
  text +=
      fmt::format("\nThe peak: {} live, {} into step {}, {}\n", bold(format_bytes(total_), colour_),
                  format_duration(point_.peak.time), point_.peak.step,
                  place(point_.peak.phase, point_.peak.layer, point_.peak.op));
  if (!fits) text += dim("(as if there were enough memory)\n", colour_);
  return text;
}

std::string Explanation::roles() const {
  Terms terms;
  std::vector<int> colours;
  for (const Role role : kStackOrder) {
    const Bytes bytes = point_.peak.by_role[static_cast<std::size_t>(role)];
    if (bytes == Bytes(0)) continue;
    terms.emplace_back(style_of(role).label, bytes);
    colours.push_back(style_of(role).colour);
  }
  return title("By role") + sum_table(terms, colours);
}

std::string Explanation::layers() const {
  Terms terms = all_ ? point_.peak.by_layer : by_block(point_.peak.by_layer);
  for (auto& [name, bytes] : terms) {
    if (name.empty()) name = "(no layer)";
  }
  if (!all_ && terms.size() > top_ + 1) {
    Bytes rest;
    for (std::size_t i = top_; i < terms.size(); ++i)
      rest += terms[i].second;
    const std::size_t others = terms.size() - top_;
    terms.resize(top_);
    terms.emplace_back(fmt::format("{} others", others), rest);
  }
  return title("By layer") + sum_table(terms, {});
}

std::string Explanation::tensors() const {
  const std::vector<TensorGroup> groups = group_tensors(point_.peak.largest, all_);
  const BytesColumn unit(total_);
  Table table({{"bytes", Align::kRight, kSpareBytes},
               {"", Align::kRight},
               {"", Align::kRight},
               {"role"},
               {"tensor"},
               {"layer"},
               {"made by", Align::kLeft, kSpareOperator}},
              kIndent);
  Bytes rest = total_;
  const std::size_t count = all_ ? groups.size() : std::min(top_, groups.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [tensor, times] = groups[i];
    rest -= groups[i].bytes();
    table.add_row({{grouped(groups[i].bytes().count)},
                   {unit.text(groups[i].bytes())},
                   {times > 1 ? fmt::format("{} x {}", times, format_bytes(tensor.bytes)) : ""},
                   {std::string(style_of(tensor.role).label), style_of(tensor.role).colour},
                   {tensor.tensor},
                   {tensor.layer},
                   {tensor.op.empty() ? "there from the start" : tensor.op}});
  }
  if (rest > Bytes(0))
    table.add_row({{grouped(rest.count)}, {unit.text(rest)}, {""}, {"all others"}});
  table.add_row(
      {{grouped(total_.count), -1, true}, {unit.text(total_), -1, true}, {""}, {"sum", -1, true}});
  return title(all_ ? "All tensors" : "Largest tensors, those alike together") +
         table.text(colour_, width_);
}

std::string Explanation::saved() const {
  const std::vector<SavedGroup> groups =
      group_saved(detail_.model->training, detail_.compiled.saved, all_);
  if (groups.empty()) return {};
  const Bytes sum = point_.saved_activations;
  const BytesColumn unit(sum);
  Table table({{"bytes", Align::kRight, kSpareBytes},
               {"", Align::kRight},
               {"tensors", Align::kRight},
               {"made by"},
               {"needed by"}},
              kIndent);
  Bytes rest = sum;
  const std::size_t count = all_ ? groups.size() : std::min(top_, groups.size());
  for (std::size_t i = 0; i < count; ++i) {
    rest -= groups[i].bytes;
    table.add_row({{grouped(groups[i].bytes.count)},
                   {unit.text(groups[i].bytes)},
                   {grouped(groups[i].count)},
                   {groups[i].made_by},
                   {groups[i].needed_by}});
  }
  if (rest > Bytes(0))
    table.add_row({{grouped(rest.count)}, {unit.text(rest)}, {""}, {"all others"}});
  table.add_row(
      {{grouped(sum.count), -1, true}, {unit.text(sum), -1, true}, {""}, {"sum", -1, true}});
  const bool turns = detail_.model->training.turns > 1;
  return title(turns ? "Saved for backward by the turn that keeps most, and what needs it"
                     : "Saved for backward by one micro-batch, and what needs it") +
         table.text(colour_, width_);
}

std::string Explanation::phases() const {
  const BytesColumn unit(total_);
  Table table({{""}, {"bytes", Align::kRight}, {"", Align::kRight}, {"", Align::kRight}}, kIndent);
  for (std::size_t p = 0; p < kPhases; ++p) {
    const Bytes bytes = point_.run.phase_live[p].bytes;
    table.add_row({{std::string(name_of(static_cast<Phase>(p)))},
                   {grouped(bytes.count)},
                   {unit.text(bytes)},
                   {share_of(bytes, total_)}});
  }
  table.add_row({{"without workspaces"},
                 {grouped(point_.run.live_without_workspace.bytes.count)},
                 {unit.text(point_.run.live_without_workspace.bytes)},
                 {share_of(point_.run.live_without_workspace.bytes, total_)}});
  return title("Peak of each phase, live bytes") + table.text(colour_, width_);
}

// Lists the terms from the live bytes of the peak to the device memory used, and what is left.
std::string Explanation::device() const {
  const Bytes capacity = point_.capacity;
  const DeviceTerms terms = device_terms(point_, detail_);
  const BytesColumn unit(std::max(capacity, point_.device_used()));
  Table table({{""}, {"bytes", Align::kRight}, {"", Align::kRight}, {"", Align::kLeft, kSpareBar}},
              kIndent);
  const auto add = [&](const std::string& name, Bytes bytes, const std::string& note,
                       bool strong = false) {
    table.add_row({{name, -1, strong},
                   {grouped(bytes.count), -1, strong},
                   {unit.text(bytes), -1, strong},
                   {note}});
  };
  add("live at the peak", total_, "as requested by the tensors");
  add("+ rounding", terms.rounding, std::string(point_.allocator.rounding));
  add("+ cached", terms.cached, "reserved and free: fragments, and blocks to be reused");
  add("+ reserved at other times", terms.other_times, "the allocator keeps what it has reserved");
  Bytes nccl;
  std::vector<std::string> groups;
  for (const Communicator& communicator : point_.communicators) {
    nccl += communicator.bytes;
    groups.push_back(fmt::format("{} {}", name_of(communicator.group), communicator.ranks));
  }
  add("+ CUDA context", point_.context - nccl, "of the process");
  if (nccl > Bytes(0)) {
    add("+ NCCL", nccl,
        groups.size() == 1 ? "buffers of one communicator"
                           : fmt::format("buffers of {} communicators: {}", groups.size(),
                                         fmt::join(groups, ", ")));
  }
  add("device memory used", point_.device_used(), "", true);
  add("capacity", capacity, scenario_.device.name);
  const Bytes needed = point_.device_needed();
  if (needed != point_.device_used()) add("needed", needed, "regions double without a limit");
  const Bytes left = capacity - needed;
  add(left >= Bytes(0) ? "left" : "missing", left >= Bytes(0) ? left : -left, "", true);
  std::string text = title("On the device") + table.text(colour_, width_) + reserved_terms();
  if (point_.smallest_capacity.count > 0) {
    text += fmt::format("  The least capacity with which the step still runs: {}\n",
                        format_bytes(point_.smallest_capacity));
  }
  return text;
}

// Lists what the allocator has reserved at its peak, and why that is more than the live bytes.
std::string Explanation::reserved_terms() const {
  const Fragmentation& f = point_.run.fragmentation;
  const BytesColumn unit(f.reserved);
  Table table({{""}, {"bytes", Align::kRight}, {"", Align::kRight}, {"", Align::kLeft, kSpareBar}},
              kIndent);
  const auto add = [&](const std::string& name, Bytes bytes, const std::string& note,
                       bool strong = false) {
    table.add_row({{name, -1, strong},
                   {grouped(bytes.count), -1, strong},
                   {unit.text(bytes), -1, strong},
                   {note}});
  };
  add("live", f.live, "as requested by the tensors");
  add("+ rounding", f.rounding, "blocks are larger than the requests");
  add("+ pending events", f.pending_events, "freed, but a stream may still use it");
  add("+ inactive splits", f.inactive_splits, "free inside segments that something else keeps");
  add("+ free segments", f.free_segments, "cached: free as a whole");
  add("reserved", f.reserved, "", true);
  std::string text = title("Reserved, at its peak") + table.text(colour_, width_);
  const Convergence& convergence = point_.convergence;
  std::string peaks;
  for (const StepReserved& step : convergence.steps)
    peaks += fmt::format("{}{}", peaks.empty() ? "" : ", ", unit.text(step.peak));
  text += fmt::format("  Step by step: {}", peaks);
  if (convergence.fails_in) {
    text += fmt::format("; step {} runs out of memory on the device\n", *convergence.fails_in);
  } else if (convergence.step) {
    text += fmt::format("; the same from step {} on\n", *convergence.step);
  } else {
    text += "; it has not converged\n";
  }
  return text;
}

}  // namespace
}  // namespace explanation_detail

std::string explanation(const DetailedPoint& point, const ExplanationView& view) {
  return explanation_detail::Explanation(point, view).text();
}

nlohmann::ordered_json explanation_json(const DetailedPoint& point,
                                        const std::optional<MoreGpus>& more_gpus) {
  nlohmann::ordered_json document = result_document(std::span(&point.result, 1));
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const auto& [layer, bytes] : point.result.peak.by_layer) {
    layers.push_back({{"layer", layer}, {"bytes", bytes.count}});
  }
  document["points"][0]["memory"]["peak"]["by_layer"] = std::move(layers);
  const TrainingGraph& graph = point.detail.model->training;
  nlohmann::ordered_json saved = nlohmann::ordered_json::array();
  for (const SavedTensor& tensor : point.detail.compiled.saved) {
    nlohmann::ordered_json readers = nlohmann::ordered_json::array();
    for (OperatorId id : tensor.needed_by)
      readers.push_back(graph.describe(id));
    saved.push_back({{"tensor", graph.storages[tensor.storage].name},
                     {"bytes", graph.storages[tensor.storage].bytes.count},
                     {"made_by", graph.describe(tensor.made_by)},
                     {"needed_by", std::move(readers)},
                     {"recomputation", tensor.by_recomputation}});
  }
  document["points"][0]["memory"]["saved"] = std::move(saved);
  document["points"][0]["settings"] = term_settings_json(term_settings(point));
  document["points"][0]["more_gpus"] = more_gpus_json(more_gpus);
  document["points"][0]["time_terms"] = time_terms_json(time_terms(point.result, point.detail));
  add_time_terms(document["points"][0], time_terms(point.result, point.detail));
  document["points"][0]["transfers"] = transfers_json(point.result, point.detail);
  return document;
}

}  // namespace tidemark
