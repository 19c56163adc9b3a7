// The assignment of gradients to the buckets of DistributedDataParallel.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "graph/core/units.hpp"
#include "graph/ir/dtype.hpp"

namespace tidemark {

struct BucketLimits {
  Bytes bucket = kMiB * 25;   // bucket_cap_mb
  Bytes first_bucket = kMiB;  // kDefaultFirstBucketBytes
  bool find_unused = false;   // find_unused_parameters
};

struct BucketGradient {
  Bytes bytes;
  DType dtype = DType::kFloat32;
};

// Returns indices of gradients by bucket, in the order in which the buckets are reduced.
// `gradients` are in the order in which their parameters were registered.
//
// A bucket has one type. It is closed by the gradient that makes it reach its limit, so it
// overshoots by a part of that one; the first bucket of a type has a limit of its own:
//
//   limit 25 MiB    9 MiB | 18 MiB | closed: 27 MiB     500 MiB | closed by its first gradient
//
// Buckets are filled in the reverse order of registration, which stands for the order in which
// gradients become ready: the plan from the second iteration on. With find_unused they are filled
// in the order of registration and reduced from the last to the first, in every iteration.
// (torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size.)
[[nodiscard]] std::vector<std::vector<std::size_t>> gradient_buckets(
    std::span<const BucketGradient> gradients, const BucketLimits& limits);

}  // namespace tidemark
