#include "cli/text/time_report.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/text/wording.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "scenarios/results/breakdown_json.hpp"
#include "scenarios/results/result_document.hpp"

namespace tidemark {
namespace time_report_detail {
namespace {

constexpr std::size_t kNamed = 5;  // terms in a line
// Columns with these numbers are left out on narrow terminals, the highest first.
constexpr int kSparePhase = 1;
constexpr int kSpareCount = 2;
constexpr int kSpareWork = 3;

std::string table_of(const std::vector<TimeTerm>& terms, const TimeTerms& all,
                     const TimeReportView& view) {
  const auto right = Align::kRight;
  Table table({{""},
               {"kernels", right, kSpareCount},
               {"time", right},
               {"", right},
               {"forward", right, kSparePhase},
               {"backward", right, kSparePhase},
               {"optimizer", right, kSparePhase},
               {"recomputed", right, kSparePhase},
               {"FLOPs", right, kSpareWork},
               {"bytes", right, kSpareWork},
               {"bound by", Align::kLeft, kSpareWork}},
              kIndent);
  const auto time = [&](Duration duration) {
    return duration > Duration(0) ? in_seconds(duration, all.step) : std::string();
  };
  const auto add = [&](const TimeTerm& term) {
    table.add_row({{term.name},
                   {grouped(static_cast<std::int64_t>(term.count))},
                   {in_seconds(term.total(), all.step)},
                   {share_of(term.total(), all.step)},
                   {time(term.forward)},
                   {time(term.backward)},
                   {time(term.optimizer)},
                   {time(term.recompute)},
                   {term.work.flops.count > 0 ? operations(term.work.flops) : ""},
                   {format_bytes(term.work.bytes)},
                   {std::string(name_of(term.work.bound()))}});
  };
  const std::size_t shown = view.all || terms.size() <= view.top + 1 ? terms.size() : view.top;
  TimeTerm rest{.name = fmt::format("{} others", terms.size() - shown)};
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (i < shown) {
      add(terms[i]);
      continue;
    }
    rest.count += terms[i].count;
    rest.forward += terms[i].forward;
    rest.backward += terms[i].backward;
    rest.optimizer += terms[i].optimizer;
    rest.recompute += terms[i].recompute;
    rest.work += terms[i].work;
  }
  if (shown < terms.size()) add(rest);
  const Duration waits = all.step - all.busy;
  if (waits > Duration(0)) {
    table.add_row(
        {{"no kernel runs"}, {""}, {in_seconds(waits, all.step)}, {share_of(waits, all.step)}});
  }
  table.add_row({{"step", -1, true}, {""}, {in_seconds(all.step, all.step), -1, true}});
  return table.text(view.colour, view.width);
}

nlohmann::ordered_json json_of(const std::vector<TimeTerm>& terms) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TimeTerm& term : terms) {
    list.push_back({{"name", term.name},
                    {"kernels", term.count},
                    {"forward", seconds(term.forward)},
                    {"backward", seconds(term.backward)},
                    {"optimizer", seconds(term.optimizer)},
                    {"recompute", seconds(term.recompute)},
                    {"seconds", seconds(term.total())},
                    {"flops", count_json(term.work.flops.count)},
                    {"bytes", term.work.bytes.count},
                    {"bound", name_of(term.work.bound())}});
  }
  return list;
}

}  // namespace
}  // namespace time_report_detail

std::string longest_terms(const std::vector<TimeTerm>& terms, Duration step) {
  std::string text;
  const std::size_t named = std::min(terms.size(), time_report_detail::kNamed);
  for (std::size_t i = 0; i < named; ++i) {
    // Less than a hundredth of the step is not worth a word.
    if (i > 0 && terms[i].total() * 100 < step) break;
    text +=
        fmt::format("{}{} {}", i == 0 ? "" : ", ", terms[i].name, share_of(terms[i].total(), step));
  }
  return text;
}

std::string bounds_text(const PointResult& point) {
  const Duration step = point.run.step;
  std::string text;
  const auto add = [&](Duration time, std::string_view what) {
    // Less than a hundredth of the step is not worth a word.
    if (time * 100 < step || time <= Duration(0)) return;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, share_of(time, step));
  };
  const auto& time = point.breakdown.all.time;
  add(time[static_cast<std::size_t>(Bound::kCompute)], "arithmetic");
  add(time[static_cast<std::size_t>(Bound::kMemory)], "memory");
  add(time[static_cast<std::size_t>(Bound::kLaunch)], "launches");
  add(point.run.host_bound, "the host");
  add(step - point.breakdown.all.total() - point.run.host_bound, "other waits");
  return text;
}

std::string throughput_text(const PointResult& point) {
  const bool tokens = point.tokens_per_second > 0;
  std::string text = tokens ? fmt::format("{} tokens/s, ", rate(point.tokens_per_second)) : "";
  text += rate(point.samples_per_second) + " samples/s";
  if (point.model_flops_utilization <= 0) return text;
  text += fmt::format(", {} of the peak arithmetic (MFU)", percent(point.model_flops_utilization));
  // Recomputation makes the difference.
  if (point.hardware_flops_utilization > 1.005 * point.model_flops_utilization) {
    text += fmt::format(", {} with what is recomputed (HFU)",
                        percent(point.hardware_flops_utilization));
  }
  return text;
}

std::string cost_text(const PointResult& point) {
  const StepCost& cost = point.cost;
  std::string text;
  // Costs are given per million tokens or thousand samples, which can be compared across steps.
  const bool tokens = point.tokens > 0;
  const double units = tokens ? point.tokens / 1e6 : point.samples / 1e3;
  if (!(units > 0)) return text;
  const std::string_view of = tokens ? "million tokens" : "thousand samples";
  const auto add = [&](const std::string& what) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", what);
  };
  if (cost.price) add(fmt::format("price {:.4g} a {}", *cost.price / units, of));
  if (!cost.price && !cost.joules) return text;
  add(fmt::format("{:.3g} device-hours", cost.device_hours / units));
  if (cost.joules) {
    constexpr double kJoulesPerKwh = 3.6e6;
    add(fmt::format("at most {:.3g} kWh", *cost.joules / kJoulesPerKwh / units));
  }
  return text + (cost.price ? "" : fmt::format(" a {}", of));
}

void add_time_terms(nlohmann::ordered_json& point, const TimeTerms& terms) {
  nlohmann::ordered_json& breakdown = point["time"]["breakdown"];
  breakdown["operators"] = time_report_detail::json_of(terms.by_operator);
  breakdown["layers"] = time_report_detail::json_of(terms.by_pattern);
}

std::string time_tables(const TimeTerms& terms, const TimeReportView& view) {
  return '\n' + bold("Time by kind of kernel, in the last step", view.colour) + '\n' +
         time_report_detail::table_of(terms.by_operator, terms, view) + '\n' +
         bold(view.all ? "Time by layer" : "Time by layer, those that repeat together",
              view.colour) +
         '\n' +
         time_report_detail::table_of(view.all ? terms.by_module : terms.by_pattern, terms, view);
}

nlohmann::ordered_json time_terms_json(const TimeTerms& terms) {
  return {{"operators", time_report_detail::json_of(terms.by_operator)},
          {"layers", time_report_detail::json_of(terms.by_module)}};
}

}  // namespace tidemark
