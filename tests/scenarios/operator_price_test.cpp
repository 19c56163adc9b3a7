#include "scenarios/studies/operator_price.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "hwprofiles/device_profile.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::operator_price_test {
namespace {

DeviceProfile a100() {
  return load_device_profile("a100-sxm-80gb", environment().profile_folders);
}

std::vector<OperatorPrice> priced(const std::string& text) {
  return price_operator(read_operator(text), a100());
}

std::string fault_of(const std::string& text) {
  return error_of([&] { static_cast<void>(read_operator(text)); });
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("operators are priced with their work, by what bounds them") {
    const OperatorPrice large = priced("linear 4096x4096x4096 bf16").front();
    CHECK(large.flops.count == 2.0 * 4096 * 4096 * 4096);
    CHECK(large.bytes.count == 3 * 4096 * 4096 * 2);
    CHECK(large.bound == Bound::kCompute);
    CHECK(large.efficiency() > 0.5);
    CHECK(large.efficiency() <= 1);
    // One row of the same matrix reads it once.
    CHECK(priced("linear 1x4096x4096 bf16").front().bound == Bound::kMemory);
    const OperatorPrice sum = priced("add 4096x4096 fp16").front();
    CHECK(sum.bytes.count == 3 * 4096 * 4096 * 2);
    CHECK(sum.bound == Bound::kMemory);
    CHECK(priced("add 16x16 fp16").front().bound == Bound::kLaunch);
    // tf32 reads fp32 and computes faster than it.
    const OperatorPrice tf32 = priced("linear 4096x4096x4096 tf32").front();
    const OperatorPrice fp32 = priced("linear 4096x4096x4096 fp32").front();
    CHECK(tf32.bytes == fp32.bytes);
    CHECK(tf32.time < fp32.time / 4);
    // Half of the scores are masked.
    const OperatorPrice all = priced("attention 8x32x2048x128 bf16").front();
    const OperatorPrice causal = priced("attention 8x32x2048x128 bf16 causal").front();
    CHECK(causal.flops.count == doctest::Approx(all.flops.count / 2).epsilon(0.01));
  }

  TEST_CASE("products have the names that people give them, and fp8") {
    const Duration linear = priced("linear 512x1024x256 bf16").front().time;
    CHECK(priced("matmul 512x1024x256 bf16").front().time == linear);
    CHECK(priced("gemm 512x1024x256 bf16").front().time == linear);
    CHECK(priced("gemm 8x512x1024x256 bf16").front().time ==
          priced("bmm 8x512x1024x256 bf16").front().time);
    const DeviceProfile h100 = load_device_profile("h100-sxm-80gb", environment().profile_folders);
    const auto on_h100 = [&](const std::string& type) {
      return price_operator(read_operator("linear 8192x8192x8192 " + type), h100).front().time;
    };
    CHECK(on_h100("fp8") < 0.7 * on_h100("bf16"));
    CHECK(on_h100("fp8_e4m3") == on_h100("fp8"));
    CHECK(on_h100("fp8_e5m2") == on_h100("fp8"));
    // Two operands of a byte per element, a result of two.
    const OperatorPrice product =
        price_operator(read_operator("linear 512x1024x256 fp8"), h100).front();
    CHECK(product.bytes == Bytes((512 + 1024) * 256 + 2 * 512 * 1024));
    for (const char* text : {"bmm 8x64x64x64 fp8", "matmul 8x64x64x64 fp8"})
      CHECK(fault_of(text).find("torch._scaled_mm takes no batch") != std::string::npos);
    CHECK(fault_of("softmax 64x64 fp8").find("fp8 is a type of matrix products only") !=
          std::string::npos);
    CHECK(fault_of("matmul 64x64").find("its sizes do not have the form") != std::string::npos);
  }

  TEST_CASE("backward adds the kernels of the gradients") {
    CHECK(priced("linear 512x512x512 bf16").size() == 1);
    CHECK(priced("linear 512x512x512 bf16 backward").size() == 3);
    const std::vector<OperatorPrice> conv = priced("conv 8x64x28x28 64x3x3 fp16 backward");
    REQUIRE(conv.size() == 3);
    for (const OperatorPrice& kernel : conv)
      CHECK(kernel.flops.count == 2.0 * 8 * 28 * 28 * 64 * 64 * 9);
    for (const char* text :
         {"softmax 64x64", "log_softmax 64x64 fp32", "layer_norm 64x64 bf16", "rms_norm 64x64",
          "batch_norm 2x8x8x8", "max_pool 2x8x8x8", "elementwise 64x64", "mul 64", "gelu 64",
          "relu 64", "silu 64", "dropout 64", "copy 64", "bmm 4x8x8x8"}) {
      CAPTURE(text);
      CHECK(priced(text).front().time > Duration(0));
      // The gradients of a sum and of a copy are the incoming one.
      const std::string_view name = std::string_view(text).substr(0, 4);
      const bool passes_on = name == "elem" || name == "copy";
      CHECK(priced(std::string(text) + " backward").size() >= (passes_on ? 1 : 2));
    }
  }

  TEST_CASE("mistakes name the word and show an example") {
    CHECK(fault_of("liner 4x4x4").find("did you mean 'linear'?") != std::string::npos);
    CHECK(fault_of("linear 4096x4096").find("linear 4096x4096x4096 bf16") != std::string::npos);
    CHECK(fault_of("linear 4xax4").find("'4xax4' is no size") != std::string::npos);
    CHECK(fault_of("linear 4x0x4").find("no size") != std::string::npos);
    CHECK(fault_of("conv 1x8x8x8 8x9x9 padding=0").find("larger than the image") !=
          std::string::npos);
    CHECK(fault_of("conv 1x8x8x8 8x3x3 groups=3").find("3 groups do not divide") !=
          std::string::npos);
    CHECK(fault_of("conv 1x8x8x8 8x3x3 step=2").find("'step=2' is no option") != std::string::npos);
    CHECK(fault_of("").find("is none of linear") != std::string::npos);
  }

  TEST_CASE("an option that the operator does not take is an error, not ignored") {
    const auto names = [](const std::string& text, const std::string& words) {
      CAPTURE(text);
      CHECK(fault_of(text).find(words) != std::string::npos);
    };
    names("linear 64x64x64 stride=2", "linear takes no option 'stride'");
    names("softmax 64x64 causal", "softmax takes no option 'causal'");
    names("conv 1x8x8x8 8x3x3 kernel=3",
          "conv takes no option 'kernel'; it takes stride padding dilation groups");
    names("max_pool 1x8x8x8 keys=3", "max_pool takes no option 'keys'; it takes kernel stride");
    names("attention 1x8x64x64 groups=2",
          "attention takes no option 'groups'; it takes keys causal");
    names("conv 1x8x8x8 8x3x3 stride=2 stride=1", "the option 'stride' is given twice");
    names("add 64 fp16 fp32", "'fp32' is a second type");
    // Those that it takes change the price: a stride of 2 leaves a quarter of the products.
    CHECK(priced("conv 1x8x8x8 8x3x3 stride=2").front().flops.count * 4 ==
          priced("conv 1x8x8x8 8x3x3").front().flops.count);
  }

  TEST_CASE("a table of operators names the line of a mistake") {
    const ScenarioFolder folder("price");
    const std::vector<OperatorText> operators = read_operator_table(folder.write(
        "a.csv", "id,operator\n1,linear 64x64x64 bf16\n\n# a remark\n2,\"softmax 64x64\"\n"));
    REQUIRE(operators.size() == 2);
    CHECK(operators[1].text == "softmax 64x64");
    // Spreadsheets write a byte order mark first.
    CHECK(read_operator_table(folder.write("bom.csv", "\xEF\xBB\xBFoperator\nadd 64\n")).size() ==
          1);
    const auto fault = [&](const std::string& text) {
      return error_of([&] { static_cast<void>(read_operator_table(folder.write("b.csv", text))); });
    };
    CHECK(fault("operator\nsoftmax 64\nsoft 64\n").find("b.csv:3:1") != std::string::npos);
    CHECK(fault("name\nlinear\n").find("a column `operator`") != std::string::npos);
    CHECK(fault("id,operator\n1\n").find("has 1 of 2 columns") != std::string::npos);
    CHECK(fault("operator\n").find("has no operators") != std::string::npos);
  }
}

}  // namespace tidemark::operator_price_test
