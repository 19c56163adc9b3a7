// Fields of CSV and names of roles, which tables and spreadsheets share.
#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "graph/core/csv.hpp"
#include "sim/result/role_labels.hpp"

namespace tidemark::tables_test {

TEST_SUITE("unit") {
  TEST_CASE("a field of CSV is quoted where it holds a comma, a quote or a line break") {
    CHECK(csv_field("gpt2") == "gpt2");
    CHECK(csv_field("") == "");
    CHECK(csv_field("a, b") == "\"a, b\"");
    CHECK(csv_field("8\" disk") == "\"8\"\" disk\"");
    CHECK(csv_field("two\nlines") == "\"two\nlines\"");
    CHECK(csv_field("=1+1") == "'=1+1");
    CHECK(csv_field("@a,b") == "\"'@a,b\"");
    CHECK(csv_field("-0.5") == "-0.5");
    CHECK(csv_field("-1+2") == "'-1+2");
    CHECK(csv_field("-model") == "'-model");
  }

  TEST_CASE("a stacked chart has every role once, each under a name of its own") {
    CHECK(std::set<Role>(kStackOrder.begin(), kStackOrder.end()).size() == kRoles);
    std::set<std::string_view> labels;
    for (const Role role : kStackOrder)
      labels.insert(label_of(role));
    CHECK(labels.size() == kRoles);
    CHECK(label_of(Role::kSavedActivation) == "saved activations");
    CHECK(label_of(Role::kWorkspace) == "workspace");
  }
}

}  // namespace tidemark::tables_test
