// A chain of equal layers on which the rules of offload policies can be counted by hand, and plans
// run on it over a link of a chosen rate.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "policies/registry.hpp"
#include "sim/engine/engine.hpp"
#include "sim/memory/ideal_allocator.hpp"
#include "sim/program/lower.hpp"
#include "sim/program/verify.hpp"
#include "sim/step/planned_step.hpp"
#include "tests/support/hand_made_graph.hpp"

namespace tidemark::test {

// Layer i reads x_i (1 B) and makes x_{i+1} and u_i (1000 B), which its backward reads beside the
// gradient (1 B). Every operator takes 1 us. With `saves_input`, backward reads x_i too.
//
//   embed -> x_0    F_i: x_i -> x_{i+1}, u_i    loss: x_L -> g_L    B_i: u_i, g_{i+1} -> g_i
struct OffloadChain {
  static constexpr std::int64_t kSaved = 1000;
  TrainingGraph graph;

  static constexpr OperatorFamily kFamily{.name = "F"};

  explicit OffloadChain(int layers, bool saves_input = false) {
    graph.blocks = layers;
    const auto storage = [&](std::int64_t bytes, Role role, LayerId layer, std::string name) {
      return testing::add_storage(graph, std::move(name), bytes, role, layer);
    };
    const auto add = [&](std::string name, Phase phase, LayerId layer,
                         const std::vector<Touch>& touches) {
      return testing::add_microsecond(graph, std::move(name), phase, layer, touches);
    };
    std::vector<StorageId> x{storage(1, Role::kSavedActivation, {}, "x")};
    std::vector<StorageId> u;
    std::vector<LayerId> ids;
    graph.part(PartKind::kForward)
        .push_back(add("embed", Phase::kForward, {}, {{x[0], Access::kCreate}}));
    for (int i = 0; i < layers; ++i) {
      ids.push_back(
          graph.layers.push_back({.name = "h." + std::to_string(i) + ".mlp", .block = i}));
      x.push_back(storage(1, Role::kSavedActivation, ids.back(), "x"));
      u.push_back(storage(kSaved, Role::kSavedActivation, ids.back(), "u"));
      const OperatorId f = add("F", Phase::kForward, ids.back(),
                               {{x[x.size() - 2], Access::kRead},
                                {x.back(), Access::kCreate},
                                {u.back(), Access::kCreate}});
      graph.operators[f].family = &kFamily;
      graph.operators[f].part = OperatorPart::kForward;
      graph.part(PartKind::kForward).push_back(f);
    }
    StorageId gradient = storage(1, Role::kActivationGradient, {}, "g");
    graph.part(PartKind::kBackward)
        .push_back(add("loss", Phase::kBackward, {},
                       {{x.back(), Access::kRead}, {gradient, Access::kCreate}}));
    for (auto i = static_cast<std::size_t>(layers); i-- > 0;) {
      const StorageId next = storage(1, Role::kActivationGradient, {}, "g");
      std::vector<Touch> touches{
          {u[i], Access::kRead}, {gradient, Access::kRead}, {next, Access::kCreate}};
      if (saves_input) touches.push_back({x[i], Access::kRead});
      graph.part(PartKind::kBackward).push_back(add("B", Phase::kBackward, ids[i], touches));
      gradient = next;
    }
  }
};

struct Played {
  RunResult run;
  std::vector<PolicyOutcome> policies;
};

// Lowers, verifies and runs plans on the ideal allocator.
class ChainTrial final : public TrialRun {
 public:
  ChainTrial(const TrainingGraph& graph, const CostTable& costs, const ProgramOrder& order,
             const Liveness& live)
      : graph_(graph), costs_(costs), order_(order), live_(live) {}

  [[nodiscard]] TrialFigures run(const ResidencyPlan& plan) const override {
    ResidencyPlan tried = plan;
    std::vector<PassTime> untimed;
    const std::unique_ptr<PlannedStep> planned =
        insert_and_carry({graph_, order_, live_, tried}, untimed);
    const RunResult result =
        execute(graph_, planned->step.order, planned->step.live, planned->movement, costs_);
    return {.peak_live = result.live.bytes,
            .peak_reserved = result.reserved.bytes,
            .step = result.total};
  }
  [[nodiscard]] bool fits(const ResidencyPlan& plan) const override {
    return run(plan).peak_reserved <= kGiB;
  }

