// Modules that work in place: named by the file's metadata or by the scenario.
#if TIDEMARK_READS_ONNX
#include <doctest/doctest.h>

#include "tests/graph/import/onnx/onnx_probe.hpp"

namespace tidemark::test::modules_in_place_test {
namespace {

// LeakyReLU of an activation, read by a product that keeps it: in place both keep one tensor.
OnnxProbe leaky(const std::string& module) {
  OnnxProbe probe({4, 8});
  OnnxWriter& w = probe.w;
  const std::string h = w.node("LeakyRelu", {probe.x}, {}, "/" + module + "/LeakyRelu");
  w.output(w.node("Gemm", {h, w.parameter("w", {8, 8})}));
  return probe;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("an activation in place keeps its result instead of its input") {
    OnnxProbe plain = leaky("act");
    CHECK(saved(plain.w) == 2 * plain.n());
    OnnxProbe named = leaky("act");
    named.w.metadata("tidemark.inplace:act", "LeakyReLU");
    CHECK(saved(named.w) == named.n());
    // The exporter numbers the second call of a module.
    OnnxProbe again = leaky("act_1");
    again.w.metadata("tidemark.inplace:act", "LeakyReLU");
    CHECK(saved(again.w) == again.n());
  }

  TEST_CASE("a module of another class with such an attribute says nothing about operators") {
    OnnxProbe probe = leaky("act");
    probe.w.metadata("tidemark.inplace:act", "Residual");
    CHECK(saved(probe.w) == 2 * probe.n());
  }

  TEST_CASE("model.in_place names modules by patterns") {
    OnnxOptions onnx;
    onnx.in_place = {"*.act"};
    OnnxProbe probe = leaky("block/act");
    CHECK(saved(probe.w, onnx) == probe.n());
    onnx.in_place = {"*.relu"};
    CHECK(problem(probe.w, onnx).find("no module '*.relu'") != std::string::npos);
  }
}

}  // namespace tidemark::test::modules_in_place_test

#endif  // TIDEMARK_READS_ONNX
