#include "scenarios/read/goal.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/core/errors.hpp"
#include "scenarios/results/result_document.hpp"

namespace tidemark {
namespace goal_detail {
namespace {

using Json = nlohmann::ordered_json;

const Json* descend(const Json& entry, std::string_view name) {
  const Json* at = &entry;
  while (at != nullptr && !name.empty()) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    const std::string key(name.substr(0, dot));
    name.remove_prefix(std::min(dot + 1, name.size()));
    const bool index = !key.empty() && key.find_first_not_of("0123456789") == std::string::npos;
    if (at->is_array() && index) {  // the ranks of a pipeline
      const std::size_t place = key.size() < 10 ? std::stoul(key) : at->size();
      at = place < at->size() ? &(*at)[place] : nullptr;
    } else if (at->is_array()) {  // an array of policies
      const auto found = std::find_if(at->begin(), at->end(), [&](const Json& item) {
        return item.is_object() && item.value("name", "") == key;
      });
      at = found == at->end() ? nullptr : &*found;
    } else {
      at = at->is_object() && at->contains(key) ? &at->at(key) : nullptr;
    }
  }
  return at;
}

void add_number_names(const Json& json, const std::string& prefix,
                      std::vector<std::string>& names) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_object()) add_number_names(value, prefix + key + '.', names);
    if (value.is_number()) names.push_back(prefix + key);
  }
}

constexpr std::string_view kHardware = "hardware.";
constexpr std::string_view kPolicies = "policies.";
constexpr std::string_view kRanks = "ranks.";
constexpr std::string_view kSmallest = "memory.smallest_capacity";  // 0 where it was not looked for
constexpr std::string_view kCost = "cost";  // short for the next: steps may differ in their samples
constexpr std::string_view kPrice = "cost.price_per_sample";

// Whether it is a figure that only points with a policy of that name, or a stage, have.
bool is_of_some_points(std::string_view name) {
  return name.starts_with(kPolicies) || name.starts_with(kRanks);
}

}  // namespace
}  // namespace goal_detail

bool has_figure(const goal_detail::Json& entry, std::string_view name) {
  const goal_detail::Json* found = goal_detail::descend(entry, name);
  return found != nullptr && (found->is_number() || found->is_null());
}

FigureLookup figures_of(const goal_detail::Json& entry, const std::vector<Figure>& device) {
  return [&entry, &device](std::string_view name) {
    if (name.starts_with(goal_detail::kHardware)) {
      const std::string_view path = name.substr(goal_detail::kHardware.size());
      for (const Figure& figure : device) {
        if (figure.path == path) return parse_quantity(figure.value).value;
      }
    } else if (has_figure(entry, name)) {
      const goal_detail::Json& found = *goal_detail::descend(entry, name);
      const bool unknown = !found.is_number() || (name == goal_detail::kSmallest && found == 0);
      return unknown ? std::nan("") : found.get<double>();
    } else if (goal_detail::is_of_some_points(name)) {
      return std::nan("");  // no comparison holds for a missing figure
    }
    throw UserError(fmt::format("there is no figure '{}'", name));
  };
}

FigureLookup known_figures(FigureLookup figures, bool fits) {
  if (fits) return figures;
  return [figures = std::move(figures)](std::string_view name) {
    const bool whole_step = name.starts_with("throughput.") || name.starts_with("cost.") ||
                            name.ends_with("_utilization");
    const double value = figures(name);
    return value == 0 && whole_step ? std::nan("") : value;
  };
}

