#include "scenarios/fit.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "scenarios/document_json.hpp"

namespace tidemark {
namespace {

// That the allocator may take of the device.
std::int64_t room(const PointResult& point) {
  const std::int64_t device = point.capacity.count - point.context.count;
  const bool limited = !point.failure.empty() && point.failure.front().allowed;
  return limited ? std::min(device, *point.failure.front().allowed) : device;
}

class Search {
 public:
  Search(const Value& document, const Environment& environment, const FitOptions& options)
      : document_(document), environment_(environment), options_(options) {}

  Fit run() {
    const std::int64_t step = options_.multiple_of;
    const std::int64_t last = options_.limit / step * step;
    std::int64_t fits = 0;
    std::int64_t fails = step;
    while (at(fails).status == PointStatus::kFits) {
      fits = fails;
      if (fits == last) return result(fits, std::nullopt, std::nullopt);
      fails = fits > last / 2 ? last : 2 * fits;
    }
    while (fails - fits > step) {
      const std::int64_t middle = fits + (fails - fits) / step / 2 * step;
      (at(middle).status == PointStatus::kFits ? fits : fails) = middle;
    }
    const std::optional<std::int64_t> excluded = first_too_large(fits, fails, last);
    // Above, down from what is excluded.
    const std::int64_t end = excluded.value_or(fails);
    const std::int64_t between = (end - fits) / step - 1;
    const std::int64_t stride = step * (between / kTriedAbove + 1);
    for (std::int64_t value = end - step; value > fits; value -= stride) {
      if (at(value).status == PointStatus::kFits) fits = value;
    }
    return result(fits, fits < last ? std::optional(fits + step) : std::nullopt, excluded);
  }

 private:
  [[nodiscard]] bool is_too_large(std::int64_t value) {
    const PointResult& point = at(value);
    return point.status == PointStatus::kOutOfMemory && point.run.live.bytes > room(point);
  }
  // The least value above `fits` whose live bytes alone are too many; they grow with the value.
  std::optional<std::int64_t> first_too_large(std::int64_t fits, std::int64_t fails,
                                              std::int64_t last) {
    const std::int64_t step = options_.multiple_of;
    while (!is_too_large(fails)) {
      if (fails == last || at(fails).status == PointStatus::kError) return std::nullopt;
      fails = fails > last / 2 ? last : 2 * fails;
    }
    while (fails - fits > step) {
      const std::int64_t middle = fits + (fails - fits) / step / 2 * step;
      (is_too_large(middle) ? fails : fits) = middle;
    }
    return fails;
  }

  const PointResult& at(std::int64_t value) {
    const auto found = tried_.find(value);
    if (found != tried_.end()) return found->second;
    Value changed = document_;
    Override change = parse_override(fmt::format("{}={}", options_.key, value));
    change.value.location = {.file = "--maximize"};
    apply_override(changed, change);
    SimulateOptions simulate = options_.simulate;
    simulate.suggestions = simulate.suggestions && tried_.empty();
    PointResult point;
    try {
      point = simulate_points(changed, environment_, 1, simulate).front();
    } catch (const UserError& error) {
      if (tried_.empty()) throw;  // no value can be built, or not with multiples of this one
      point.name = tried_.begin()->second.name;
      point.error = error.what();
    }
    point.overrides.emplace_back(options_.key, as_json(change.value));
    return tried_.emplace(value, std::move(point)).first->second;
  }

  Fit result(std::int64_t fits, std::optional<std::int64_t> next,
             std::optional<std::int64_t> excluded) {
    Fit found;
    found.excluded_from = excluded;
    if (excluded) {
      found.untried = (*excluded - fits) / options_.multiple_of - 1;
      for (const auto& [value, point] : tried_)
        found.untried -= value > fits && value < *excluded ? 1 : 0;
    }
    for (auto& [value, point] : tried_) {
      if (value == fits) found.largest = found.tried.size();
      if (value == next) found.next = found.tried.size();
      found.tried.push_back({value, std::move(point)});
    }
    return found;
  }

  const Value& document_;
  const Environment& environment_;
  const FitOptions& options_;
  std::map<std::int64_t, PointResult> tried_;
};

}  // namespace

Fit fit(const Value& document, const Environment& environment, const FitOptions& options) {
  if (sweep_points(document).size() > 1) {
    throw UserError(document.find("sweep")->location, "sweep",
                    "fit looks for one value of one scenario; take the sweep out, or set its keys "
                    "with -s");
  }
  return Search(document, environment, options).run();
}

}  // namespace tidemark
