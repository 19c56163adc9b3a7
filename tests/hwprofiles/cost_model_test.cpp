#include "hwprofiles/cost_model.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "graph/ir/convolutions.hpp"
#include "hwprofiles/measured/operator_work.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::cost_model_test {

namespace {

CostModel model_of(const std::string& name) {
  const std::string folder = test::source_path("hwprofiles");
  return CostModel(load_device_profile(name, std::vector<std::string>{folder}));
}

// A product of [m, k] and [k, n], every operand moved once.
Work matmul(std::int64_t m, std::int64_t n, std::int64_t k, DType type) {
  return {.op_class = OperatorClass::kMatmul,
          .dtype = type,
          .flops =
              Flops(2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k)),
          .read = bytes_of(type, Elements(m * k + k * n)),
          .written = bytes_of(type, Elements(m * n)),
          .extent = {m, n, k, 1}};
}

// Work that only moves bytes.
Work traffic(OperatorClass op_class, Bytes read, Bytes written) {
  Work work;
  work.op_class = op_class;
  work.read = read;
  work.written = written;
  return work;
}

// Work that only computes.
Work arithmetic(OperatorClass op_class, DType type, double flops,
                const std::array<std::int64_t, 4>& extent = {}) {
  Work work;
  work.op_class = op_class;
  work.dtype = type;
  work.flops = Flops(flops);
  work.extent = extent;
  return work;
}

