#include "scenarios/studies/fit.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/core/decoder.hpp"
#include "graph/core/errors.hpp"
#include "scenarios/read/global_batch.hpp"
#include "scenarios/read/short_form.hpp"
#include "scenarios/studies/parallel.hpp"
#include "scenarios/studies/simulate_point.hpp"
#include "scenarios/studies/simulate_points.hpp"

namespace tidemark {
namespace fit_detail {
namespace {

// Throws for a key that no result depends on.
void check_key(const std::string& key) {
  static constexpr std::string_view kParts[] = {"model", "hardware", "training", "allocator",
                                                "policies"};
  if (key.empty() || key.find('=') != std::string::npos) {
    throw UserError(fmt::format("--maximize: expected a key such as training.micro_batch, found {}",
                                tidemark::quoted_excerpt(key)));
  }
  if (key == "hardware.count" || key == "hardware.node") {
    throw UserError(fmt::format(
        "--maximize: more GPUs take no more memory of one, so there is no largest {0} that fits; "
        "to compare numbers of them, write sweep: {{matrix: {{{0}: [1, 2, 4, 8]}}}} for tidemark "
        "run or tidemark search",
        key));
  }
  const std::string first = key.substr(0, key.find('.'));
  const std::vector<std::string> known(std::begin(kParts), std::end(kParts));
  if (std::find(known.begin(), known.end(), first) != known.end()) return;
  const std::string hint = did_you_mean(first, known);
  throw UserError(fmt::format(
      "--maximize: {} does not change whether it fits{}", tidemark::quoted_excerpt(first),
      hint.empty() ? fmt::format("; keys that can begin with {}", fmt::join(known, ", ")) : hint));
}

// Throws where a global batch leaves only its divisors.
void check_global_batch(const std::string& key, const Value& document) {
  const Value* batch = global_batch_of(document);
  if (key != "training.micro_batch" || batch == nullptr) return;
  throw UserError(batch->location, "training.global_batch",
                  "leaves a micro-batch only its divisors, of which fit finds no largest; write "
                  "accumulate in place of it, or compare some with sweep: {matrix: "
                  "{training.micro_batch: [1, 2, 4, 8]}} and tidemark search");
}

// Returns the bytes that the allocator may take of the device.
Bytes room(const PointResult& point) {
  const Bytes device = point.usable();
  const bool limited = point.failure && point.failure->allowed;
  return limited ? std::min(device, *point.failure->allowed) : device;
}

class Search {
 public:
  Search(const ValuePoints& points, const FitOptions& options)
      : points_(points), options_(options) {}

  Fit run() {
    const std::int64_t step = options_.multiple_of;
    const std::int64_t last = options_.limit / step * step;
    std::int64_t fits = 0;
    std::int64_t fails = first_that_fits(last).value_or(step);
    while (at(fails).status == PointStatus::kFits) {
      fits = fails;
      if (fits == last) {
        fits = confirmed(fits, last);
        return result(fits, fits < last ? std::optional(fits + step) : std::nullopt, std::nullopt);
      }
      fails = fits > last / 2 ? last : 2 * fits;
    }
    while (fails - fits > step) {
      const std::int64_t middle = fits + (fails - fits) / step / 2 * step;
      (at(middle).status == PointStatus::kFits ? fits : fails) = middle;
    }
    const std::optional<std::int64_t> excluded = first_too_large(fits, fails, last);
    // Tries values above the largest that fits, down from the first excluded one.
    const std::int64_t end = excluded.value_or(fails);
    const std::int64_t between = (end - fits) / step - 1;
    const std::int64_t stride = step * (between / kTriedAbove + 1);
    for (std::int64_t value = end - step; value > fits; value -= stride) {
      if (at(value).status == PointStatus::kFits) fits = value;
    }
    // Between the values that were tried the next one may be left out.
    while (fits < last && at(fits + step).status == PointStatus::kFits)
      fits += step;
    fits = confirmed(fits, last);
    return result(fits, fits < last ? std::optional(fits + step) : std::nullopt, excluded);
  }

 private:
  // For some keys larger values take less memory (checkpoint.first, te_offload.layers): then larger
  // values are tried though the smallest does not fit, as long as each has fewer live bytes.
  std::optional<std::int64_t> first_that_fits(std::int64_t last) {
    const std::int64_t step = options_.multiple_of;
    std::int64_t value = step;
    while (at(value).status == PointStatus::kOutOfMemory && value < last) {
      std::int64_t larger = value > last / 2 ? last : 2 * value;
      while (at(larger).status == PointStatus::kError && larger > value + step)
        larger = value + (larger - value) / step / 2 * step;
      if (at(larger).status == PointStatus::kError) return std::nullopt;
      if (at(larger).run.live.bytes.count >= at(value).run.live.bytes.count) return std::nullopt;
      value = larger;
    }
    if (at(value).status != PointStatus::kFits) return std::nullopt;
    return value;
  }

  [[nodiscard]] bool is_too_large(std::int64_t value) {
    const PointResult& point = at(value);
    return point.status == PointStatus::kOutOfMemory && point.run.live.bytes > room(point);
  }
  // Returns the least value above `fits` whose live bytes alone are too many; they grow with the
  // value.
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

