// The picture of a pipeline has a box for each part of each stage, at its time.
#include "plots/pipeline_picture.hpp"

#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace tidemark::pipeline_picture_test {
namespace {

StagePart part(StageWork work, int micro_batch, int begin, int end) {
  return {.work = work,
          .micro_batch = micro_batch,
          .chunk = 0,
          .begin = Duration(begin),
          .end = Duration(end)};
}

// Two stages, two micro-batches, 1F1B: stage 1 begins when the first forward has ended.
std::vector<StageResult> two_stages() {
  std::vector<StageResult> stages(2);
  stages[0].chunks.resize(1);
  stages[0].parts = {part(StageWork::kForward, 0, 0, 1000),
                     part(StageWork::kForward, 1, 1000, 2000),
                     part(StageWork::kBackward, 0, 4000, 6000)};
  stages[1].stage = 1;
  stages[1].chunks.resize(1);
  stages[1].parts = {part(StageWork::kForward, 0, 1000, 2000),
                     part(StageWork::kBackward, 0, 2000, 4000)};
  return stages;
}

int count(const std::string& text, const std::string& words) {
  int found = 0;
  for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1))
    ++found;
  return found;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a pipeline's picture has a row for each stage and a box for each part") {
    std::ostringstream out;
    write_pipeline_picture(out, "a < b", "two stages", two_stages());
    const std::string svg = out.str();
    CHECK(svg.rfind("<svg ", 0) == 0);
    CHECK(svg.find("a &lt; b") != std::string::npos);
    CHECK(count(svg, ">stage ") == 2);
    CHECK(count(svg, "stroke=\"#fff\"") == 5);
    // 6,000 ns are 1,000 pixels: the backward of stage 0 is from 4,000 to 6,000, 64 pixels from the
    // left edge on.
    CHECK(svg.find("x=\"730.7\" y=\"62.0\" width=\"333.3\"") != std::string::npos);
    CHECK(svg.find("weight gradients") == std::string::npos);  // there are none
  }

  TEST_CASE("each group that stages communicate in has a lane below the boxes") {
    std::vector<StageResult> stages = two_stages();
    const auto used = [](MeshDimension group, int begin, int end) {
      return CommunicationStretch{group, Duration(begin), Duration(end)};
    };
    // Stretches from before the first forward are cut there; those nearer than a third of a pixel
    // are one box; the reduction behind the last backward lengthens the picture to 8,000 ns.
    stages[0].communication = {
        used(MeshDimension::kTensor, -500, -100), used(MeshDimension::kTensor, -100, 800),
        used(MeshDimension::kTensor, 801, 1600), used(MeshDimension::kPipeline, 1000, 2000),
        used(MeshDimension::kData, 6000, 8000)};
    std::ostringstream out;
    write_pipeline_picture(out, "t", "s", stages);
    const std::string svg = out.str();
    CHECK(count(svg, "communication: ") == 3);
    CHECK(count(svg, "height=\"4\" fill=\"#c0562a\"") == 2);  // the reduction, and the legend
    // Lanes are in the order of the dimensions: data, tensor, pipeline.
    CHECK(svg.find("x=\"814.0\" y=\"83.0\" width=\"250.0\" height=\"4\"") != std::string::npos);
    CHECK(svg.find("x=\"64.0\" y=\"88.0\" width=\"200.0\" height=\"4\"") != std::string::npos);
    CHECK(svg.find("x=\"189.0\" y=\"93.0\" width=\"125.0\" height=\"4\"") != std::string::npos);
    CHECK(count(svg, "height=\"4\"") == 6);
  }

  TEST_CASE("the numbers of a pipeline's picture are a table") {
    std::ostringstream out;
    write_pipeline_csv(out, two_stages());
    CHECK(out.str().rfind("stage,part,micro_batch,chunk,begin,end\n"
                          "0,F,0,0,0.000000000,0.000001000\n",
                          0) == 0);
    CHECK(count(out.str(), "\n") == 6);
  }
}

}  // namespace tidemark::pipeline_picture_test
