#include "scenarios/studies/assumed_influence.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "graph/core/errors.hpp"
#include "sim/engine/cost_table.hpp"

namespace tidemark {
namespace assumed_influence_detail {
namespace {

// Longer programs take a second or more for some twenty further runs.
constexpr std::size_t kMostInstructions = 200'000;

// The results whose change shows the influence of a varied figure.
struct Figures {
  double step = 0;    // seconds
  double memory = 0;  // bytes
  bool fits = false;
};

double share_of_change(double now, double before) {
  return before > 0 ? now / before - 1 : 0;
}

// Returns by how much the prices of the operators differ, added up over one step.
Duration difference(const IdVector<OperatorId, Duration>& a,
                    const IdVector<OperatorId, Duration>& b) {
  Duration sum{};
  for (const OperatorId op : ids_of(a))
    sum += a[op] > b[op] ? a[op] - b[op] : b[op] - a[op];
  return sum;
}

bool is_same(const CostTable::Link& a, const CostTable::Link& b) {
  return a.ns_per_byte_alone == b.ns_per_byte_alone &&
         a.ns_per_byte_duplex == b.ns_per_byte_duplex && a.latency == b.latency;
}

// Prices of single calls and of copies, which few steps make.
bool has_same_links(const CostTable& a, const CostTable& b) {
  return is_same(a.copy_out, b.copy_out) && is_same(a.copy_in, b.copy_in) &&
         is_same(a.nvme_read, b.nvme_read) && is_same(a.nvme_write, b.nvme_write) &&
         a.copy_dispatch == b.copy_dispatch &&
         a.page_locking_ns_per_byte == b.page_locking_ns_per_byte &&
         a.tax_copy_in == b.tax_copy_in && a.tax_copy_out == b.tax_copy_out;
}

bool has_same_calls(const CostTable& a, const CostTable& b) {
  return a.synchronize == b.synchronize && a.device_malloc == b.device_malloc &&
         a.device_free == b.device_free;
}

// Runs the program of a point again with other figures of its device.
class Variation {
 public:
  explicit Variation(DetailedPoint& point)
      : point_(point),
        original_(point.scenario.device),
        costs_(point.detail.compiled.costs),
        copies_(point.result.run.host.bytes.count > 0 || point.result.run.nvme.bytes.count > 0 ||
                point.result.loader.has_value()) {}
  Variation(const Variation&) = delete;
  Variation& operator=(const Variation&) = delete;
  ~Variation() { point_.scenario.device = original_; }

  // The point as it is, run with the options of the others.
  [[nodiscard]] Figures unchanged() { return run(costs_); }

  // Returns nothing where the value changes no price and no memory, or cannot be had.
  [[nodiscard]] std::optional<Figures> with(const AssumedFigure& figure, const std::string& value) {
    try {
      point_.scenario.device = with_figure(original_, figure.path, value);
    } catch (const UserError&) {
      return std::nullopt;
    }
    CostTable costs = price(point_.detail.model->training, CostModel(point_.scenario.device),
                            point_.scenario.mesh, point_.scenario.training.host);
    const bool memory =
        figure.path.starts_with("framework.") || figure.path.starts_with("hbm.capacity");
    if (!memory && !matters(costs)) return std::nullopt;
    return run(std::move(costs));
  }

 private:
  // A price that changes by less than a third of what is reported does not lengthen the step by it,
  // unless operators run three times.
  [[nodiscard]] bool matters(const CostTable& costs) const {
    const Duration least = point_.result.run.step / 300;
    if (difference(costs.device, costs_.device) > least) return true;
    if (difference(costs.dispatch, costs_.dispatch) > least) return true;
    return !has_same_calls(costs, costs_) || (copies_ && !has_same_links(costs, costs_));
  }

  [[nodiscard]] Figures run(CostTable costs) {
    Compiled compiled = point_.detail.compiled;
    compiled.costs = std::move(costs);
    const PointResult result = simulate(point_.scenario, *point_.detail.model, std::move(compiled),
                                        {.smallest_capacity = false, .largest_tensors = 0});
    return {.step = std::chrono::duration<double>(result.run.step).count(),
            .memory = static_cast<double>(result.device_used().count),
            .fits = result.status == PointStatus::kFits};
  }

  DetailedPoint& point_;
  const DeviceProfile original_;
  const CostTable costs_;
  const bool copies_;  // whether anything moves between the tiers of memory
};

// Whether a figure is a time, which slows the step down as it grows; rates and shares speed it up.
bool is_slow_at_high(const AssumedFigure& figure) {
  return figure.value.ends_with("us") || figure.value.ends_with("ns") ||
         figure.value.ends_with("ms");
}

double largest(const AssumedInfluence& influence) {
  return std::max({std::abs(influence.step_at_low), std::abs(influence.step_at_high),
                   std::abs(influence.memory_at_low), std::abs(influence.memory_at_high)});
}

void add_square(double change, double& less, double& more) {
  double& side = change < 0 ? less : more;
  side = std::hypot(side, change);
}

}  // namespace
}  // namespace assumed_influence_detail

std::optional<AssumedReport> assumed_influence(DetailedPoint& point) {
  if (!point.result.stages.empty() || point.result.status == PointStatus::kError ||
      point.detail.model == nullptr || point.detail.compiled.eviction != nullptr ||
      point.detail.compiled.program.size() == 0 ||
      point.detail.compiled.program.size() > assumed_influence_detail::kMostInstructions) {
    return std::nullopt;
  }
  const bool fits = point.result.status == PointStatus::kFits;
  assumed_influence_detail::Variation variation(point);
  const assumed_influence_detail::Figures base = variation.unchanged();
  AssumedReport report;
  for (const AssumedFigure& figure : assumed_figures(point.scenario.device)) {
    AssumedInfluence influence{.figure = figure};
    const auto vary = [&](const std::string& value, double& step, double& memory) {
      const auto found = variation.with(figure, value);
      if (!found) return false;
      if (fits) step = assumed_influence_detail::share_of_change(found->step, base.step);
      memory = assumed_influence_detail::share_of_change(found->memory, base.memory);
      influence.decides_fit = influence.decides_fit || found->fits != base.fits;
      return true;
    };
    const auto vary_low = [&] {
      return vary(figure.low, influence.step_at_low, influence.memory_at_low);
    };
    const auto vary_high = [&] {
      return vary(figure.high, influence.step_at_high, influence.memory_at_high);
    };
    // The slow end first: what does not matter there matters less at the other.
    if (assumed_influence_detail::is_slow_at_high(figure)) {
      if (vary_high()) vary_low();
    } else if (vary_low()) {
      vary_high();
    }
    if (assumed_influence_detail::largest(influence) < kLeastInfluence && !influence.decides_fit) {
      continue;
    }
    for (const double change : {influence.step_at_low, influence.step_at_high})
      assumed_influence_detail::add_square(change, report.step_less, report.step_more);
    for (const double change : {influence.memory_at_low, influence.memory_at_high})
      assumed_influence_detail::add_square(change, report.memory_less, report.memory_more);
    report.figures.push_back(std::move(influence));
  }
  std::stable_sort(report.figures.begin(), report.figures.end(),
                   [](const AssumedInfluence& a, const AssumedInfluence& b) {
                     return assumed_influence_detail::largest(a) >
                            assumed_influence_detail::largest(b);
                   });
  return report;
}

}  // namespace tidemark
