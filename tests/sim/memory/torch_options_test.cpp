#include "sim/memory/torch/torch_options.hpp"

#include <stdexcept>

#include <doctest/doctest.h>

namespace tidemark::torch_options_test {

namespace {

std::string problem_of(std::string_view conf) {
  try {
    static_cast<void>(parse_alloc_conf(conf));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing";
}

TorchAllocatorOptions decode(std::string_view yaml) {
  const Value document = parse_document(yaml, "s.yaml");
  const Decoder decoder(document, "allocator");
  TorchAllocatorOptions options = decode_torch_options(decoder);
  decoder.finish();
  return options;
}

std::string error_of(std::string_view yaml) {
  try {
    static_cast<void>(decode(yaml));
  } catch (const UserError& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("PYTORCH_CUDA_ALLOC_CONF is read with all its options") {
    const TorchAllocatorOptions options = parse_alloc_conf(
        "max_split_size_mb:128, garbage_collection_threshold:0.8,expandable_segments:True,"
        "backend:native,release_lock_on_cudamalloc:False,pinned_num_register_threads:8,"
        "pinned_use_cuda_host_register:True,roundup_power2_divisions:[256:1,512:2,1024:4,>:8]");
    CHECK(options.max_split_size == 128 * kMiB);
    CHECK(options.garbage_collection_threshold == 0.8);
    CHECK(options.expandable_segments);
    const std::array<std::int64_t, kRoundupIntervals> divisions{1, 1, 1, 1, 1, 1, 1, 1,
                                                                1, 2, 8, 8, 8, 8, 8, 8};
    CHECK(options.roundup_power2_divisions == divisions);
    CHECK(parse_alloc_conf("").max_split_size == kNoSplitLimit);
    CHECK(parse_alloc_conf("max_split_size_mb:99999999999999").max_split_size == kNoSplitLimit);
  }

  TEST_CASE("mistakes in PYTORCH_CUDA_ALLOC_CONF say what is wrong") {
    CHECK(problem_of("max_split_size:128") ==
          "unknown option 'max_split_size'; did you mean 'max_split_size_mb'?");
    CHECK(problem_of("max_split_size_mb:20") == "max_split_size_mb: must be above 20, found 20");
    CHECK(problem_of("max_split_size_mb:lots") ==
          "max_split_size_mb: expected a whole number, found 'lots'");
    CHECK(problem_of("max_split_size_mb") ==
          "expected ':' after 'max_split_size_mb', found the end");
    CHECK(problem_of("expandable_segments:true") ==
          "expandable_segments: expected True or False, found 'true'");
    CHECK(problem_of("garbage_collection_threshold:1") ==
          "garbage_collection_threshold: must be above 0 and below 1, found 1");
    CHECK(problem_of("roundup_power2_divisions:3") ==
          "roundup_power2_divisions: divisions must be a power of two, found 3");
    CHECK(problem_of("roundup_power2_divisions:[300:4]") ==
          "roundup_power2_divisions: intervals must be a power of two in MiB, found 300");
    CHECK(problem_of("roundup_power2_divisions:[256:4") ==
          "expected ',' between intervals, found the end");
    CHECK(problem_of("backend:cudaMallocAsync") ==
          "backend: cudaMallocAsync is not modelled, only native");
    CHECK(problem_of("max_non_split_rounding_mb:40") ==
          "option 'max_non_split_rounding_mb' is of a newer PyTorch; torch-2.4 does not know it");
    CHECK(problem_of("expandable_segments:True max_split_size_mb:40") ==
          "expandable_segments: expected True or False, found 'Truemax_split_size_mb'");
  }

  TEST_CASE("a scenario gives the same options with units") {
    const TorchAllocatorOptions options = decode(
        "{max_split_size: 128MiB, garbage_collection_threshold: 0.8, expandable_segments: true,\n"
        " memory_fraction: 0.9, roundup_power2_divisions: {256MiB: 1, 512MiB: 2, 1GiB: 4, '>': "
        "8}}");
    const TorchAllocatorOptions same = parse_alloc_conf(
        "max_split_size_mb:128,garbage_collection_threshold:0.8,expandable_segments:True,"
        "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]");
    CHECK(options.max_split_size == same.max_split_size);
    CHECK(options.garbage_collection_threshold == same.garbage_collection_threshold);
    CHECK(options.roundup_power2_divisions == same.roundup_power2_divisions);
    CHECK(options.expandable_segments);
    CHECK(options.memory_fraction == 0.9);
    CHECK(decode("{roundup_power2_divisions: 8}").roundup_power2_divisions[7] == 8);
    CHECK(decode("{roundup_power2_divisions: '[1:2]'}").roundup_power2_divisions[0] == 2);
    CHECK(decode("{conf: 'expandable_segments:True', version: torch-2.4}").expandable_segments);
  }

  TEST_CASE("a key beside conf wins over the same option in it, and leaves the others") {
    const TorchAllocatorOptions options = decode(
        "{expandable_segments: false, max_split_size: 64MiB, roundup_power2_divisions: 4, "
        "garbage_collection_threshold: 0.5,\n"
        " conf: 'expandable_segments:True,max_split_size_mb:128,roundup_power2_divisions:8,"
        "garbage_collection_threshold:0.9'}");
    CHECK_FALSE(options.expandable_segments);
    CHECK(options.max_split_size == 64 * kMiB);
    CHECK(options.roundup_power2_divisions == parse_roundup_divisions("4"));
    CHECK(options.garbage_collection_threshold == 0.5);
    const TorchAllocatorOptions one =
        decode("{conf: 'expandable_segments:True,max_split_size_mb:128', max_split_size: 64MiB}");
    CHECK(one.expandable_segments);
    CHECK(one.max_split_size == 64 * kMiB);
  }

  TEST_CASE("mistakes in a scenario's allocator are reported at their place") {
    CHECK(error_of("{conf: 'expandable_segment:True'}") ==
          "s.yaml:1:8: allocator.conf: unknown option 'expandable_segment'; did you mean "
          "'expandable_segments'?");
    CHECK(
        error_of("{max_split_size: 16MiB}").starts_with("s.yaml:1:18: allocator.max_split_size:"));
    CHECK(error_of("{expandable_segmnts: true}").find("did you mean 'expandable_segments'?") !=
          std::string::npos);
    CHECK(error_of("{roundup_power2_divisions: {300MiB: 4}}")
              .find("intervals must be a power of two in MiB, found 300") != std::string::npos);
    CHECK(error_of("{roundup_power2_divisions: 3}").find("must be a power of two, found 3") !=
          std::string::npos);
    CHECK(error_of("{version: torch-9.9}").find("torch-2.4") != std::string::npos);
    CHECK(error_of("{garbage_collection_threshold: 1}").find("below 1") != std::string::npos);
    CHECK(error_of("{memory_fraction: 0}").find("allocator.memory_fraction") != std::string::npos);
  }
}

}  // namespace tidemark::torch_options_test
