// What an error suggests where GPUs cannot be divided is accepted when it is written.
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "scenarios/read/decode_parts.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::accepted_sizes_test {
namespace {

template <typename Count>
std::string refusal(const Count& count, const std::string& policies,
                    const std::string& model = "preset: gpt2, layers: 12, width: 48, vocab: 64") {
  const std::string text = fmt::format(
      "{{model: {{{}}}, hardware: {{gpu: h100-sxm-80gb, count: {}}}, training: {{sequence: 32}}, "
      "policies: [{}]}}",
      model, count, policies);
  try {
    const PointResult point = simulate_points(parse_document(text, "s.yaml"), environment(), 1,
                                              {.smallest_capacity = false})
                                  .front();
    return point.error;
  } catch (const UserError& error) {
    return error.what();
  }
}

bool ends(const std::string& text, const std::string& end) {
  CAPTURE(text);
  CHECK(text.ends_with(end));
  return text.ends_with(end);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("sizes that an error suggests divide the model and the GPUs") {
    // 12 heads on 16 GPUs: 8 divides the GPUs only, 6 the heads only; 15 GPUs leave 5 as it is.
    CHECK(ends(refusal(16, "tensor_parallel: {size: 5}"),
               "; write policies.tensor_parallel.size: 4"));
    CHECK(refusal(16, "tensor_parallel: {size: 4}").empty());
    CHECK(ends(refusal(16, "tensor_parallel: {size: 8}"), "write a size of 4"));
    CHECK(ends(refusal(24, "tensor_parallel: {size: 8}"), "write a size of 6 or 12"));
    CHECK(refusal(24, "tensor_parallel: {size: 6}").empty());
    CHECK(refusal(24, "tensor_parallel: {size: 12}").empty());
    // A count that the sizes divide is suggested where the model takes them.
    CHECK(ends(refusal(16, "tensor_parallel: {size: 3}"),
               "; write policies.tensor_parallel.size: 2 or 4, or hardware.count: 15 or 18"));
    for (const int count : {15, 18})
      CHECK(refusal(count, "tensor_parallel: {size: 3}").empty());
    // Each dimension by itself: 2 x 5 of 12 GPUs.
    CHECK(ends(refusal(12, "tensor_parallel: {size: 2}, pipeline: {size: 5}"),
               "; write policies.pipeline.size: 3 or 6"));
    CHECK(refusal(12, "tensor_parallel: {size: 2}, pipeline: {size: 6}").empty());
    CHECK(refusal(15, "pipeline: {size: 5}").find("write a size of 3, split") != std::string::npos);
    CHECK(ends(refusal(10, "context_parallel: {size: 5}"), "or a size of 2"));
    // Groups of 4 shards are left on 20 GPUs by a size of 1 or 5 only, and 12 layers divide by 4.
    CHECK(ends(refusal(20, "pipeline: {size: 5}, fsdp"),
               "write a size of 4, split: balanced or the number of layers of each: split: [...]"));
    CHECK(ends(refusal(20, "pipeline: {size: 5}, fsdp: {shard: 4}"),
               "write a size of 1, split: balanced or the number of layers of each: split: [...]"));
    CHECK(refusal(20, "pipeline: {size: 1}, fsdp: {shard: 4}").empty());
    CHECK(refusal(20, "pipeline: {size: 4}, fsdp: {shard: 4}").find("write 1 or 5") !=
          std::string::npos);
    // A size that leaves the shards of 2 is suggested, where 3 divides the heads and not the GPUs.
    CHECK(ends(refusal(16, "tensor_parallel: {size: 8}, fsdp: {shard: 2}"), "write a size of 4"));
    CHECK(ends(refusal(8, "expert_parallel: {size: 8}",
                       "preset: llama, layers: 1, width: 32, heads: 2, ffn: 32, vocab: 64, "
                       "experts: 12"),
               "write a size of 4"));
  }
  TEST_CASE("sizes are suggested for any count that is one") {
    // Sizes far above the extents of the model are tried, and refused.
    CHECK(ends(refusal(9999, "tensor_parallel: {size: 4}"),
               "; write policies.tensor_parallel.size: 3, or hardware.count: 9996 or 10000"));
    CHECK(ends(refusal(kMaxCount - 1, "tensor_parallel: {size: 4}"),
               "; write policies.tensor_parallel.size: 3, or hardware.count: 1048572 or 1048576"));
    // Seven larger divisors of 1001 leave trials for its neighbours.
    CHECK(ends(refusal(1001, "tensor_parallel: {size: 4}",
                       "preset: gpt2, layers: 1, width: 48, vocab: 64"),
               "; write policies.tensor_parallel.size: 1, or hardware.count: 1000 or 1004"));
    for (const int count : {1000, 1004})
      CHECK(refusal(count, "tensor_parallel: {size: 4}").empty());
    // One that is none, or too large, is refused as without policies.
    for (const std::string_view count : {"abc", "99999999999", "2147483647", "2147483646", "0"}) {
      const std::string expected = refusal(count, "");
      CHECK(expected.find("hardware.count: ") != std::string::npos);
      CHECK(refusal(count, "tensor_parallel: {size: 4}") == expected);
    }
    CHECK(refusal(64, "tensor_parallel: {size: 65536}, context_parallel: {size: 65536}")
              .find("= 4294967296 ranks") != std::string::npos);
  }
}

}  // namespace tidemark::accepted_sizes_test
