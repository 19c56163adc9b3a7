#include "scenarios/elastic/memory_elastic.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "scenarios/read/global_batch.hpp"
#include "scenarios/read/short_form.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "sim/step/simulate.hpp"

namespace tidemark {
namespace memory_elastic_detail {
namespace {

// The gradients are there from the second micro-batch on: more of them change the time only.
constexpr std::int64_t kMicroBatchesAtPeak = 2;

struct StepKey {
  std::int64_t length;
  Bytes capacity;  // 0: that of the hardware
  std::int64_t micro_batch;
  std::int64_t accumulate;
  friend bool operator<(const StepKey& a, const StepKey& b) {
    return std::tie(a.length, a.capacity, a.micro_batch, a.accumulate) <
           std::tie(b.length, b.capacity, b.micro_batch, b.accumulate);
  }
};

// Simulates steps, each once.
class Steps {
 public:
  Steps(const Value& document, const Environment& environment)
      : document_(without_elastic(document)), environment_(environment) {
    const Value* batch = global_batch_of(document_);
    if (batch == nullptr) return;
    throw UserError(batch->location, "training.global_batch",
                    "memory_elastic has a global_batch of its own; leave this one out");
  }

  const PointResult& at(const StepKey& key) {
    const auto found = simulated_.find(key);
    if (found != simulated_.end()) return found->second;
    std::vector<Override> changes{
        {"training.sequence", text_value(fmt::to_string(key.length), {})},
        {"training.micro_batch", text_value(fmt::to_string(key.micro_batch), {})},
        {"training.accumulate", text_value(fmt::to_string(key.accumulate), {})}};
    if (key.capacity.count > 0) {
      changes.push_back(
          {"hardware.hbm.capacity", text_value(fmt::to_string(key.capacity.count), {})});
    }
    Value changed = document_;
    for (const Override& change : changes)
      apply_override(changed, change);
    PointResult point =
        simulate_points(changed, environment_, 1, {.convergence_limit = kConvergenceLimit}).front();
    point.overrides = std::move(changes);
    return simulated_.emplace(key, std::move(point)).first->second;
  }
  bool fits(StepKey key) {
    key.accumulate = std::min(key.accumulate, kMicroBatchesAtPeak);
    return at(key).status == PointStatus::kFits;
  }
  [[nodiscard]] const Value& document() const { return document_; }

 private:
  Value document_;
  const Environment& environment_;
  std::map<StepKey, PointResult> simulated_;
};

class Study {
 public:
  Study(const Value& document, const Environment& environment, ElasticOptions options)
      : steps_(document, environment) {
    result_.options = std::move(options);
    const Scenario scenario = decode_scenario(steps_.document(), environment);
    ranks_ = scenario.mesh.size(MeshDimension::kData);
    if (result_.options.global_batch % ranks_ != 0) {
      throw UserError(elastic_policy(document)->location, "policies.memory_elastic.global_batch",
                      fmt::format("{} samples cannot be shared by {} data-parallel ranks",
                                  result_.options.global_batch, ranks_));
    }
    result_.ranks = ranks_;
    hardware_capacity_ = scenario.device.hbm.capacity;
    const std::int64_t share = result_.options.global_batch / ranks_;
    for (std::int64_t size = 1; size <= share; ++size) {
      if (share % size == 0 && is_allowed(size)) micro_batches_.push_back(size);
    }
    if (micro_batches_.empty() || !takes_count()) refuse_count(document);
  }