  // Returns the largest value that fits where policies search as long as the scenario lets them,
  // from one that fits in a trial on.
  std::int64_t confirmed(std::int64_t fits, std::int64_t last) {
    const std::int64_t step = options_.multiple_of;
    // Mostly the answer and the next value show it: both at once.
    std::vector<std::int64_t> both;
    if (fits > 0) both.push_back(fits);
    if (fits < last) both.push_back(fits + step);
    search_whole(both);
    while (fits > 0 && whole(fits).status != PointStatus::kFits)
      fits -= step;
    while (fits < last && whole(fits + step).status == PointStatus::kFits)
      fits += step;
    return fits;
  }

  const PointResult& whole(std::int64_t value) {
    search_whole({&value, 1});
    return tried_.at(value).result;
  }

  // Simulates values again of which a policy's search was limited, without a limit.
  void search_whole(std::span<const std::int64_t> values) {
    std::vector<std::pair<std::int64_t, TriedValue*>> limited;
    for (const std::int64_t value : values) {
      static_cast<void>(at(value));
      TriedValue& tried = tried_.at(value);
      if (tried.limited) limited.emplace_back(value, &tried);
    }
    for_each_parallel(limited.size(), options_.threads, [&](std::size_t i) {
      const auto& [value, tried] = limited[i];
      const std::optional<Failure> failure = std::move(tried->result.failure);
      *tried = points_.simulate(value, tried->result.name, SearchEffort::kWhole);
      // The changes that were tried for the smallest value are those of the trial.
      if (failure && tried->result.failure) tried->result.failure->tried = failure->tried;
    });
  }

  const PointResult& at(std::int64_t value) {
    const auto found = tried_.find(value);
    if (found != tried_.end()) return found->second.result;
    const bool first = tried_.empty();
    TriedValue tried =
        points_.simulate(value, first ? "" : tried_.begin()->second.result.name,
                         SearchEffort::kTrial, options_.simulate.suggestions && first);
    return tried_.emplace(value, std::move(tried)).first->second.result;
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
      found.tried.push_back({value, std::move(point.result)});
    }
    return found;
  }

  const ValuePoints& points_;
  const FitOptions& options_;
  std::map<std::int64_t, TriedValue> tried_;
};

}  // namespace
}  // namespace fit_detail

ValuePoints::ValuePoints(const Value& document, const Environment& environment,
                         const FitOptions& options)
    : environment_(environment), options_(options) {
  fit_detail::check_key(options.key);
  std::vector<PointDocument> points = point_documents(document);
  if (points.size() > 1) {
    throw UserError(document.find("sweep")->location, "sweep",
                    "fit looks for one value of one scenario; leave the sweep out with -s "
                    "sweep=null");
  }
  if (!points.front().error.empty()) throw UserError(points.front().error);
  // A sweep of one point: its keys are set, and one of them may be the key to maximise.
  document_ = std::move(points.front().document);
  fit_detail::check_global_batch(options.key, document_);
}

TriedValue ValuePoints::simulate(std::int64_t value, const std::string& name, SearchEffort effort,
                                 bool suggestions) const {
  Value changed = document_;
  Override change{options_.key, text_value(fmt::to_string(value), {.file = "--maximize"})};
  apply_override(changed, change);
  PointRequest request{.options = options_.simulate};
  request.options.suggestions = suggestions;
  TriedValue tried;
  try {
    Scenario scenario = decode_scenario(changed, environment_);
    refuse_elastic(scenario);
    if (effort == SearchEffort::kTrial) tried.limited = limit_searches(scenario, kTrialSearch);
    tried.result = simulate_alone(changed, scenario, environment_, request);
  } catch (const UserError& error) {
    if (name.empty()) throw;  // no value can be built, or none that is a multiple
    tried.result.name = name;
    tried.result.status = PointStatus::kError;
    tried.result.error = error.what();
  }
  tried.result.overrides.push_back(std::move(change));
  return tried;
}

Fit fit(const Value& document, const Environment& environment, const FitOptions& options) {
  const ValuePoints points(document, environment, options);
  return fit_detail::Search(points, options).run();
}

std::vector<PointFit> fit_points(const Value& document, const Environment& environment,
                                 const FitOptions& options) {
  fit_detail::check_key(options.key);
  std::vector<PointDocument> points = point_documents(document);
  std::vector<PointFit> found(points.size());
  for (const PointDocument& point : points) {
    for (const Override& change : point.overrides) {
      if (change.key != options.key) continue;
      throw UserError(document.find("sweep")->location, "sweep",
                      fmt::format("the sweep changes {}, which fit is to find; leave it out of one",
                                  options.key));
    }
  }
  FitOptions alone = options;  // each on its own thread
  alone.threads = 1;
  for_each_parallel(points.size(), options.threads, [&](std::size_t i) {
    PointFit& row = found[i];
    row.overrides = std::move(points[i].overrides);
    row.error = points[i].error;
    if (!row.error.empty()) return;
    try {
      row.fit = fit(points[i].document, environment, alone);
    } catch (const UserError& error) {
      row.error = error.what();
    }
    for (FitPoint& point : row.fit.tried) {
      point.result.overrides.insert(point.result.overrides.begin(), row.overrides.begin(),
                                    row.overrides.end());
    }
  });
  return found;
}

}  // namespace tidemark