// A convolution of [16, channels, 28, 28] with 128 filters of 3x3.
Work three_by_three(OperatorClass direction, DType type, std::int64_t channels) {
  constexpr std::int64_t kPlaces = std::int64_t{28} * 28;
  Work work{.op_class = direction,
            .dtype = type,
            .flops = Flops(2.0 * 16 * 128 * 9 * kPlaces * static_cast<double>(channels)),
            .read = bytes_of(type, Elements(16 * kPlaces * channels + 128 * 9 * channels)),
            .written = bytes_of(type, Elements(16 * kPlaces * 128)),
            .channels_last = true};
  describe_convolution(work, {.batch = 16,
                              .channels = channels,
                              .filters = 128,
                              .input_places = kPlaces,
                              .output_places = kPlaces,
                              .window = 9});
  return work;
}

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("views cost nothing on the device and fixed work costs what it says") {
    const CostModel a100 = model_of("a100-sxm-80gb");
    CHECK(a100.duration(Work{}) == Duration(0));
    Work fixed;
    fixed.op_class = OperatorClass::kFixed;
    fixed.fixed = Duration(1234);
    CHECK(a100.duration(fixed) == Duration(1234));
  }

  TEST_CASE("a large addition runs at its share of the memory bandwidth") {
    // 3 GiB = 3,221,225,472 B at 0.83 * 2039 GB/s = 1692.37 GB/s: 1,903,381 ns; launch 2,600 ns.
    const CostModel a100 = model_of("a100-sxm-80gb");
    CHECK(a100.duration(traffic(OperatorClass::kElementwise, 2 * kGiB, 1 * kGiB)) ==
          Duration(1905981));
  }

  TEST_CASE("a small addition finds half of its traffic in the L2 cache") {
    // 3 MiB = 3,145,728 B over a share of 0.83: 3,790,034 B; half at 5.4 TB/s: 350.9 ns, half at
    // 2.039 TB/s: 929.4 ns; launch 2,600 ns.
    const CostModel a100 = model_of("a100-sxm-80gb");
    CHECK(a100.duration(traffic(OperatorClass::kElementwise, 2 * kMiB, 1 * kMiB)) ==
          Duration(3880));
  }

  TEST_CASE("optimizer state is cold: nothing of it is found in the L2 cache") {
    const CostModel a100 = model_of("a100-sxm-80gb");
    const Work step = traffic(OperatorClass::kOptimizer, 2 * kMiB, 1 * kMiB);
    // 3,145,728 B at 0.86 * 2039 GB/s = 1753.54 GB/s: 1,793.9 ns; launch 2,600 ns.
    CHECK(a100.duration(step) == Duration(4394));
  }

  TEST_CASE("every kernel of an operator pays the launch floor and a launch by the host") {
    const CostModel a100 = model_of("a100-sxm-80gb");
    Work empty = traffic(OperatorClass::kElementwise, Bytes(), Bytes());
    empty.launches = 3;
    CHECK(a100.duration(empty) == Duration(3 * 2600));
    CHECK(a100.dispatch_duration(empty) == Duration(25000 + 2 * 2600));
    CHECK(a100.dispatch_duration(Work{}) == Duration(25000));
  }

  TEST_CASE("a matrix product fills whole waves of multiprocessors") {
    // k = 62 is too short to be split. 108 tiles of 128 x 128 are one wave on 108 multiprocessors:
    // 2 * 128^2 * (62 + 30) / (0.89 * 312e12 / 108) = 1172.5 ns; launch 2,600 ns.
    // One row more needs two waves, or one of 256 x 128: 2345.0 ns.
    const CostModel a100 = model_of("a100-sxm-80gb");
    Work product = arithmetic(OperatorClass::kMatmul, DType::kBFloat16, 0, {108 * 128, 128, 62, 1});
    CHECK(a100.duration(product) == Duration(3773));
    product.extent[0] += 1;
    CHECK(a100.duration(product) == Duration(4945));
  }

  TEST_CASE("a product without extents is timed as one of full tiles") {
    const CostModel a100 = model_of("a100-sxm-80gb");
    const Work product = arithmetic(OperatorClass::kMatmul, DType::kFloat16, 277.68e9);
    // 277.68 GFLOP at 0.89 * 312 TFLOP/s: 1 ms; launch 2,600 ns.
    CHECK(a100.duration(product) == Duration(1002600));
  }

  TEST_CASE("attention approaches its share of the peak with the key length") {
    const CostModel a100 = model_of("a100-sxm-80gb");
    const Work attention = arithmetic(OperatorClass::kAttention, DType::kBFloat16, 1e12,
                                      {4096, 4096, 128, kAttentionCausal});
    // 312 TFLOP/s * 0.619 / (1 + 476 / 4096) = 173.0 TFLOP/s (FlashAttention-2: 173 measured).
    CHECK(1e12 / seconds(a100.duration(attention)) == doctest::Approx(173.0e12).epsilon(0.001));
  }

  TEST_CASE("head widths between two curves are interpolated and beyond them clamped") {
    const CostModel h100 = model_of("h100-sxm-80gb");
    const auto rate = [&](std::int64_t width, std::int64_t kind) {
      const Work attention = arithmetic(OperatorClass::kAttention, DType::kBFloat16, 1e15,
                                        {1 << 20, 1 << 20, width, kind});
      return 1e15 / seconds(h100.duration(attention));
    };
    // Shares 0.332 at 64 and 0.380 at 128, half lengths 84 and 98: 0.356 and 91 at 96.
    CHECK(rate(96, 0) == doctest::Approx(989e12 * 0.356 / (1 + 91.0 / 1048576)).epsilon(1e-6));
    CHECK(rate(32, 0) == rate(64, 0));
    CHECK(rate(512, 0) == rate(256, 0));
    CHECK(rate(128, kAttentionBackward) < rate(128, 0));
  }

  TEST_CASE("a V100 multiplies bf16 at the fp32 rate") {
    const CostModel v100 = model_of("v100-sxm-32gb");
    const double fp32 = seconds(v100.duration(matmul(4096, 4096, 4096, DType::kFloat32)));
    const double bf16 = seconds(v100.duration(matmul(4096, 4096, 4096, DType::kBFloat16)));
    const double fp16 = seconds(v100.duration(matmul(4096, 4096, 4096, DType::kFloat16)));
    CHECK(bf16 == doctest::Approx(fp32).epsilon(0.001));
    CHECK(fp32 / fp16 > 6);
  }

  TEST_CASE("convolutions have a share of the peak for each direction") {
    const CostModel v100 = model_of("v100-sxm-32gb");
    Work work = arithmetic(OperatorClass::kConvolution, DType::kFloat16, 87.5e9);
    // 87.5 GFLOP at 0.74 * 125 TFLOP/s: 945,946 ns; launch 2,400 + 7,300 ns.
    CHECK(v100.duration(work) == Duration(955646));
    work.op_class = OperatorClass::kConvolutionBackwardWeight;
    // At 0.71 * 125 TFLOP/s: 985,915 ns; launch 2,400 + 15,600 ns.
    CHECK(v100.duration(work) == Duration(1003915));
  }

  TEST_CASE(
      "a convolution's share depends on the shape of its window, monotonously in its extents") {
    const CostModel v100 = model_of("v100-sxm-32gb");
    const auto took = [&](DType type, const ConvolutionShape& shape,
                          OperatorClass direction = OperatorClass::kConvolution) {
      return v100.duration(convolution_work(type, direction, shape));
    };
    const ConvolutionShape three{.batch = 32,
                                 .channels = 256,
                                 .filters = 256,
                                 .input_places = 28 * 28,
                                 .output_places = 28 * 28,
                                 .window = 9};
    // Winograd's factor of 1.68 holds without tensor cores, for 3x3 windows that move by one.
    ConvolutionShape other = three;
    other.square = false;
    CHECK(seconds(took(DType::kFloat32, other)) / seconds(took(DType::kFloat32, three)) ==
          doctest::Approx(1.68).epsilon(0.02));
    CHECK(took(DType::kFloat16, other) == took(DType::kFloat16, three));
    // More channels never take less time, also where few of them are padded.
    Duration before{};
    for (std::int64_t channels = 1; channels <= 64; ++channels) {
      ConvolutionShape narrow = three;
      narrow.channels = channels;
      const Duration now = took(DType::kFloat16, narrow);
      CAPTURE(channels);
      CHECK(now >= before);
      before = now;
    }
  }

  TEST_CASE("grouped convolutions are priced by layout and by the width of their groups") {
    const CostModel v100 = model_of("v100-sxm-32gb");
    const auto work_of = [](std::int64_t width, std::int64_t groups, bool channels_last) {
      Work work = convolution_work(DType::kFloat16, OperatorClass::kConvolution,
                                   {.batch = 32,
                                    .channels = width * groups,
                                    .filters = width * groups,
                                    .input_places = 28 * 28,
                                    .output_places = 28 * 28,
                                    .window = 9,
                                    .groups = groups});
      work.channels_last = channels_last;
      return work;
    };
    // Groups of 64 channels whose channels are innermost: 0.075 * 0.46 of the peak.
    const Work wide = work_of(64, 6, true);
    CHECK(seconds(v100.duration(wide)) ==
          doctest::Approx(wide.flops.count / (125e12 * 0.0345) + 9.7e-6).epsilon(0.001));
    // Of 32 channels: 0.075 * (32 / 64)^0.8.
    const Work narrow = work_of(32, 6, true);
    CHECK(seconds(v100.duration(narrow)) ==
          doctest::Approx(narrow.flops.count / (125e12 * 0.04308) + 9.7e-6).epsilon(0.001));
    // Otherwise a tile of 64 holds one group of 16 as it does one of 64, but for the reduction.
    const double of_64 = seconds(v100.duration(work_of(64, 6, false)));
    const double of_16 = seconds(v100.duration(work_of(16, 6, false)));
    CHECK(of_16 > of_64 / 4);
    CHECK(of_16 < of_64 / 2);
    // 32 groups are packed into whole tiles.
    CHECK(v100.duration(work_of(8, 32, true)) < v100.duration(work_of(8, 31, true)));
    for (const bool channels_last : {false, true}) {
      CAPTURE(channels_last);
      Work depthwise = work_of(1, 95, channels_last);
      depthwise.op_class = OperatorClass::kDepthwiseConvolution;
      // Two depthwise convolutions, one of which reads the sums again, and the copies of layouts.
      const double two = seconds(v100.duration(work_of(2, 95, channels_last)));
      CHECK(two > seconds(v100.duration(depthwise)));
      CHECK(two < 6 * seconds(v100.duration(depthwise)));
      Duration before{};
      for (std::int64_t width = 2; width <= 160; ++width) {
        const Duration now = v100.duration(work_of(width, 6, channels_last));
        CAPTURE(width);
        CHECK(now >= before);
        if (channels_last && width > 2) CHECK(now < 1.8 * before);
        before = now;
      }
    }
  }

  TEST_CASE("kernels beside an operator's own run after it, at the rate of elementwise ones") {
    const CostModel v100 = model_of("v100-sxm-32gb");
    Work work = arithmetic(OperatorClass::kConvolution, DType::kFloat16, 87.5e9);
    const double alone = seconds(v100.duration(work));
    work.apart = Bytes(801'000'000);  // at 0.89 * 900 GB/s: 1 ms
    CHECK(seconds(v100.duration(work)) == doctest::Approx(alone + 1e-3).epsilon(1e-4));
    CHECK(seconds(v100.memory_duration(work)) == doctest::Approx(1e-3).epsilon(1e-3));
  }

  TEST_CASE("no convolution takes longer with tf32 than without, on any device") {
    std::mt19937_64 rng(11);
    const auto up_to = [&](std::int64_t most) {
      return std::uniform_int_distribution<std::int64_t>(1, most)(rng);
    };
    int faster = 0;
    for (const std::string& name : profile_names(test::source_path("hwprofiles"))) {
      const CostModel device = model_of(name);
      for (int round = 0; round < 20; ++round) {
        const bool square = up_to(2) == 1;
        const std::int64_t places = up_to(56) * up_to(56);
        const ConvolutionShape shape{.batch = up_to(64),
                                     .channels = up_to(512),
                                     .filters = up_to(512),
                                     .input_places = places,
                                     .output_places = places,
                                     .window = square ? 9 : 1,
                                     .square = square};
        for (const OperatorClass direction :
             {OperatorClass::kConvolution, OperatorClass::kConvolutionBackwardData,
              OperatorClass::kConvolutionBackwardWeight}) {
          const Duration plain =
              device.duration(convolution_work(DType::kFloat32, direction, shape));
          const Duration tensor = device.duration(convolution_work(DType::kTf32, direction, shape));
          CAPTURE(name);
          CAPTURE(shape.channels);
          CAPTURE(shape.filters);
          CHECK(tensor <= plain);
          faster += tensor < plain ? 1 : 0;
        }
      }
    }
    CHECK(faster > 100);
  }

  TEST_CASE("a longer reduction and more channels of a convolution are never cheaper") {
    for (const char* name : {"v100-sxm-32gb", "a100-sxm-80gb", "rtx-3090-24gb"}) {
      const CostModel model = model_of(name);
      for (const DType type : {DType::kFloat32, DType::kTf32, DType::kFloat16}) {
        CAPTURE(name);
        CAPTURE(name_of(type));
        Duration before{};
        for (std::int64_t k = 1; k <= 1200; ++k) {
          CAPTURE(k);
          const Duration now = model.duration(matmul(64, 64, k, type));
          CHECK(now >= before);
          before = now;
        }
        for (const OperatorClass direction :
             {OperatorClass::kConvolution, OperatorClass::kConvolutionBackwardData,
              OperatorClass::kConvolutionBackwardWeight}) {
          before = Duration(0);
          for (std::int64_t channels = 1; channels <= 80; ++channels) {
            CAPTURE(channels);
            const Duration now = model.duration(three_by_three(direction, type, channels));
            CHECK(now >= before);
            before = now;
          }
        }
      }
    }
    // 15 channels are padded to the 16 of Winograd's kernels.
    const CostModel v100 = model_of("v100-sxm-32gb");
    const auto forward = [&](std::int64_t channels) {
      return seconds(
          v100.duration(three_by_three(OperatorClass::kConvolution, DType::kFloat32, channels)));
    };
    CHECK(forward(15) == doctest::Approx(forward(16)).epsilon(0.01));
    CHECK(forward(4) < forward(16));
  }

  TEST_CASE("the order in memory decides how fast a normalization is where the profile says so") {
    const CostModel card = model_of("rtx-3090-24gb");
    Work work = traffic(OperatorClass::kNormalization, 2 * kGiB, kGiB);
    const double contiguous = seconds(card.duration(work));
    work.channels_last = true;
    // 1.0 and 0.55 of the bandwidth.
    CHECK(contiguous / seconds(card.duration(work)) == doctest::Approx(1.82).epsilon(0.01));
  }
}

