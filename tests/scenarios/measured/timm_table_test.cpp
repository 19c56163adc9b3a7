// timm's tables of training steps: what their names say.
#include <string>

#include <doctest/doctest.h>

#include "hwprofiles/measured/csv_table.hpp"
#include "scenarios/measured/measured_steps.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::timm_table_test {

TEST_SUITE("unit") {
  TEST_CASE("the name of timm's table says device and layout, its folders say nothing") {
    const ScenarioFolder folder("timm");
    const std::string models = folder.write("net.onnx", "any file");
    const auto read = [&](const std::string& file) {
      const CsvTable table = parse_csv("model,img_size,batch,step_ms\nnet,224,8,10\n", file);
      const MeasuredSteps steps = read_measured_steps(
          table, {.gpu = "", .models_folder = models.substr(0, models.rfind('/'))});
      REQUIRE_FALSE(steps.steps.empty());
      return steps.steps.front();
    };
    const auto is_last = [](const MeasuredStep& step) {
      return step.scenario.find("memory_format: channels_last") != std::string::npos;
    };
    CHECK(is_last(read("data/timm-train-rtx3090-nhwc.csv.gz")));
    CHECK(is_last(read("nchw/timm-train-rtx3090-nhwc.csv.gz")));
    const MeasuredStep first = read("nhwc-data/timm-train-rtx3090-nchw.csv.gz");
    CHECK_FALSE(is_last(first));
    CHECK(first.group == "timm rtx3090 contiguous");
  }
}

}  // namespace tidemark::timm_table_test
