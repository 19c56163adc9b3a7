// The pictures of the README can still be made.
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "tests/cli/command_runner.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::gallery_test {

using namespace tidemark::testing;

TEST_SUITE("unit") {
  TEST_CASE("the gallery's scenarios fit and draw small pictures") {
    const Workspace work;
    const std::string gallery = tidemark::test::source_path("scenarios/gallery/");
    const std::pair<std::string, std::string> pictures[] = {{"step", "timeline.svg"},
                                                            {"step", "addresses.svg"},
                                                            {"checkpointing", "timelines.svg"},
                                                            {"trade_offs", "pareto.svg"}};
    for (const auto& [scenario, picture] : pictures) {
      CAPTURE(scenario);
      const Outcome run = work.run("run " + gallery + scenario + ".yaml --no-chart -o " + scenario);
      CHECK(run.code == 0);
      const std::string svg = work.read(scenario + "/" + picture);
      CHECK(svg.starts_with("<svg "));
      CHECK(svg.size() < 60'000);
      CHECK(std::filesystem::exists(tidemark::test::source_path("plots/gallery/") + picture));
    }
  }
}

}  // namespace tidemark::gallery_test
