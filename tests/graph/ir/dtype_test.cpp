#include "graph/ir/dtype.hpp"

#include <doctest/doctest.h>

#include "graph/core/errors.hpp"
#include "graph/ir/training_graph.hpp"

namespace tidemark::dtype_test {

TEST_SUITE("unit") {
  TEST_CASE("odd numbers of 4-bit elements take up whole bytes") {
    for (const DType type : {DType::kInt4, DType::kNf4, DType::kFp4}) {
      CHECK(bytes_of(type, Elements(0)) == Bytes(0));
      CHECK(bytes_of(type, Elements(1)) == Bytes(1));
      CHECK(bytes_of(type, Elements(2)) == Bytes(1));
      CHECK(bytes_of(type, Elements(7)) == Bytes(4));
      CHECK(bytes_of(type, Elements(4097)) == Bytes(2049));
      CHECK_FALSE(is_floating(type));
    }
  }

  TEST_CASE("wider types take whole bytes per element, whatever the count") {
    CHECK(bytes_of(DType::kBool, Elements(7)) == Bytes(7));
    CHECK(bytes_of(DType::kFloat8, Elements(7)) == Bytes(7));
    CHECK(bytes_of(DType::kBFloat16, Elements(7)) == Bytes(14));
    CHECK(bytes_of(DType::kTf32, Elements(7)) == Bytes(28));
    CHECK(bytes_of(DType::kInt64, Elements(7)) == Bytes(56));
    // 2^60 elements of eight bytes are the most that shapes allow; 4-bit ones do not overflow.
    CHECK(bytes_of(DType::kNf4, Elements(std::int64_t{1} << 60)) == Bytes(std::int64_t{1} << 59));
  }

  TEST_CASE("every type has a name of its own") {
    CHECK(name_of(DType::kFloat64) == "fp64");
    CHECK(name_of(DType::kBool) == "bool");
    CHECK(name_of(DType::kInt4) == "int4");
    CHECK(name_of(DType::kByte) == "byte");
  }

  TEST_CASE("a storage whose bytes are not those of its elements is an internal error") {
    TrainingGraph graph;
    graph.storages.push_back(
        {.bytes = Bytes(3), .dtype = DType::kNf4, .elements = Elements(5), .name = "weight"});
    CHECK_NOTHROW(check_invariants(graph));
    graph.storages[StorageId(0U)].bytes = Bytes(2);
    CHECK_THROWS_WITH_AS(check_invariants(graph), "'weight' has 2 bytes for 5 elements of nf4",
                         InternalError);
    graph.storages[StorageId(0U)] = {.bytes = Bytes(2), .name = "raw"};
    CHECK_NOTHROW(check_invariants(graph));
  }
}

}  // namespace tidemark::dtype_test
