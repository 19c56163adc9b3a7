#include <set>
#include <string>

#include <doctest/doctest.h>

#include "graph/operators/family.hpp"

namespace tidemark::registry_test {

TEST_SUITE("unit") {
  TEST_CASE("every operator family is complete and found by its own name") {
    std::set<std::string_view> names;
    for (const OperatorFamily* family : all_families()) {
      CAPTURE(std::string(family->name));
      CHECK(names.insert(family->name).second);
      CHECK(find_family(family->name) == family);
      CHECK_FALSE(family->summary.empty());
      CHECK((family->infer != nullptr));
      CHECK((family->forward != nullptr));
      CHECK((family->save != nullptr));
      CHECK((family->backward != nullptr));
    }
    CHECK(names.size() > 50);
    CHECK(find_family("no_such_family") == nullptr);
  }
}

}  // namespace tidemark::registry_test
