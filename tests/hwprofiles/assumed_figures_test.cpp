#include "hwprofiles/assumed_figures.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::assumed_figures_test {

namespace {

DeviceProfile load(const std::string& name, const std::string& overrides = "{}") {
  const Value document = parse_document(overrides, "scenario.yaml");
  return load_device_profile(name, std::vector<std::string>{test::source_path("hwprofiles")},
                             &document);
}

const AssumedFigure* find(const std::vector<AssumedFigure>& figures, const std::string& path) {
  const auto found = std::find_if(figures.begin(), figures.end(),
                                  [&](const AssumedFigure& f) { return f.path == path; });
  return found == figures.end() ? nullptr : &*found;
}

void check_range(const std::vector<AssumedFigure>& figures, const std::string& path,
                 const std::string& low, const std::string& high) {
  CAPTURE(path);
  const AssumedFigure* figure = find(figures, path);
  REQUIRE(figure != nullptr);
  CHECK(figure->low == low);
  CHECK(figure->high == high);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("sources say which figures are assumed, and their kind how far off they may be") {
    const std::vector<AssumedFigure> a100 = assumed_figures(load("a100-sxm-80gb"));
    // Its own range; the source is a measurement, but one of several hosts.
    check_range(a100, "host.dispatch", "10us", "50us");
    // "taken over from elementwise": 0.83 less and more 20 %.
    check_range(a100, "efficiency.bandwidth.pooling", "0.664", "0.996");
    // "assumption": times half and twice.
    check_range(a100, "host.synchronize", "2.5us", "10us");
    CHECK(find(a100, "hbm.capacity") == nullptr);   // read on the device
    CHECK(find(a100, "peaks.bf16") == nullptr);     // the data sheet's
    CHECK(find(a100, "launch.matmul") == nullptr);  // twice 0us is 0us
    const std::vector<AssumedFigure> h200 = assumed_figures(load("h200-sxm-141gb"));
    check_range(h200, "hbm.capacity", "140292MiB", "146018MiB");
    const std::vector<AssumedFigure> b200 = assumed_figures(load("b200-sxm-192gb"));
    // Another chip's 0.90 of the bandwidth; kernels do not reach more than all of it.
    check_range(b200, "efficiency.bandwidth.elementwise", "0.72", "1");
    // "recalled": 10 %.
    check_range(b200, "vector.fp64", "36TFLOP/s", "44TFLOP/s");
    CHECK(find(b200, "host.gpus") == nullptr);
  }

  TEST_CASE("a profile with another value of a figure differs in nothing else") {
    const DeviceProfile a100 = load("a100-sxm-80gb");
    const DeviceProfile changed = with_figure(a100, "hbm.bandwidth", "1TB/s");
    CHECK(changed.hbm.bandwidth == BytesPerSecond{1e12});
    CHECK(changed.hbm.capacity == a100.hbm.capacity);
    CHECK(changed.matrix[static_cast<std::size_t>(DType::kBFloat16)].peak ==
          a100.matrix[static_cast<std::size_t>(DType::kBFloat16)].peak);
    CHECK(changed.attention_backward.size() == a100.attention_backward.size());
    CHECK(changed.bandwidth == a100.bandwidth);
    CHECK(changed.figures.size() == a100.figures.size());
    // Both directions of a link slow down together.
    CHECK(with_figure(a100, "links.d2h.alone", "20GB/s").links.device_to_host.duplex ==
          BytesPerSecond{20e9});
    CHECK_THROWS_AS(static_cast<void>(with_figure(a100, "efficiency.bandwidth.softmax", "9")),
                    UserError);
  }

  TEST_CASE("a range that does not hold its value, or is none, is refused") {
    CHECK_THROWS_WITH_AS(
        static_cast<void>(
            load("a100-sxm-80gb", "{host: {dispatch: {value: 30us, range: 5us to 25us}}}")),
        doctest::Contains("the value of the figure lies outside of it"), UserError);
    CHECK_THROWS_WITH_AS(
        static_cast<void>(load("a100-sxm-80gb", "{host: {dispatch: {value: 10us, range: 5us}}}")),
        doctest::Contains("expected a range, like 5us to 25us"), UserError);
    CHECK_THROWS_AS(static_cast<void>(load("a100-sxm-80gb",
                                           "{host: {dispatch: {value: 10us, range: 5us to 1GB}}}")),
                    UserError);
  }
}

}  // namespace tidemark::assumed_figures_test
