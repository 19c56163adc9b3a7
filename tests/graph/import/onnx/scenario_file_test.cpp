// The model of scenarios/models/onnx.yaml. To write it anew:
//   TIDEMARK_WRITE_ONNX=1 ./bootstrap test -tc="*of the scenario*"
#if TIDEMARK_READS_ONNX
#include <cstdlib>
#include <fstream>
#include <iterator>

#include <doctest/doctest.h>

#include "tests/support/onnx_models.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::test::onnx_scenario_file_test {

TEST_SUITE("unit") {
  TEST_CASE("the ONNX model of the scenario is the one that this test writes") {
    const std::string path = test::source_path("scenarios/models/feed_forward.onnx");
    const std::string wanted = feed_forward_model(80).bytes();
    if (std::getenv("TIDEMARK_WRITE_ONNX") != nullptr) {
      std::ofstream(path, std::ios::binary) << wanted;
    }
    std::ifstream in(path, std::ios::binary);
    const std::string found{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    CHECK(found == wanted);
  }
}

}  // namespace tidemark::test::onnx_scenario_file_test
#endif
