#include <string>

#include <doctest/doctest.h>

#include "graph/core/errors.hpp"
#include "hwprofiles/calibrate/observations.hpp"
#include "hwprofiles/measured/measured_operators.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::measured_tables_test {

namespace {

MeasuredTable read(const std::string& text, const std::string& name = "table.csv") {
  return read_measured_operators(parse_csv(text, name));
}

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(read(text));
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("quoted cells keep their commas, and a first line of numbers is a row") {
    const CsvTable table = parse_csv("a,b\n\"1,\"\"2\", 3 \n\n4\n", "t.csv");
    CHECK(table.header == std::vector<std::string>{"a", "b"});
    REQUIRE(table.rows.size() == 2);
    CHECK(table.rows[0].cells == std::vector<std::string>{"1,\"2", "3"});
    CHECK(table.rows[1].line == 4);
    CHECK(parse_csv("1,2\n3,4\n", "t.csv").rows.size() == 2);
    CHECK_FALSE(number_in("12us"));
    CHECK_FALSE(number_in("inf"));
    CHECK(number_in(" 1e-3 ") == doctest::Approx(1e-3));
  }

  TEST_CASE("our own table maps products, convolutions and memory-bound operators") {
    const MeasuredTable table = read(
        "op,shape,dtype,device,seconds\n"
        "matmul,64x32x16,fp16,my-gpu,0.001\n"
        "conv_backward_data,\"2x8x10x10,16x3x3,1,1\",fp32,my-gpu,0.002\n"
        "softmax,4x1024,fp32,my-gpu,0.003\n"
        "attention_causal,2x4x128x64,bf16,my-gpu,0.004\n"
        "fft,64,fp32,my-gpu,0.004\n");
    REQUIRE(table.operators.size() == 4);
    const Work& product = table.operators[0].work.front();
    CHECK(product.extent == std::array<std::int64_t, 4>{64, 32, 16, 1});
    CHECK(product.flops.count == 2 * 64 * 32 * 16);
    // Padding 1 keeps 10 x 10 places; the gradient is a product of 200 x 8 over 16 * 9.
    const Work& convolution = table.operators[1].work.front();
    CHECK(convolution.extent == std::array<std::int64_t, 4>{200, 8, 144, 1});
    CHECK(convolution.window.three_by_three);
    CHECK(convolution.flops.count == 2.0 * 200 * 16 * 8 * 9);
    CHECK(table.operators[2].work.front().read == Bytes(4 * 1024 * 4));
    // 4 * 2 * 4 * 128^2 * 64, half of it masked.
    CHECK(table.operators[3].work.front().flops.count == 0.5 * 4 * 8 * 128 * 128 * 64);
    CHECK(table.other.at("operator 'fft'") == 1);
  }

  TEST_CASE("wrong rows are named with their lines and left out, too many refuse the table") {
    const MeasuredTable table = read(
        "op,shape,dtype,device,seconds\n"
        "matmul,64x32x16,fp16,g,fast\n"
        "matmul,64x32,fp16,g,0.1\n"
        "matmul,64x32x16,fp16,g,0.1\n"
        "matmul,64x32x17,fp16,g,0.1\n");
    REQUIRE(table.refused.size() == 2);
    CHECK(table.operators.size() == 2);
    CHECK(table.refused[0].line == 2);
    CHECK(table.refused[0].problem == "seconds: expected a number above 0, found 'fast'");
    CHECK(refusal("op,shape,dtype,device,seconds\nmatmul,1x1x1,fp16,g,0\n") ==
          "table.csv: 1 of 1 rows are wrong, too many to go on\n  line 2: seconds: expected a "
          "number above 0, found '0'");
    CHECK(refusal("op,shape,dtype,device\nmatmul,1x1x1,fp16,g\n")
              .starts_with("table.csv:1: the table has no column 'seconds'"));
    CHECK(refusal("name,age\nann,3\n").find("is no table of measured operators") !=
          std::string::npos);
  }

  TEST_CASE("names of devices mean profiles, the largest memory where it is left open") {
    const std::vector<std::string> profiles = profile_names(test::source_path("hwprofiles"));
    CHECK(device_called("NV_V100", profiles) == "v100-sxm-32gb");
    CHECK(device_called("Tesla V100-PCIE-32GB", profiles) == "v100-pcie-32gb");
    CHECK(device_called("A100-80 SXM", profiles) == "a100-sxm-80gb");
    CHECK(device_called("H100-80 SXM", profiles) == "h100-sxm-80gb");
    CHECK(device_called("NV_T4", profiles) == "t4-16gb");
    CHECK_FALSE(device_called("IA_KNL7250", profiles));
    CHECK(chip_of("a100-pcie-40gb") == "a100");
    CHECK(chip_of("rtx-3090-24gb") == "rtx-3090");
  }

  TEST_CASE("a rate above the peak cannot be") {
    const std::vector<std::string> folders{test::source_path("hwprofiles")};
    const DeviceProfile v100 = load_device_profile("v100-sxm-32gb", folders);
    // 2 * 4096^3 FLOP in 0.5 ms are 275 TFLOP/s of 125.
    const MeasuredTable table = read(
        "op,shape,dtype,device,seconds\nmatmul,4096x4096x4096,fp16,v100,0.0005\n"
        "matmul,4096x4096x4096,fp16,v100,0.0015\n");
    CHECK(impossible(table.operators[0], v100));
    CHECK_FALSE(impossible(table.operators[1], v100));
  }
}

}  // namespace tidemark::measured_tables_test
