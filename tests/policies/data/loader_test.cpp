#include "policies/data/loader.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "hwprofiles/device_profile.hpp"
#include "tests/support/paths.hpp"

namespace tidemark {
namespace loader_test {
namespace {

// A loader as processes that take turns: worker w decodes batches w, w + workers, ..., asks for
// the next one when the loop has taken one, and delivers in order. Returns the time between the
// ends of the last two steps.
double step_of(int workers, int prefetch, double decode, double step) {
  constexpr int kSteps = 400;
  std::vector<double> free_at(static_cast<std::size_t>(workers), 0);
  std::vector<double> ready(kSteps);
  std::vector<double> ended(kSteps);
  const int ahead = workers * prefetch;
  double now = 0;
  int asked = 0;
  const auto ask = [&](double at) {
    double& worker = free_at[static_cast<std::size_t>(asked % workers)];
    worker = std::max(worker, at) + decode;
    ready[static_cast<std::size_t>(asked++)] = worker;
  };
  while (asked < std::min(ahead, kSteps))
    ask(0);
  for (int i = 0; i < kSteps; ++i) {
    now = std::max(now, ready[static_cast<std::size_t>(i)]);
    if (asked < kSteps) ask(now);
    now += step;
    ended[static_cast<std::size_t>(i)] = now;
  }
  // Workers that started together deliver in bursts: the mean over their cycles.
  const int window = 100 / workers * workers;
  return (ended[static_cast<std::size_t>(kSteps - ahead - 1)] -
          ended[static_cast<std::size_t>(kSteps - ahead - 1 - window)]) /
         window;
}

const DeviceProfile& device() {
  static const DeviceProfile profile = load_device_profile(
      "a100-sxm-80gb", std::vector<std::string>{test::source_path("hwprofiles")});
  return profile;
}

}  // namespace

TEST_SUITE("golden") {
  // The bounds follow from the code of torch.utils.data; a batch takes 38,535,168 bytes (64 fp32
  // images of 224 x 224).
  TEST_CASE("a loader keeps prefetch_factor batches per worker, and one more page-locked") {
    struct Row {
      int workers, factor;
      bool pin;
      int device;
      std::int64_t outstanding, shared, pinned, on_device;
    };
    constexpr std::array kRows{
        Row{0, 2, false, 1, 0, 0, 0, 77070336},
        Row{0, 2, true, 1, 0, 0, 38535168, 77070336},
        Row{2, 2, true, 0, 4, 154140672, 192675840, 38535168},
        Row{4, 4, false, 0, 16, 616562688, 0, 38535168},
        Row{8, 4, true, 2, 32, 1233125376, 1271660544, 115605504},
    };
    for (const Row& row : kRows) {
      const LoaderSpec spec{.workers = row.workers,
                            .prefetch_factor = row.factor,
                            .pin_memory = row.pin,
                            .device_prefetch = row.device};
      const LoaderFigures figures = loader_figures(spec, Bytes(38535168), 64, device(), 1);
      CHECK(figures.outstanding == row.outstanding);
      CHECK(figures.shared_memory.count == row.shared);
      CHECK(figures.page_locked.count == row.pinned);
      CHECK(figures.device_inputs.count == row.on_device);
    }
  }
}

TEST_SUITE("property") {
  TEST_CASE("a step waits as long as one that is played worker by worker") {
    std::mt19937 random(7);
    for (int i = 0; i < 200; ++i) {
      const int workers = std::uniform_int_distribution<>(1, 8)(random);
      const int prefetch = std::uniform_int_distribution<>(1, 4)(random);
      const auto step = Duration(std::uniform_int_distribution<>(1'000, 100'000)(random));
      const auto decode = Duration(std::uniform_int_distribution<>(1'000, 400'000)(random));
      const LoaderSpec spec{.workers = workers, .prefetch_factor = prefetch, .decode = decode};
      const LoaderFigures figures = loader_figures(spec, Bytes(0), 1, device(), 1);
      const Duration stall = loader_stall(spec, figures, 1, step, Duration(0));
      const double played = step_of(workers, prefetch, static_cast<double>(decode.count()),
                                    static_cast<double>(step.count()));
      CHECK(static_cast<double>((step + stall).count()) == doctest::Approx(played).epsilon(0.01));
    }
  }

  TEST_CASE("a faster loader never makes a step longer") {
    std::mt19937 random(8);
    for (int i = 0; i < 200; ++i) {
      const auto number = [&](int low, int high) {
        return std::uniform_int_distribution<>(low, high)(random);
      };
      LoaderSpec spec{.workers = number(1, 8),
                      .pin_memory = number(0, 1) == 1,
                      .device_prefetch = number(0, 2),
                      .sample = Bytes(number(1, 1'000'000)),
                      .read = BytesPerSecond{1e6 * number(1, 1000)},
                      .decode = Duration(number(0, 10'000'000))};
      const Duration step(number(1, 100'000'000));
      const Duration link(number(0, 100'000'000));
      const auto stall = [&] {
        const LoaderFigures f = loader_figures(spec, Bytes(1'000'000), 8, device(), 8);
        return loader_stall(spec, f, 2, step, link);
      };
      const Duration before = stall();
      spec.workers += 1;
      CHECK(stall() <= before);
      const Duration then = stall();
      spec.pin_memory = true;
      CHECK(stall() <= then);
      const Duration pinned = stall();
      spec.read.value *= 2;
      CHECK(stall() <= pinned);
    }
  }
}

}  // namespace loader_test
}  // namespace tidemark
