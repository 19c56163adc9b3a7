#include "scenarios/batches/deepspeed_elasticity.hpp"

#include <algorithm>
#include <random>

#include <doctest/doctest.h>

namespace tidemark::deepspeed_elasticity_test {
namespace {

using Numbers = std::vector<std::int64_t>;

TEST_SUITE("golden") {
  // The repository's own test: micro-batches 8, 12, 16 and 17 up to 10,000 on 32 to 1,500 GPUs.
  TEST_CASE("DeepSpeed's own example has a batch of 9,792 for 23 numbers of GPUs") {
    const ElasticityOptions options{
        .micro_batches = {8, 12, 16, 17}, .max_batch = 10'000, .min_gpus = 32, .max_gpus = 1'500};
    const ElasticBatch found = elastic_batch(options);
    CHECK(found.global_batch == 9'792);
    CHECK(found.gpus.size() == 23);
    CHECK(found.gpus.front() == 32);
    CHECK(found.gpus.back() == 1'224);
    // 9,792 / 64 = 153 = 9 x 17.
    CHECK(elastic_micro_batch(options, 9'792, 64) == 17);
  }

  TEST_CASE("other sets of micro-batches, as the algorithm of version 0.1 has them") {
    const ElasticBatch standard = elastic_batch({});
    CHECK(standard.global_batch == 1'680);
    CHECK(standard.gpus.size() == 32);
    CHECK(elastic_batch({.max_gpus = 64}).gpus.size() == 22);
    const ElasticBatch powers =
        elastic_batch({.micro_batches = {1, 2, 4, 8}, .max_batch = 1'024, .max_gpus = 256});
    CHECK(powers.global_batch == 840);
    CHECK(powers.gpus.size() == 29);
    const ElasticBatch two =
        elastic_batch({.micro_batches = {4, 8}, .max_batch = 512, .max_gpus = 128});
    CHECK(two.global_batch == 480);
    CHECK(two.gpus == Numbers{1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 24, 30, 40, 60, 120});
    CHECK(elastic_batch({.micro_batches = {3, 5}, .max_batch = 1'000, .max_gpus = 500})
              .global_batch == 720);
    // 6, 12, 24, 36 and 48 have more divisors than any smaller number; 30 has as many as 24.
    CHECK(highly_composite_up_to(35) == 24);
    CHECK(highly_composite_up_to(1) == 1);
    CHECK(highly_composite_up_to(2'000'000) == 720'720);
  }
}

TEST_SUITE("property") {
  TEST_CASE("each number of GPUs that is named shares the batch, and no other in range does") {
    std::mt19937 random(7);
    for (int trial = 0; trial < 20; ++trial) {
      const auto draw = [&](int most) { return std::uniform_int_distribution(1, most)(random); };
      ElasticityOptions options{.micro_batches = {draw(9), draw(9) + 1, draw(20)},
                                .max_batch = 100 + draw(900),
                                .min_gpus = draw(4),
                                .max_gpus = 4 + draw(90)};
      const ElasticBatch found = elastic_batch(options);
      CHECK(found.global_batch <= options.max_batch);
      for (std::int64_t gpus = 1; gpus <= 100; ++gpus) {
        const bool named =
            std::find(found.gpus.begin(), found.gpus.end(), gpus) != found.gpus.end();
        const bool in_range = gpus >= options.min_gpus && gpus <= options.max_gpus;
        const std::optional<std::int64_t> micro_batch =
            elastic_micro_batch(options, found.global_batch, gpus);
        CHECK(named == (in_range && micro_batch.has_value()));
        if (micro_batch) CHECK(found.global_batch % (gpus * *micro_batch) == 0);
      }
    }
  }
}

}  // namespace
}  // namespace tidemark::deepspeed_elasticity_test
