// The arithmetic of shapes.
#include "graph/import/onnx/fold.hpp"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

namespace tidemark::fold_test {
namespace {

using Dims = std::vector<std::int64_t>;

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

OnnxConstant table(Dims dims, Dims values) {
  return {.dims = std::move(dims), .integers = std::move(values), .known = true};
}

OnnxConstant folded(const std::string& op, const std::vector<OnnxConstant>& inputs,
                    std::vector<std::pair<std::string, OnnxAttribute>> attributes = {}) {
  const OnnxNode node{.op = op, .attributes = std::move(attributes)};
  std::vector<const OnnxConstant*> pointers;
  for (const OnnxConstant& input : inputs)
    pointers.push_back(&input);
  const auto result = fold(node, pointers);
  REQUIRE(result);
  return *result;
}

bool refuses(const std::string& op, const std::vector<OnnxConstant>& inputs,
             std::vector<std::pair<std::string, OnnxAttribute>> attributes = {}) {
  const OnnxNode node{.op = op, .attributes = std::move(attributes)};
  std::vector<const OnnxConstant*> pointers;
  for (const OnnxConstant& input : inputs)
    pointers.push_back(&input);
  return !fold(node, pointers);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a slice clamps its bounds and walks backwards as NumPy does") {
    const OnnxConstant x = integers_constant({0, 1, 2, 3, 4});
    const auto slice = [&](std::int64_t start, std::int64_t end, std::int64_t step) {
      return folded("Slice", {x, integers_constant({start}), integers_constant({end}),
                              integers_constant({0}), integers_constant({step})})
          .integers;
    };
    CHECK(slice(1, 3, 1) == Dims{1, 2});
    CHECK(slice(-2, kEnd, 1) == Dims{3, 4});
    CHECK(slice(0, -2, 1) == Dims{0, 1, 2});
    CHECK(slice(0, kEnd, 2) == Dims{0, 2, 4});
    CHECK(slice(-1, -kEnd, -1) == Dims{4, 3, 2, 1, 0});  // how exporters reverse pads
    CHECK(slice(3, 0, -2) == Dims{3, 1});
    CHECK(slice(4, 2, 1).empty());
    CHECK(slice(-100, 100, 1) == Dims{0, 1, 2, 3, 4});
  }

  TEST_CASE("a permutation that names an axis twice and types that are not simulated are refused") {
    const OnnxConstant x = table({2, 3}, {0, 1, 2, 3, 4, 5});
    using Attributes = std::vector<std::pair<std::string, OnnxAttribute>>;
    CHECK(folded("Transpose", {x}, {{"perm", Dims{1, 0}}}).dims == Dims{3, 2});
    for (const Dims& axes : {Dims{0, 0}, Dims{1, 1}, Dims{0, 2}, Dims{0}}) {
      CHECK(refuses("Transpose", {x}, Attributes{{"perm", axes}}));
    }
    CHECK(folded("Cast", {x}, {{"to", std::int64_t{6}}}).dtype == DType::kInt32);
    for (const std::int64_t type : {0, 8, 14, 99}) {
      CHECK(refuses("Cast", {x}, Attributes{{"to", type}}));
    }
  }

  TEST_CASE("integer division truncates, modulo has the sign of the divisor unless fmod") {
    const OnnxConstant a = integers_constant({7, -7});
    const OnnxConstant b = integers_constant({2, 2});
    CHECK(folded("Div", {a, b}).integers == Dims{3, -3});
    CHECK(folded("Mod", {a, b}).integers == Dims{1, 1});
    CHECK(folded("Mod", {a, b}, {{"fmod", std::int64_t{1}}}).integers == Dims{1, -1});
    CHECK_FALSE(folded("Div", {a, integers_constant({0, 0})}).known);
  }

