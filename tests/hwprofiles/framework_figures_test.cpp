// Figures that differ between versions of the framework.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "graph/core/document.hpp"
#include "hwprofiles/assumed_figures.hpp"
#include "hwprofiles/device_profile.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::framework_figures_test {
namespace {

DeviceProfile load(const std::string& name, const std::string& overrides = "{}") {
  const Value changes = parse_document(overrides, "s.yaml");
  return load_device_profile(name, std::vector<std::string>{test::source_path("hwprofiles")},
                             changes.entries.empty() ? nullptr : &changes);
}

std::int64_t context_mib(const DeviceProfile& profile, FrameworkEra era) {
  return for_framework(profile, era).framework.context.count / kMiB.count;
}

std::vector<std::string> context_figures(const DeviceProfile& profile) {
  std::vector<std::string> paths;
  for (const Figure& figure : profile.figures)
    if (figure.path.starts_with("framework.context")) paths.push_back(figure.path);
  return paths;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the CUDA context is that of the framework and the device") {
    const DeviceProfile a100 = load("a100-sxm-80gb");
    CHECK(context_mib(a100, FrameworkEra::kTorch19) == 1823);
    CHECK(context_mib(a100, FrameworkEra::kTorch113) == 922);
    CHECK(context_mib(a100, FrameworkEra::kTorch21) == 481);
    CHECK(context_mib(a100, FrameworkEra::kTorch24) == 481);
    CHECK(a100.framework.context == Bytes(481) * kMiB.count);
    CHECK(context_mib(load("v100-sxm-16gb"), FrameworkEra::kTorch19) == 1343);
    // Its own figures of the older versions, and the A100's of the newer ones.
    const DeviceProfile rtx = load("rtx-3090-24gb");
    CHECK(context_mib(rtx, FrameworkEra::kTorch19) == 1687);
    CHECK(context_mib(rtx, FrameworkEra::kTorch24) == 481);
  }

  TEST_CASE("attention of PyTorch 2.0 and 2.1 is half as fast") {
    const DeviceProfile a100 = load("a100-sxm-80gb");
    const DeviceProfile old = for_framework(a100, FrameworkEra::kTorch21);
    const DeviceProfile now = for_framework(a100, FrameworkEra::kTorch24);
    REQUIRE(old.attention_forward.size() == now.attention_forward.size());
    for (std::size_t i = 0; i < now.attention_forward.size(); ++i) {
      CHECK(2 * old.attention_forward[i].share == now.attention_forward[i].share);
      CHECK(2 * old.attention_forward[i].causal_share == now.attention_forward[i].causal_share);
      CHECK(2 * old.attention_backward[i].share == now.attention_backward[i].share);
      CHECK(old.attention_backward[i].half_length == now.attention_backward[i].half_length);
    }
    CHECK(now.attention_forward[0].share == a100.attention_forward[0].share);
  }

  TEST_CASE("one number holds for all versions, and replaces the group of a profile") {
    const DeviceProfile own = load("a100-sxm-80gb", "{framework: {context: 600MiB}}");
    for (const FrameworkEra era : {FrameworkEra::kTorch19, FrameworkEra::kTorch24})
      CHECK(context_mib(own, era) == 600);
    CHECK(context_figures(own) == std::vector<std::string>{"framework.context"});
  }

  TEST_CASE("a version without a figure of its own takes the next newer one") {
    ByFramework<Bytes> some;
    some.values[1] = Bytes(1);
    some.values[2] = Bytes(2);
    CHECK(some.at(FrameworkEra::kTorch19) == Bytes(1));
    CHECK(some.at(FrameworkEra::kTorch113) == Bytes(1));
    CHECK(some.at(FrameworkEra::kTorch21) == Bytes(2));
    CHECK(some.at(FrameworkEra::kTorch24) == Bytes(2));
  }

  TEST_CASE("a profile for a framework lists its figures only, and keeps them when one changes") {
    const DeviceProfile all = load("a100-sxm-80gb");
    CHECK(context_figures(all).size() == 4);
    const DeviceProfile old = for_framework(all, FrameworkEra::kTorch113);
    CHECK(context_figures(old) == std::vector<std::string>{"framework.context"});
    const DeviceProfile changed = with_figure(old, "host.synchronize", "10us");
    CHECK(changed.framework.context == Bytes(922) * kMiB.count);
    CHECK(with_figure(old, "framework.context", "1GiB").framework.context == kGiB);
    // The range that the figure states.
    for (const AssumedFigure& figure : assumed_figures(old)) {
      if (figure.path != "framework.context") continue;
      CHECK(figure.low == "922MiB");
      CHECK(figure.high == "1823MiB");
    }
  }
}

}  // namespace tidemark::framework_figures_test
