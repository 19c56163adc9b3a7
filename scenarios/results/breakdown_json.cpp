#include "scenarios/results/breakdown_json.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "scenarios/results/result_document.hpp"

namespace tidemark {
namespace breakdown_json_detail {
namespace {

using Json = nlohmann::ordered_json;

Json bounds_of(const KernelSum& sum) {
  Json bounds = Json::object();
  for (std::size_t b = 0; b < kBounds; ++b)
    bounds[std::string(name_of(static_cast<Bound>(b)))] = seconds(sum.time[b]);
  return bounds;
}

// Returns the classes that ran, longest first.
Json classes_of(const TimeBreakdown& breakdown) {
  std::vector<ClassSum> by_class = breakdown.by_class;
  std::stable_sort(by_class.begin(), by_class.end(), [](const ClassSum& a, const ClassSum& b) {
    return a.sum.total() > b.sum.total();
  });
  Json classes = Json::array();
  for (const auto& [op_class, sum] : by_class) {
    classes.push_back({{"name", name_of(op_class)},
                       {"kernels", sum.kernels},
                       {"seconds", seconds(sum.total())},
                       {"flops", count_json(sum.flops.count)},
                       {"bytes", sum.bytes.count},
                       {"bound", bounds_of(sum)}});
  }
  return classes;
}

Duration duration_of(const Json& seconds) {
  return Duration(std::llround(seconds.get<double>() * 1e9));
}

void read_bounds(const Json& bounds, KernelSum& sum) {
  for (std::size_t b = 0; b < kBounds; ++b)
    sum.time[b] = duration_of(bounds.at(std::string(name_of(static_cast<Bound>(b)))));
}

}  // namespace
}  // namespace breakdown_json_detail

void read_breakdown(const nlohmann::ordered_json& json, PointResult& point) {
  TimeBreakdown& breakdown = point.breakdown;
  breakdown_json_detail::read_bounds(json.at("bound"), breakdown.all);
  breakdown.all.flops = Flops(json.at("flops").get<double>());
  breakdown.all.bytes = Bytes(json.at("bytes").get<std::int64_t>());
  point.model_flops_utilization = json.at("model_flops_utilization");
  point.hardware_flops_utilization = json.at("hardware_flops_utilization");
  for (const auto& entry : json.at("classes")) {
    const std::string name = entry.at("name");
    for (int c = 0; c < kOperatorClasses; ++c) {
      const auto op_class = static_cast<OperatorClass>(c);
      if (name_of(op_class) != name) continue;
      KernelSum& sum = breakdown.by_class.emplace_back(ClassSum{op_class, {}}).sum;
      sum.kernels = entry.at("kernels");
      sum.flops = Flops(entry.at("flops").get<double>());
      sum.bytes = Bytes(entry.at("bytes").get<std::int64_t>());
      breakdown_json_detail::read_bounds(entry.at("bound"), sum);
      breakdown.all.kernels += sum.kernels;
    }
  }
}

void read_cost(const nlohmann::ordered_json& json, StepCost& cost) {
  const auto number = [&](const char* key) -> std::optional<double> {
    if (json.at(key).is_null()) return std::nullopt;
    return json.at(key).get<double>();
  };
  cost.device_hours = json.at("device_hours");
  cost.joules = number("joules");
  cost.price = number("price");
}

nlohmann::ordered_json count_json(double value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53: above, a double has no ones digit
  if (std::abs(value) <= kExact && std::floor(value) == value) {
    return static_cast<std::int64_t>(value);
  }
  return std::isfinite(value) ? value : 0;
}

nlohmann::ordered_json breakdown_json(const PointResult& point) {
  const TimeBreakdown& breakdown = point.breakdown;
  const Duration waits = std::max(point.run.step - breakdown.all.total(), Duration(0));
  return {{"bound", breakdown_json_detail::bounds_of(breakdown.all)},
          {"host_gaps", seconds(point.run.host_bound)},
          {"waits", seconds(waits)},
          {"flops", count_json(breakdown.all.flops.count)},
          {"bytes", breakdown.all.bytes.count},
          {"model_flops_utilization", point.model_flops_utilization},
          {"hardware_flops_utilization", point.hardware_flops_utilization},
          {"classes", breakdown_json_detail::classes_of(breakdown)}};
}

nlohmann::ordered_json cost_json(const PointResult& point) {
  using Json = nlohmann::ordered_json;
  const StepCost& cost = point.cost;
  const double samples = point.samples > 0 ? point.samples : 1;
  return {{"device_hours", cost.device_hours},
          {"joules", cost.joules ? Json(*cost.joules) : Json(nullptr)},
          {"price", cost.price ? Json(*cost.price) : Json(nullptr)},
          {"price_per_sample", cost.price ? Json(*cost.price / samples) : Json(nullptr)}};
}

}  // namespace tidemark
