#include "policies/adapt/name_patterns.hpp"

#include <doctest/doctest.h>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace name_patterns_test {
namespace {

Graph model_of(const std::vector<std::string>& names) {
  Graph graph;
  graph.name = "model";
  for (const std::string& name : names)
    (void)graph.add_parameter(name, {2, 2}, DType::kFloat32, {});
  return graph;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a name covers all below it, a star crosses dots, and except wins") {
    const Graph graph = model_of({"wte.weight", "h.0.attn.c_attn.weight", "h.0.attn.c_attn.bias",
                                  "h.0.ln_1.weight", "h.1.attn.c_attn.weight", "hh.weight"});
    const auto count = [&](NamePatterns patterns) {
      return matching_parameters(graph, patterns, "freeze").size();
    };
    CHECK(count({.layers = {"*"}, .except = {}}) == 6);
    CHECK(count({.layers = {"h"}, .except = {}}) == 4);
    CHECK(count({.layers = {"h.*.attn"}, .except = {}}) == 3);
    CHECK(count({.layers = {"h.[0-9]"}, .except = {"*.bias"}}) == 3);
    CHECK(count({.layers = {"*"}, .except = {"h.*.ln_1", "wte"}}) == 4);
  }

  TEST_CASE("a pattern that matches nothing is an error that names what is nearest") {
    const Graph graph = model_of({"wte.weight", "h.0.ln_1.weight"});
    try {
      (void)matching_parameters(graph, {.layers = {"wtte"}, .except = {}}, "freeze");
      FAIL("no error");
    } catch (const UserError& error) {
      CHECK(std::string(error.what()).find("did you mean 'wte'") != std::string::npos);
    }
  }
}

}  // namespace name_patterns_test
}  // namespace tidemark