  static RunResult execute(const TrainingGraph& graph, const ProgramOrder& order,
                           const Liveness& live, const ResidencyPlan& movement,
                           const CostTable& costs) {
    const StepProgram program = lower(graph, order, live, movement.decisions());
    const std::vector<std::string> problems =
        verify(graph, program_order(graph, order.steps), order, program);
    REQUIRE_MESSAGE(problems.empty(), (problems.empty() ? "" : problems.front()));
    IdealAllocator allocator{kGiB};
    allocator.reserve(program.allocations.size());
    Scratch scratch;
    scratch.prepare(program, false);
    return run_program(program, costs, allocator, scratch);
  }

 private:
  static RunResult run_program(const StepProgram& program, const CostTable& costs,
                               IdealAllocator& allocator, Scratch& scratch) {
    return tidemark::run(program, costs, allocator, scratch, {.host_capacity = kGiB});
  }

  const TrainingGraph& graph_;
  const CostTable& costs_;
  const ProgramOrder& order_;
  const Liveness& live_;
};

// Recomputes and moves by the listed policies, in the order in which compile() calls them. A byte
// takes `ns_per_byte` on the link in each direction.
inline Played play(const TrainingGraph& graph,
                   const std::vector<std::pair<std::string, std::string>>& listed,
                   double ns_per_byte) {
  const PolicyRegistry registry;
  CostTable costs;
  for (const Operator& op : graph.operators) {
    costs.device.push_back(op.work.fixed);
    costs.dispatch.push_back(Duration(0));
  }
  costs.copy_out = {.ns_per_byte_alone = ns_per_byte, .ns_per_byte_duplex = ns_per_byte};
  costs.copy_in = costs.copy_out;
  DeviceProfile device{};
  device.hbm.capacity = kGiB;
  device.links.device_to_host.alone.value = 1e9 / ns_per_byte;
  device.links.host_to_device.alone.value = 1e9 / ns_per_byte;

  std::vector<Value> documents;
  documents.reserve(listed.size());
  std::vector<AnyPolicy> policies;
  for (const auto& [name, parameters] : listed) {
    documents.push_back(parse_document(parameters, "test.yaml"));
    policies.push_back(registry.find(name)->decode(Decoder(documents.back()), {}));
  }
  const auto ask = [&](const ProgramOrder& order, const Liveness& live, ResidencyPlan& plan,
                       auto question) {
    const ChainTrial trial(graph, costs, order, live);
    for (std::size_t i = 0; i < policies.size(); ++i) {
      plan.begin_policy(i, listed[i].first);
      const auto& policy = std::get<std::unique_ptr<ResidencyPolicy>>(policies[i]);
      ((*policy).*question)({graph, order, live, costs.device, device, &trial}, plan);
    }
  };
  const ProgramOrder plain = program_order(graph, 1);
  const Liveness plain_live = analyze_liveness(graph, plain);
  ResidencyPlan recompute(plain_live);
  ask(plain, plain_live, recompute, &ResidencyPolicy::plan_recompute);
  std::vector<PassTime> untimed;
  const std::unique_ptr<PlannedStep> planned =
      insert_and_carry({graph, plain, plain_live, recompute}, untimed);
  const ProgramOrder& order = planned->step.order;
  const Liveness& live = planned->step.live;
  ResidencyPlan& movement = planned->movement;
  ask(order, live, movement, &ResidencyPolicy::plan_movement);

  Played played;
  played.policies = recompute.outcomes();
  for (std::size_t i = 0; i < policies.size(); ++i) {
    played.policies[i].offloaded += movement.outcomes()[i].offloaded;
    played.policies[i].contested += movement.outcomes()[i].contested;
    played.policies[i].decided += movement.outcomes()[i].decided;
  }
  played.run = ChainTrial::execute(graph, order, live, movement, costs);
  return played;
}

}  // namespace tidemark::test
