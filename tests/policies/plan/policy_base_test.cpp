// Budgets are given through the interface of policies, whatever their kind.
#include "policies/plan/policy_base.hpp"

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "graph/core/document.hpp"
#include "graph/core/scalars.hpp"
#include "policies/registry.hpp"

namespace tidemark::policy_base_test {

namespace {

bool has_budget_key(const PolicyEntry& entry) {
  std::vector<ParameterNote> notes;
  static_cast<void>(entry.decode(Decoder::describing(notes), {}));
  return std::any_of(notes.begin(), notes.end(), [](const ParameterNote& note) {
    return note.name == "budget" && note.type == ScalarRules<Bytes>::type_name();
  });
}

// Whether the policy asks for no size of its own: shards take what ranks there are.
bool has_default_size(const PolicyEntry& entry) {
  std::vector<ParameterNote> notes;
  static_cast<void>(entry.decode(Decoder::describing(notes), {}));
  return std::none_of(notes.begin(), notes.end(),
                      [](const ParameterNote& note) { return note.name == "size"; });
}

AnyPolicy decoded(const PolicyEntry& entry, const std::string& parameters) {
  const Value document = parse_document(parameters, "test");
  return entry.decode(Decoder(document), {});
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a policy with a key `budget` takes one, and no other does") {
    int takes = 0;
    const PolicyRegistry registry;
    for (const PolicyEntry& entry : registry.entries()) {
      // These have a required key, and no budget.
      if (entry.name == "checkpoint_sequential" || entry.name == "distill") continue;
      CAPTURE(entry.name);
      const bool has_size = entry.mesh != nullptr && !has_default_size(entry);
      AnyPolicy policy = decoded(entry, entry.name == "te_offload" ? "{layers: 1}"
                                        : has_size                 ? "{size: 1}"
                                                                   : "{}");
      CHECK(policy_of(policy).budget() == std::nullopt);
      const bool taken = policy_of(policy).set_budget(Bytes(7'000'000));
      CHECK(taken == has_budget_key(entry));
      CHECK(policy_of(policy).budget() == (taken ? std::optional(Bytes(7'000'000)) : std::nullopt));
      takes += taken ? 1 : 0;
    }
    // 13 that move values, revolve and the 8 that solve for a budget.
    CHECK(takes == 13 + 1 + 8 + 1);
  }

  TEST_CASE("a budget in the scenario is the policy's, and a given one replaces it") {
    const PolicyRegistry registry;
    for (const char* name : {"belady", "hybrid", "revolve", "optimal", "keep_all"}) {
      CAPTURE(name);
      AnyPolicy policy = decoded(*registry.find(name), "{budget: 3MiB}");
      CHECK(policy_of(policy).budget() == Bytes(3 * 1024 * 1024));
      CHECK(policy_of(policy).set_budget(Bytes(5)));
      CHECK(policy_of(policy).budget() == Bytes(5));
    }
    // `checkpoints` decides what is kept.
    AnyPolicy revolve = decoded(*registry.find("revolve"), "{checkpoints: 3}");
    CHECK_FALSE(policy_of(revolve).set_budget(Bytes(5)));
  }
}

}  // namespace tidemark::policy_base_test