  ElasticStudy run() {
    result_.fits = true;
    std::size_t common = micro_batches_.size() - 1;
    for (std::size_t step = 0; step < result_.options.lengths.size(); ++step) {
      const std::size_t largest = largest_that_fits(step);
      common = std::min(common, largest);
      const ElasticSetting chosen = fastest(step, largest);
      result_.fits = result_.fits && chosen.result.status == PointStatus::kFits;
      result_.time += chosen.result.run.step;
      result_.steps.push_back(
          {.length = result_.options.lengths[step],
           .capacity = capacity(step).count > 0 ? capacity(step) : hardware_capacity_,
           .chosen = chosen});
    }
    // Nothing larger than what fits in the worst step fits in all of them.
    for (std::size_t i = common + 1; i-- > 0;) {
      FixedSetting fixed = in_all_steps(micro_batches_[i]);
      if (!fixed.fits) continue;
      if (result_.fixed && fixed.time >= result_.fixed->time) break;
      result_.fixed = std::move(fixed);
    }
    if (result_.options.deepspeed) {
      result_.valid_gpus = elastic_batch(*result_.options.deepspeed).gpus;
      const auto micro_batch =
          elastic_micro_batch(*result_.options.deepspeed, result_.options.global_batch, ranks_);
      if (micro_batch) result_.deepspeed = in_all_steps(*micro_batch);
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool is_allowed(std::int64_t size) const {
    if (!result_.options.deepspeed) return true;
    const auto& allowed = result_.options.deepspeed->micro_batches;
    return std::find(allowed.begin(), allowed.end(), size) != allowed.end();
  }

  // Whether DeepSpeed's elasticity takes this number of GPUs, which has to be in its range as well.
  [[nodiscard]] bool takes_count() const {
    if (!result_.options.deepspeed) return true;
    const std::vector<std::int64_t> gpus = elastic_batch(*result_.options.deepspeed).gpus;
    return std::find(gpus.begin(), gpus.end(), ranks_) != gpus.end();
  }

  // Throws for a number of GPUs that is none of DeepSpeed's.
  [[noreturn]] void refuse_count(const Value& document) const {
    const std::vector<std::int64_t> gpus = elastic_batch(*result_.options.deepspeed).gpus;
    const auto above = std::upper_bound(gpus.begin(), gpus.end(), ranks_);
    std::string nearest = above == gpus.begin() ? "" : fmt::to_string(*(above - 1));
    if (above != gpus.end()) nearest += fmt::format("{}{}", nearest.empty() ? "" : " or ", *above);
    throw UserError(elastic_policy(document)->location, "policies.memory_elastic.deepspeed",
                    fmt::format("{} data-parallel ranks cannot share the batch of {} with these "
                                "micro-batches, min_gpus and max_gpus; {} can",
                                ranks_, result_.options.global_batch, nearest));
  }

  [[nodiscard]] Bytes capacity(std::size_t step) const {
    return result_.options.capacities.empty() ? Bytes(0) : result_.options.capacities[step];
  }
  [[nodiscard]] StepKey key(std::size_t step, std::int64_t micro_batch) const {
    return {.length = result_.options.lengths[step],
            .capacity = capacity(step),
            .micro_batch = micro_batch,
            .accumulate = result_.options.global_batch / ranks_ / micro_batch};
  }

  // Returns the index of the largest micro-batch that fits, by bisection; 0 also where none does.
  std::size_t largest_that_fits(std::size_t step) {
    std::size_t fits = 0;
    std::size_t fails = micro_batches_.size();
    while (fails - fits > 1) {
      const std::size_t middle = fits + (fails - fits) / 2;
      (steps_.fits(key(step, micro_batches_[middle])) ? fits : fails) = middle;
    }
    return fits;
  }

  // Returns the fastest of the settings up to the largest that fits: smaller ones are tried as long
  // as they are faster.
  ElasticSetting fastest(std::size_t step, std::size_t largest) {
    std::optional<ElasticSetting> best;
    for (std::size_t i = largest + 1; i-- > 0;) {
      const StepKey tried = key(step, micro_batches_[i]);
      const PointResult& point = steps_.at(tried);
      const bool fits = point.status == PointStatus::kFits;
      if (!fits && i > 0) continue;
      if (best && (!fits || point.run.step >= best->result.run.step)) break;
      best = {tried.micro_batch, tried.accumulate, point};
    }
    return *std::move(best);
  }

  FixedSetting in_all_steps(std::int64_t micro_batch) {
    FixedSetting fixed;
    fixed.micro_batch = micro_batch;
    fixed.accumulate = result_.options.global_batch / ranks_ / micro_batch;
    fixed.fits = true;
    for (std::size_t step = 0; step < result_.options.lengths.size(); ++step) {
      const PointResult& point = steps_.at(key(step, micro_batch));
      fixed.fits = fixed.fits && point.status == PointStatus::kFits;
      fixed.time += point.run.step;
      fixed.steps.push_back(point);
    }
    return fixed;
  }

  Steps steps_;
  ElasticStudy result_;
  std::int64_t ranks_ = 1;
  Bytes hardware_capacity_;
  std::vector<std::int64_t> micro_batches_;  // ascending
};

}  // namespace
}  // namespace memory_elastic_detail

ElasticStudy study_elastic(const Value& document, const Environment& environment) {
  const std::vector<PointDocument> points = point_documents(document);
  if (points.size() > 1) {
    throw UserError(location_of_key(document, "sweep"), "sweep",
                    "memory_elastic is a study of one scenario; leave the sweep out with -s "
                    "sweep=null");
  }
  if (!points.front().error.empty()) throw UserError(points.front().error);
  const Value& point = points.front().document;
  const Value* parameters = elastic_policy(point);
  return memory_elastic_detail::Study(
             point, environment, decode_elastic(Decoder(*parameters, "policies.memory_elastic")))
      .run();
}

}  // namespace tidemark
