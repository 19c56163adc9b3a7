// Buckets of DistributedDataParallel, against the rules read in reducer.cpp.
#include "policies/rewrite/gradient_buckets.hpp"

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

namespace tidemark::gradient_buckets_test {
namespace {

using Buckets = std::vector<std::vector<std::size_t>>;

std::vector<BucketGradient> gradients_of(const std::vector<std::int64_t>& mebibytes) {
  std::vector<BucketGradient> gradients;
  for (const std::int64_t size : mebibytes)
    gradients.push_back({Bytes(size) * kMiB.count, DType::kFloat32});
  return gradients;
}

// GPT-2 124M in the order of registration: embeddings, 12 blocks, the last normalisation. The head
// is tied to the first embedding.
std::vector<BucketGradient> gpt2(std::int64_t element) {
  const std::int64_t w = 768;
  std::vector<std::int64_t> elements{50257 * w, 1024 * w};
  for (int block = 0; block < 12; ++block) {
    for (const std::int64_t n :
         {w, w, 3 * w * w, 3 * w, w * w, w, w, w, 4 * w * w, 4 * w, 4 * w * w, w}) {
      elements.push_back(n);
    }
  }
  elements.insert(elements.end(), {w, w});
  std::vector<BucketGradient> gradients;
  for (const std::int64_t n : elements)
    gradients.push_back({Bytes(n * element), element == 4 ? DType::kFloat32 : DType::kBFloat16});
  return gradients;
}

std::vector<std::int64_t> bytes_of(const std::vector<BucketGradient>& gradients,
                                   const Buckets& buckets) {
  std::vector<std::int64_t> sums;
  for (const std::vector<std::size_t>& bucket : buckets) {
    std::int64_t sum = 0;
    for (const std::size_t member : bucket)
      sum += gradients[member].bytes.count;
    sums.push_back(sum);
  }
  return sums;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("buckets fill in reverse order and overshoot by their last gradient") {
    // 1 MiB first: the 2 closes it. 9 + 18 close the second, 500 the third; 3 and 4 are left.
    const auto gradients = gradients_of({4, 3, 500, 18, 9, 2});
    CHECK(gradient_buckets(gradients, {}) == Buckets{{5}, {4, 3}, {2}, {1, 0}});
    CHECK(gradient_buckets(gradients, {.bucket = kMiB * 1000, .first_bucket = kMiB * 1000}) ==
          Buckets{{5, 4, 3, 2, 1, 0}});
  }

  TEST_CASE("with find_unused limits apply in the order of registration, the list is reversed") {
    // 4 closes the first; 3 + 500 the second; 18 + 9 the third; 2 is left and goes first.
    const auto gradients = gradients_of({4, 3, 500, 18, 9, 2});
    CHECK(gradient_buckets(gradients, {.find_unused = true}) == Buckets{{5}, {3, 4}, {1, 2}, {0}});
  }

  TEST_CASE("each type has buckets and a first limit of its own") {
    auto gradients = gradients_of({2, 2, 2, 2});
    gradients[1].dtype = gradients[3].dtype = DType::kBFloat16;
    CHECK(gradient_buckets(gradients, {}) == Buckets{{3}, {2}, {0}, {1}});
  }

  TEST_CASE("GPT-2 has the buckets that PyTorch's rules give") {
    // ../shared/cases/parallel/ddp-buckets.csv: c_proj's 9 MiB close the first bucket, whole blocks
    // of 27 MiB follow, the tied embedding comes last.
    const auto wide = gpt2(4);
    const auto bytes = bytes_of(wide, gradient_buckets(wide, {}));
    CHECK(bytes.size() == 13);
    CHECK(bytes.front() == 9'446'400);
    CHECK(bytes[1] == 28'351'488);
    CHECK(bytes.back() == 176'446'464);
    const auto unused = bytes_of(wide, gradient_buckets(wide, {.find_unused = true}));
    CHECK(unused.size() == 14);
    CHECK(unused.front() == 9216);
    CHECK(unused.back() == 154'389'504);
    const auto narrow = gpt2(2);
    const auto half = bytes_of(narrow, gradient_buckets(narrow, {}));
    CHECK(half.size() == 7);
    CHECK(half.front() == 4'723'200);
    CHECK(half.back() == 102'398'976);
  }
}

}  // namespace tidemark::gradient_buckets_test