namespace goal_detail {
namespace {

// Returns what is wrong with a figure of one stage, "ranks.0.memory.peak_live"; empty for nothing.
std::string problem_with_stage(const std::string& name, const std::vector<std::string>& known) {
  const std::size_t dot = std::min(name.find('.', kRanks.size()), name.size());
  const std::string number = name.substr(kRanks.size(), dot - kRanks.size());
  const std::string figure = name.substr(std::min(dot + 1, name.size()));
  if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos ||
      figure.empty())
    return fmt::format("'{}' names no stage; write ranks.0.memory.peak_live", name);
  const bool of_stage = figure.starts_with("memory.") || figure.starts_with("time.");
  if ((of_stage && std::find(known.begin(), known.end(), figure) != known.end()) ||
      figure == "bubble" || figure == "in_flight")
    return {};
  return fmt::format(
      "a stage has no figure '{}'{}; it has those of memory and time, bubble and "
      "in_flight",
      figure, did_you_mean(figure, known));
}

Expression decode_expression(const Value& value, const std::string& path, bool comparison,
                             const std::vector<std::string>& known) {
  const auto fail = [&](const std::string& problem) {
    throw UserError(value.location, path, problem);
  };
  if (!value.is_scalar()) {
    fail(comparison ? "expected a text such as \"memory.device_used <= 72GiB\""
                    : "expected a figure such as time.step");
  }
  try {
    Expression expression(value.scalar, comparison);
    for (const std::string& name : expression.names()) {
      if (name.starts_with(kRanks)) {
        if (const std::string problem = problem_with_stage(name, known); !problem.empty())
          fail(problem);
      }
      if (!is_of_some_points(name) && std::find(known.begin(), known.end(), name) == known.end()) {
        fail(fmt::format("there is no figure '{}'{}; `run --json` shows them", name,
                         did_you_mean(name, known)));
      }
    }
    return expression;
  } catch (const std::invalid_argument& error) {
    fail(error.what());
    throw;
  }
}

// Decodes what is to be small or large: one figure or a list of them.
std::vector<Expression> decode_objectives(const Decoder& d, const Value& given, const char* key,
                                          const std::vector<std::string>& known) {
  const bool several = given.is_sequence();
  std::vector<Value> figures = several ? given.items : std::vector<Value>{given};
  if (figures.empty()) d.fail_at(key, "expected a figure or a list of figures");
  std::vector<Expression> objectives;
  for (std::size_t i = 0; i < figures.size(); ++i) {
    if (figures[i].scalar == kCost) {
      if (std::find(known.begin(), known.end(), kPrice) == known.end())
        d.fail_at(key, "a cost needs hardware.price, what one device costs for an hour");
      figures[i].scalar = kPrice;
    }
    objectives.push_back(decode_expression(
        figures[i], several ? fmt::format("goal.{}[{}]", key, i) : fmt::format("goal.{}", key),
        false, known));
  }
  return objectives;
}

}  // namespace
}  // namespace goal_detail

namespace goal_detail {
namespace {

// Returns the figures of a point on a device whose price, or power, is known or not.
std::vector<std::string> names_in_entry(bool has_price, bool has_power) {
  PointResult point;
  point.status = PointStatus::kFits;
  point.samples = 1;  // time.per_sample and time.per_token are numbers
  point.tokens = 1;
  if (has_price) point.cost.price = 0;
  if (has_power) point.cost.joules = 0;
  std::vector<std::string> names;
  add_number_names(result_entry(point), "", names);
  return names;
}

}  // namespace
}  // namespace goal_detail

std::vector<std::string> figure_names(const std::vector<Figure>& device) {
  // A search reads its goal once for each point, and an entry takes longer than the point's own
  // settings.
  static const std::array<std::vector<std::string>, 4> in_entry{
      goal_detail::names_in_entry(false, false), goal_detail::names_in_entry(true, false),
      goal_detail::names_in_entry(false, true), goal_detail::names_in_entry(true, true)};
  const auto has = [&](std::string_view path) {
    return std::any_of(device.begin(), device.end(),
                       [&](const Figure& figure) { return figure.path == path; });
  };
  std::vector<std::string> names =
      in_entry[(has("price") ? 1U : 0U) + (has("power.watts") ? 2U : 0U)];
  for (const Figure& figure : device)
    names.push_back(std::string(goal_detail::kHardware) + figure.path);
  return names;
}

Expression decode_figures(const Value& value, const std::string& path,
                          const std::vector<Figure>& device) {
  return goal_detail::decode_expression(value, path, false, figure_names(device));
}

Goal decode_goal(const Value& scenario, const std::vector<Figure>& device) {
  Goal goal;
  const Value* given = scenario.find("goal");
  if (given == nullptr || given->is_null()) return goal;
  const Decoder d(*given, "goal");
  if (!given->is_mapping()) d.fail("expected {minimize: FIGURE, subject_to: [...]}");
  const std::vector<std::string> known = figure_names(device);
  const bool minimize = d.has("minimize");
  if (minimize == d.has("maximize")) {
    d.fail(
        "give one of minimize and maximize; several figures are a list, such as minimize: "
        "[time.per_sample, memory.device_used]");
  }
  goal.maximize = !minimize;
  const char* key = minimize ? "minimize" : "maximize";
  goal.objectives = goal_detail::decode_objectives(d, *given->find(key), key, known);
  if (d.has("subject_to")) {
    const Value& list = *given->find("subject_to");
    if (!list.is_sequence()) {
      d.fail_at("subject_to", "expected a list such as [\"memory.device_used <= 72GiB\"]");
    }
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      goal.subject_to.push_back(goal_detail::decode_expression(
          list.items[i], fmt::format("goal.subject_to[{}]", i), true, known));
    }
  }
  d.finish();
  return goal;
}

}  // namespace tidemark