  TEST_CASE("numbers that no integer of 64 bits holds are left open") {
    const auto reals = [](std::vector<double> values) {
      const auto count = static_cast<std::int64_t>(values.size());
      return OnnxConstant{
          .dtype = DType::kFloat32, .dims = {count}, .numbers = std::move(values), .known = true};
    };
    const double infinity = std::numeric_limits<double>::infinity();
    const OnnxConstant huge = reals({1e30, -1e30, infinity, std::nan(""), 2.9, -2.9});
    CHECK(Dims{huge.integer(0), huge.integer(1), huge.integer(2), huge.integer(3), huge.integer(4),
               huge.integer(5)} == Dims{kEnd, -kEnd - 1, kEnd, 0, 2, -2});
    CHECK_FALSE(folded("Exp", {integers_constant({3, 100})}).known);
    CHECK_FALSE(folded("Sqrt", {integers_constant({-1})}).known);
    CHECK(folded("Exp", {integers_constant({3})}).integers == Dims{20});
    // Counted in steps of 7e18 from -7e18: -7e18, 0, 7e18, and 14e18 is beyond.
    const OnnxConstant from{.integers = {-7'000'000'000'000'000'000}, .known = true};
    const OnnxConstant step{.integers = {7'000'000'000'000'000'000}, .known = true};
    const OnnxConstant range = folded("Range", {from, reals({16e18}), step});
    CHECK(range.dims == Dims{4});
    CHECK_FALSE(range.known);
    CHECK(folded("Range", {from, reals({8e18}), step}).integers ==
          Dims{-7'000'000'000'000'000'000, 0, 7'000'000'000'000'000'000});
  }

  TEST_CASE("operands broadcast") {
    const OnnxConstant column = table({2, 1}, {10, 20});
    const OnnxConstant row = table({3}, {1, 2, 3});
    const OnnxConstant sum = folded("Add", {column, row});
    CHECK(sum.dims == Dims{2, 3});
    CHECK(sum.integers == Dims{11, 12, 13, 21, 22, 23});
    CHECK(folded("Equal", {row, table({}, {2})}).integers == Dims{0, 1, 0});
    CHECK(folded("Where", {table({2, 1}, {1, 0}), row, table({}, {9})}).integers ==
          Dims{1, 2, 3, 9, 9, 9});
    CHECK(folded("Expand", {column, integers_constant({1, 2})}).integers == Dims{10, 10, 20, 20});
    CHECK(refuses("Add", {table({2}, {1, 2}), row}));
  }

  TEST_CASE("parts are joined and chosen along any axis") {
    const OnnxConstant a = table({2, 1}, {1, 2});
    const OnnxConstant b = table({2, 2}, {3, 4, 5, 6});
    CHECK(folded("Concat", {a, b}, {{"axis", std::int64_t{1}}}).integers == Dims{1, 3, 4, 2, 5, 6});
    CHECK(folded("Gather", {b, integers_constant({-1})}, {{"axis", std::int64_t{1}}}).integers ==
          Dims{4, 6});
    CHECK(folded("Gather", {b, table({}, {0})}).dims == Dims{2});
    CHECK(folded("Transpose", {b}).integers == Dims{3, 5, 4, 6});
    CHECK(folded("Range", {table({}, {2}), table({}, {9}), table({}, {3})}).integers ==
          Dims{2, 5, 8});
  }

  TEST_CASE("a reshape copies extents by 0 and infers one by -1") {
    CHECK(reshaped_dims({2, 3, 4}, {0, -1}, false) == Dims{2, 12});
    CHECK(reshaped_dims({2, 3, 4}, {4, 6}, false) == Dims{4, 6});
    CHECK_FALSE(reshaped_dims({2, 3, 4}, {5, -1}, false));
    CHECK_FALSE(reshaped_dims({2, 3, 4}, {-1, -1}, false));
    CHECK_FALSE(reshaped_dims({2, 3}, {0, 0, 0}, false));
  }

  TEST_CASE("what is too large to look at still has a shape") {
    const OnnxConstant large =
        folded("ConstantOfShape", {integers_constant({100, 100})},
               {{"value", OnnxConstant{.dims = {1}, .integers = {7}, .known = true}}});
    CHECK_FALSE(large.known);
    CHECK(large.dims == Dims{100, 100});
    CHECK(folded("Transpose", {folded("Slice", {large, integers_constant({0}),
                                                integers_constant({3}), integers_constant({1})})})
              .dims == Dims{3, 100});
    CHECK(refuses("Range", {table({}, {0}), table({}, {kEnd}), table({}, {1})}));
    CHECK(refuses("ConstantOfShape", {integers_constant({kEnd, kEnd})}));
  }
}

}  // namespace tidemark::fold_test
