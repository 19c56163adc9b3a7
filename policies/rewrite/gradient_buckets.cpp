#include "policies/rewrite/gradient_buckets.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace tidemark {
namespace gradient_buckets_detail {
namespace {

struct OpenBucket {
  std::vector<std::size_t> gradients;
  Bytes bytes;
  bool is_first = true;  // first of its type
};

}  // namespace
}  // namespace gradient_buckets_detail

std::vector<std::vector<std::size_t>> gradient_buckets(std::span<const BucketGradient> gradients,
                                                       const BucketLimits& limits) {
  std::vector<std::size_t> order(gradients.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!limits.find_unused) std::reverse(order.begin(), order.end());
  std::vector<std::vector<std::size_t>> buckets;
  std::array<gradient_buckets_detail::OpenBucket, static_cast<std::size_t>(DType::kBool) + 1> open;
  for (const std::size_t i : order) {
    gradient_buckets_detail::OpenBucket& bucket =
        open[static_cast<std::size_t>(gradients[i].dtype)];
    bucket.gradients.push_back(i);
    bucket.bytes += gradients[i].bytes;
    const Bytes limit = bucket.is_first ? limits.first_bucket : limits.bucket;
    if (bucket.bytes < limit) continue;
    buckets.push_back(std::exchange(bucket.gradients, {}));
    bucket.bytes = Bytes(0);
    bucket.is_first = false;
  }
  for (gradient_buckets_detail::OpenBucket& rest : open) {
    if (!rest.gradients.empty()) buckets.push_back(std::move(rest.gradients));
  }
  if (limits.find_unused) {
    // PyTorch sorts them by their first parameter before it reverses the list.
    std::sort(buckets.begin(), buckets.end(),
              [](const auto& a, const auto& b) { return a.front() > b.front(); });
  }
  return buckets;
}

}  // namespace tidemark
