// Operators in place under online eviction: what they read and what they write can both be dropped.
#include "sim/program/copy_on_write.hpp"

#include <array>
#include <map>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/registry.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "sim/step/pass_checks.hpp"
#include "tests/support/random_program.hpp"

namespace tidemark::copy_on_write_test {

using tidemark::test::Lowered;
using tidemark::test::pick;
using tidemark::test::random_program;
using tidemark::test::random_training_graph;
using tidemark::test::Rng;
using tidemark::test::run_ideal;

namespace {

std::unique_ptr<EvictionPolicy> dtr(const std::string& mode) {
  const PolicyRegistry registry;
  const Value document = parse_document("{mode: " + mode + "}", "test.yaml");
  AnyPolicy policy = registry.find("eviction")->decode(Decoder(document), {});
  return std::move(std::get<std::unique_ptr<EvictionPolicy>>(policy));
}

// A random step without any policy, in which operators in place are frequent.
Lowered program_in_place(Rng& rng) {
  Lowered l;
  l.graph = random_training_graph(rng, {.blocks = pick(rng, 2, 6), .operators_per_block = 5});
  l.graph.micro_batches = 1;
  l.plain = l.order = program_order(l.graph, pick(rng, 1, 3));
  l.live = analyze_liveness(l.graph, l.order);
  const ResidencyPlan plan(l.live);
  l.program = lower(l.graph, l.order, l.live, plan.decisions());
  return l;
}

// Returns by role what launches of the program change in place.
std::map<Role, int> changed_in_place(const StepProgram& program) {
  std::map<Role, int> changed;
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (program.opcode[i] != Opcode::kLaunch) continue;
    for (AllocationUse use : program.uses_of(i)) {
      const bool changes = use.access() == Access::kMutate || use.access() == Access::kOverwrite;
      if (changes) ++changed[program.allocations[use.allocation()].role];
    }
  }
  return changed;
}

PointResult run_point(const std::string& model, const std::string& policies, double gib) {
  const Environment where = default_environment();
  const std::string text = fmt::format(
      "{{model: {{preset: {}}}, hardware: {{gpu: a100-sxm-80gb, hbm: {{capacity: {}}}}}, training: "
      "{{micro_batch: 64, precision: fp32, optimizer: sgd}}, allocator: ideal, policies: {}}}",
      model, static_cast<std::int64_t>(gib * static_cast<double>(kGiB.count)), policies);
  const Scenario scenario = decode_scenario(parse_document(text, "test.yaml"), where);
  return simulate(scenario, build_training(scenario), {.smallest_capacity = false});
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("a program with copies computes what it computes without, and may drop more") {
    Rng rng(4711);
    int copied = 0;
    int in_place = 0;
    int only_with = 0;
    int only_without = 0;
    for (int round = 0; round < 400; ++round) {
      CAPTURE(round);
      const Lowered l = round % 2 == 0 ? random_program(rng) : program_in_place(rng);
      Lowered copies = l;
      copies.program = copy_on_write(l.program);
      REQUIRE_NOTHROW(check_copies(l.program, copies.program));
      const std::map<Role, int> before = changed_in_place(l.program);
      const std::map<Role, int> after = changed_in_place(copies.program);
      for (const auto& [role, count] : before) {
        const bool value = role == Role::kSavedActivation || role == Role::kTemporary;
        const int left = after.contains(role) ? after.at(role) : 0;
        if (value) {
          in_place += left;
          copied += count - left;
        } else {
          CHECK(left == count);
        }
      }
      // The same events in time where memory suffices: an operator in place takes as long.
      const RunResult plain = run_ideal(l, kGiB.count);
      const RunResult roomy = run_ideal(copies, kGiB.count);
      CHECK(roomy.total == plain.total);
      CHECK(roomy.most_live >= plain.most_live);
      const std::int64_t capacity = plain.most_live.count * pick(rng, 50, 99) / 100;
      const char* mode =
          std::array{"eager", "ignore", "banish"}.at(static_cast<std::size_t>(round % 3));
      CAPTURE(mode);
      const auto policy = dtr(mode);
      // The content of every read is checked.
      const RunResult with = run_ideal(copies, capacity, policy.get(), true);
      const RunResult without = run_ideal(l, capacity, policy.get(), true);
      REQUIRE(with.most_live.count <= capacity);
      REQUIRE(with.status != RunStatus::kDeadlock);
      const bool fits = with.status == RunStatus::kCompleted;
      const bool fitted = without.status == RunStatus::kCompleted;
      only_with += fits && !fitted ? 1 : 0;
      only_without += fitted && !fits ? 1 : 0;
    }
    CHECK(copied > 300);
    // Values that copies to the host touch are changed in place.
    CHECK(in_place < copied);
    CHECK(only_with > 20);
    CHECK(only_without <= only_with / 10);
    MESSAGE(copied, " copied, ", in_place, " in place, ", only_with, " fit with copies only, ",
            only_without, " without only");
  }
}

TEST_SUITE("sim") {
  TEST_CASE("a program without operators in place is left as it is") {
    Rng rng(5);
    for (int round = 0; round < 50; ++round) {
      const Lowered l = random_program(rng);
      if (!changed_in_place(l.program).empty()) continue;
      const StepProgram copied = copy_on_write(l.program);
      CHECK(copied.opcode == l.program.opcode);
      CHECK(copied.subject == l.program.subject);
      CHECK(copied.edges == l.program.edges);
      CHECK(copied.first_use == l.program.first_use);
    }
  }

  TEST_CASE("the check finds a copy that is read in place of what it was made from") {
    Rng rng(4711);
    int found = 0;
    for (int round = 0; round < 60; ++round) {
      CAPTURE(round);
      const Lowered l = random_program(rng);
      StepProgram copied = copy_on_write(l.program);
      const std::size_t first = l.program.allocations.size();
      for (AllocationUse& use : copied.uses) {
        if (use.access() != Access::kRead || use.allocation().index() < first) continue;
        // reads what held the value before it was changed
        const StorageId storage = copied.allocations[use.allocation()].storage;
        for (AllocationId id : ids_of(copied.allocations)) {
          if (copied.allocations[id].storage != storage) continue;
          use = AllocationUse(id, Access::kRead);
          break;
        }
        CHECK_THROWS_AS(check_copies(l.program, copied), InternalError);
        ++found;
        break;
      }
    }
    CHECK(found > 10);
  }

  // They have ReLU(inplace=True), and ResNets add the shortcut in place.
  TEST_CASE("activations behind operators in place are dropped and recomputed") {
    for (const char* model : {"resnet18", "resnet50", "mobilenet_v2", "densenet121"}) {
      CAPTURE(model);
      const PointResult plain = run_point(model, "[]", 40);
      REQUIRE(plain.status == PointStatus::kFits);
      const double gib =
          0.6 * static_cast<double>(plain.device_needed().count) / static_cast<double>(kGiB.count);
      CHECK(run_point(model, "[]", gib).status == PointStatus::kOutOfMemory);
      const PointResult evicting = run_point(model, "[{eviction: {heuristic: dtr}}]", gib);
      CHECK(evicting.status == PointStatus::kFits);
      CHECK(evicting.run.restores > 0);
    }
  }
}

}  // namespace tidemark::copy_on_write_test