TEST_SUITE("golden") {
  TEST_CASE("an 8192-cubed bf16 product on H100 reaches the best published matmul rate") {
    // Measured: 2 * 8192^3 / 794.5 TFLOP/s = 1.3839 ms (stas00/ml-engineering, best shape on H100
    // SXM).
    // The model: 128 x 128 tiles, the reduction in four: 16384 blocks on 132 multiprocessors are
    // 125 waves of 2 * 128^2 * (2048 + 30) / (0.83 * 989e12 / 132) = 10.950 us: 1.3687 ms, and
    // 2.4 us of launch.
    const CostModel h100 = model_of("h100-sxm-80gb");
    const Duration duration = h100.duration(matmul(8192, 8192, 8192, DType::kBFloat16));
    CHECK(seconds(duration) == doctest::Approx(1.3711e-3).epsilon(0.0001));
    CHECK(seconds(duration) == doctest::Approx(2 * std::pow(8192.0, 3) / 794.5e12).epsilon(0.01));
  }

  TEST_CASE("the best published matmul shapes are predicted within 3 percent") {
    struct Best {
      const char* device;
      DType type;
      std::int64_t m, n, k;
      double rate;  // FLOP/s, stas00/ml-engineering, compute/accelerator
    };
    const std::array<Best, 3> bests = {{
        {"a100-sxm-80gb", DType::kBFloat16, 1024, 10240, 5120, 271.2e12},
        {"h100-sxm-80gb", DType::kBFloat16, 2048, 2048, 13312, 794.5e12},
        {"h100-sxm-80gb", DType::kFloat8, 1024, 9216, 14336, 1402.6e12},
    }};
    for (const Best& best : bests) {
      CAPTURE(best.device);
      CAPTURE(name_of(best.type));
      const Work work = matmul(best.m, best.n, best.k, best.type);
      const double rate = work.flops.count / seconds(model_of(best.device).duration(work));
      CHECK(rate == doctest::Approx(best.rate).epsilon(0.03));
    }
  }
}

}  // namespace tidemark::cost_model_test
