#include "scenarios/batches/deepspeed_elasticity.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace tidemark {
namespace deepspeed_elasticity_detail {
namespace {

constexpr std::int64_t kLargestListed = 720'720;

// Returns the divisors of `number` within a range, ascending; at most its square root is counted.
std::vector<std::int64_t> divisors_within(std::int64_t number, std::int64_t low,
                                          std::int64_t high) {
  std::vector<std::int64_t> divisors;
  const auto add = [&](std::int64_t divisor) {
    if (divisor >= low && divisor <= high) divisors.push_back(divisor);
  };
  for (std::int64_t small = 1; small <= number / small; ++small) {
    if (number % small != 0) continue;
    add(small);
    if (small != number / small) add(number / small);
  }
  std::sort(divisors.begin(), divisors.end());
  return divisors;
}

// Returns the numbers of GPUs whose shares of `batch` are multiples of an allowed micro-batch.
std::vector<std::int64_t> gpus_that_share(const ElasticityOptions& options, std::int64_t batch) {
  std::set<std::int64_t> all;
  for (const std::int64_t micro_batch : options.micro_batches) {
    if (batch % micro_batch != 0) continue;
    for (const std::int64_t gpus :
         divisors_within(batch / micro_batch, options.min_gpus, options.max_gpus))
      all.insert(gpus);
  }
  return {all.begin(), all.end()};
}

// Returns the least common multiple, or `above` where it would be at least that.
std::int64_t common_multiple(const std::vector<std::int64_t>& numbers, std::int64_t above) {
  std::int64_t multiple = 1;
  for (const std::int64_t number : numbers) {
    const std::int64_t factor = number / std::gcd(multiple, number);
    if (factor > above / multiple) return above + 1;
    multiple *= factor;
  }
  return multiple;
}

}  // namespace
}  // namespace deepspeed_elasticity_detail

std::int64_t highly_composite_up_to(std::int64_t limit) {
  const std::int64_t last = std::min(limit, deepspeed_elasticity_detail::kLargestListed);
  // The divisors of all numbers up to the limit are counted as a sieve does.
  std::vector<int> divisors(static_cast<std::size_t>(last) + 1, 0);
  for (std::int64_t divisor = 1; divisor <= last; ++divisor) {
    for (std::int64_t multiple = divisor; multiple <= last; multiple += divisor)
      ++divisors[static_cast<std::size_t>(multiple)];
  }
  const auto most = std::max_element(divisors.begin(), divisors.end());  // the first of several
  return most - divisors.begin();
}

ElasticBatch elastic_batch(const ElasticityOptions& options) {
  std::vector<std::int64_t> bases = options.micro_batches;
  bases.push_back(
      deepspeed_elasticity_detail::common_multiple(options.micro_batches, options.max_batch));
  std::set<std::int64_t> candidates;
  for (const std::int64_t base : bases) {
    if (base > options.max_batch) continue;
    candidates.insert(base * highly_composite_up_to(options.max_batch / base));
  }
  ElasticBatch best;
  for (const std::int64_t batch : candidates) {
    std::vector<std::int64_t> gpus = deepspeed_elasticity_detail::gpus_that_share(options, batch);
    const bool more = gpus.size() > best.gpus.size();
    const bool as_many = gpus.size() == best.gpus.size();
    if (!more && !(as_many && !gpus.empty() && options.prefer_larger)) continue;
    best = {batch, std::move(gpus)};
  }
  return best;
}

std::optional<std::int64_t> elastic_micro_batch(const ElasticityOptions& options,
                                                std::int64_t global_batch, std::int64_t gpus) {
  std::optional<std::int64_t> chosen;
  if (gpus < 1 || global_batch % gpus != 0) return chosen;
  for (const std::int64_t micro_batch : options.micro_batches) {
    if (global_batch / gpus % micro_batch != 0) continue;
    const bool better =
        !chosen || (options.prefer_larger ? micro_batch > *chosen : micro_batch < *chosen);
    if (better) chosen = micro_batch;
  }
  return chosen;
}

}  // namespace tidemark
