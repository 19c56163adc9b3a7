#include "scenarios/read/located_error.hpp"

#include <doctest/doctest.h>

namespace tidemark::located_error_test {

TEST_SUITE("unit") {
  TEST_CASE("a mistake that only the model or a policy sees is reported at its key") {
    const Value document = parse_document(
        "model: gpt2\ntraining:\n  sequence: 4096\npolicies:\n  - revolve\n"
        "  - checkpoint: {layers: [99]}\n",
        "s.yaml");
    const auto text = [&](const UserError& error) {
      return std::string(located(error, document).what());
    };
    CHECK(text({{}, "training.sequence", "too long"}) == "s.yaml:3:3: training.sequence: too long");
    CHECK(text({{}, "policies.checkpoint.layers", "none"}) ==
          "s.yaml:6:18: policies.checkpoint.layers: none");
    CHECK(text({{}, "policies.revolve.checkpoints", "none"}) ==
          "s.yaml:5:5: policies.revolve.checkpoints: none");
    // The error is at the nearest key that is there.
    CHECK(text({{}, "training.image.side", "odd"}) == "s.yaml:2:1: training.image.side: odd");
    CHECK(text({{}, "allocator", "odd"}) == "allocator: odd");
    CHECK(text(UserError("no path")) == "no path");
    CHECK(text({{"a.json", 7, 2}, "training.sequence", "there"}) ==
          "a.json:7:2: training.sequence: there");
  }
}

}  // namespace tidemark::located_error_test
