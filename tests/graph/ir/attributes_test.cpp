#include "graph/ir/attributes.hpp"

#include <doctest/doctest.h>

namespace tidemark::attributes_test {

TEST_SUITE("unit") {
  TEST_CASE("an attribute that is absent reads as its default") {
    const Attributes none;
    CHECK(none.integer("groups", 1) == 1);
    CHECK(none.number("p", 0.5) == 0.5);
    CHECK(none.text("mode", "row") == "row");
    CHECK(none.list("axes").empty());
  }

  TEST_CASE("an attribute of another type than is read is an internal error") {
    const Attributes given{{"groups", 2.0}, {"p", std::int64_t{1}}, {"axes", std::int64_t{0}}};
    CHECK_THROWS_WITH_AS(static_cast<void>(given.integer("groups", 1)),
                         "attribute 'groups' has another type than is read", InternalError);
    CHECK_THROWS_AS(static_cast<void>(given.number("p")), InternalError);
    CHECK_THROWS_AS(static_cast<void>(given.list("axes")), InternalError);
    CHECK(given.number("groups") == 2.0);
  }
}

}  // namespace tidemark::attributes_test
