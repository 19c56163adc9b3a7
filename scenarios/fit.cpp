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
    std::optional<std::int64_t> excluded;
    for (std::int64_t value = fits + step, tries = 0; value <= last && tries < kTriedAbove;
         value += step, ++tries) {
      const PointResult& above = at(value);
      if (above.status == PointStatus::kFits) {
        fits = value;
        tries = 0;
      } else if (above.run.live.bytes > room(above)) {
        excluded = value;
        break;
      }
    }
    return result(fits, fits < last ? std::optional(fits + step) : std::nullopt, excluded);
  }

 private:
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
