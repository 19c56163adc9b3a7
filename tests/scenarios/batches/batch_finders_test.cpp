#include "scenarios/batches/batch_finders.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace tidemark::batch_finders_test {
namespace {

using Batches = std::vector<std::int64_t>;

BatchFinder finder(std::string_view name) {
  for (const BatchFinder& known : batch_finders()) {
    if (known.name == name) return known;
  }
  return {};
}

FinderTrials search(const BatchFinder& finder, std::int64_t largest) {
  return find_batch(finder, [&](std::int64_t batch) { return batch <= largest; });
}

Batches doublings(std::int64_t last) {
  Batches batches;
  for (std::int64_t batch = 2; batch <= last; batch *= 2)
    batches.push_back(batch);
  return batches;
}

Batches operator+(Batches first, const Batches& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

TEST_SUITE("golden") {
  // The batches that Lightning 2's and Accelerate's finders try if 37, 300 ... is the largest that
  // fits, followed by hand through their loops.
  TEST_CASE("Lightning's power mode doubles, and returns half of what fails untested") {
    const BatchFinder power = finder("lightning_power");
    CHECK(search(power, 2).tried == Batches{2, 4});
    CHECK(search(power, 5).found == 4);
    CHECK(search(power, 37).tried == doublings(64));
    CHECK(search(power, 37).found == 32);
    CHECK(search(power, 64).tried == doublings(128));
    CHECK(search(power, 3000).tried == doublings(4096));
    CHECK(search(power, 3000).found == 2048);
    // The whole data set, 8,192 samples, is returned without a trial.
    CHECK(search(power, 9000).tried == doublings(4096));
    CHECK(search(power, 9000).found == 8192);
    CHECK_FALSE(search(power, 9000).tested);
    CHECK(search(power, 37).tested);
  }

  TEST_CASE("Lightning's bisection ends next to the limit, less a margin") {
    BatchFinder bisection = finder("lightning_binsearch");
    CHECK(search(bisection, 3).tried == Batches{2, 4, 3});
    CHECK(search(bisection, 3).found == 2);
    CHECK(search(bisection, 37).tried == doublings(64) + Batches{48, 40, 36, 38, 37});
    CHECK(search(bisection, 37).found == 35);
    CHECK(search(bisection, 1000).found == 950);
    CHECK(search(bisection, 3000).tried ==
          doublings(4096) +
              Batches{3072, 2560, 2816, 2944, 3008, 2976, 2992, 3000, 3004, 3002, 3001});
    bisection.margin_percent = 0;
    CHECK(search(bisection, 5).tried == Batches{2, 4, 8, 6, 5});
    CHECK(search(bisection, 64).tried == doublings(128) + Batches{96, 80, 72, 68, 66, 65});
    CHECK(search(bisection, 64).found == 64);
    CHECK(search(bisection, 9000).tried == doublings(4096));
    CHECK(search(bisection, 9000).found == 8192);
  }

  TEST_CASE("Accelerate goes down from its first batch and keeps the first that fits") {
    const BatchFinder ninths = finder("accelerate");
    CHECK(search(ninths, 37).tried == Batches{128, 115, 103, 92, 82, 73, 65, 58, 52, 46, 41, 36});
    CHECK(search(ninths, 37).found == 36);
    CHECK(search(ninths, 10).found == 9);
    CHECK(search(ninths, 5).tried.size() == 26);
    CHECK(search(ninths, 9000).tried == Batches{128});
    const BatchFinder halves = finder("accelerate_halving");
    CHECK(search(halves, 1).tried == Batches{128, 64, 32, 16, 8, 4, 2, 1});
    CHECK(search(halves, 24).found == 16);
  }

  TEST_CASE("where nothing fits the finders give up") {
    // Bisection ends next to a low end of 1 that it has never tried.
    CHECK(search(finder("lightning_binsearch"), 0).tried == Batches{2});
    CHECK_FALSE(search(finder("lightning_binsearch"), 0).tested);
    CHECK(search(finder("accelerate_halving"), 0).tried.back() == 1);
    CHECK(search(finder("accelerate"), 0).found == 0);
    CHECK(search(finder("lightning_power"), 0).found == 0);
    // Power mode starts to double again where its first batch was too large.
    CHECK(search(finder("lightning_power"), 1).tried == Batches{2, 1, 2});
    CHECK(search(finder("lightning_power"), 1).found == 1);
  }
}

TEST_SUITE("property") {
  TEST_CASE("without a margin bisection finds the largest batch, and no finder tests more") {
    BatchFinder bisection = finder("lightning_binsearch");
    bisection.margin_percent = 0;
    for (std::int64_t largest = 2; largest < 4096; largest += 1 + largest / 7) {
      CAPTURE(largest);
      CHECK(search(bisection, largest).found == largest);
      for (const BatchFinder& known : batch_finders()) {
        const FinderTrials trials = search(known, largest);
        CHECK(trials.found <= largest);
        CHECK(trials.tested);
      }
    }
  }
}

}  // namespace
}  // namespace tidemark::batch_finders_test
