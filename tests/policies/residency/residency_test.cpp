// Policies of every kind on a chain small enough to count by hand.
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "policies/registry.hpp"
#include "sim/engine/engine.hpp"
#include "sim/memory/ideal_allocator.hpp"
#include "sim/program/lower.hpp"
#include "sim/program/verify.hpp"
#include "sim/step/planned_step.hpp"
#include "tests/support/hand_made_graph.hpp"

namespace tidemark::residency_test {

namespace {

// L blocks of one operator each. Forward of block i reads x_i and makes x_{i+1} (100 B) and an
// internal value u_i (300 B) that only its own backward reads; backward of block i reads x_i, u_i
// and the gradient (100 B) and makes the next one. Every operator takes 1 us.
//
//   F_i: x_i -> x_{i+1}, u_i        B_i: x_i, u_i, g_{i+1} -> g_i
struct Chain {
  TrainingGraph graph;
  std::vector<StorageId> x;
  std::vector<StorageId> u;

  explicit Chain(int blocks) {
    graph.blocks = blocks;
    const auto storage = [&](std::string name, std::int64_t bytes, Role role, LayerId layer) {
      return testing::add_storage(graph, std::move(name), bytes, role, layer);
    };
    const auto add = [&](std::string name, Phase phase, LayerId layer,
                         const std::vector<Touch>& touches) {
      return testing::add_microsecond(graph, std::move(name), phase, layer, touches);
    };
    x.push_back(storage("x0", 100, Role::kSavedActivation, {}));
    graph.part(PartKind::kForward)
        .push_back(add("embed", Phase::kForward, {}, {{x[0], Access::kCreate}}));
    std::vector<LayerId> layers;
    for (int i = 0; i < blocks; ++i) {
      const LayerId layer = graph.layers.push_back({.name = std::to_string(i), .block = i});
      layers.push_back(layer);
      x.push_back(storage("x", 100, Role::kSavedActivation, layer));
      u.push_back(storage("u", 300, Role::kSavedActivation, layer));
      graph.part(PartKind::kForward)
          .push_back(add("F", Phase::kForward, layer,
                         {{x[x.size() - 2], Access::kRead},
                          {x.back(), Access::kCreate},
                          {u.back(), Access::kCreate}}));
    }
    StorageId gradient = storage("g", 100, Role::kActivationGradient, {});
    graph.part(PartKind::kBackward)
        .push_back(add("loss", Phase::kBackward, {},
                       {{x.back(), Access::kRead}, {gradient, Access::kCreate}}));
    for (std::size_t i = static_cast<std::size_t>(blocks); i-- > 0;) {
      const StorageId next = storage("g", 100, Role::kActivationGradient, {});
      graph.part(PartKind::kBackward)
          .push_back(add("B", Phase::kBackward, layers[i],
                         {{x[i], Access::kRead},
                          {u[i], Access::kRead},
                          {gradient, Access::kRead},
                          {next, Access::kCreate}}));
      gradient = next;
    }
  }
};

struct Outcome {
  RunResult run;
  std::vector<PolicyOutcome> policies;
  std::size_t occurrences = 0;
};

Outcome play(const Chain& chain, const std::vector<std::pair<std::string, std::string>>& listed,
             double ns_per_byte = 0.001) {
  const PolicyRegistry registry;
  CostTable costs;
  for (const Operator& op : chain.graph.operators) {
    costs.device.push_back(op.work.fixed);
    costs.dispatch.push_back(Duration(0));
  }
  costs.copy_out = {.ns_per_byte_alone = ns_per_byte, .ns_per_byte_duplex = ns_per_byte};
  costs.copy_in = costs.copy_out;
  const DeviceProfile device{};
  const ProgramOrder plain = program_order(chain.graph, 1);
  ProgramOrder order = plain;
  Liveness live = analyze_liveness(chain.graph, order);
  Outcome outcome;
  std::vector<AnyPolicy> policies;
  std::vector<Value> documents;
  documents.reserve(listed.size());
  for (const auto& [name, parameters] : listed) {
    documents.push_back(parse_document(parameters, "test.yaml"));
    policies.push_back(registry.find(name)->decode(Decoder(documents.back()), {}));
  }
  for (const AnyPolicy& p : policies) {
    if (const auto* s = std::get_if<std::unique_ptr<SequencePolicy>>(&p)) {
      PolicyOutcome ignored;
      order = (*s)->order({chain.graph, order, live, costs.device, device}, ignored);
      live = analyze_liveness(chain.graph, order);
    }
  }
  ResidencyPlan recompute(live);
  for (std::size_t i = 0; i < policies.size(); ++i) {
    recompute.begin_policy(i, listed[i].first);
    if (const auto* r = std::get_if<std::unique_ptr<ResidencyPolicy>>(&policies[i])) {
      (*r)->plan_recompute({chain.graph, order, live, costs.device, device}, recompute);
    }
  }
  std::vector<PassTime> untimed;
  const std::unique_ptr<PlannedStep> planned =
      insert_and_carry({chain.graph, order, live, recompute}, untimed);
  outcome.policies = recompute.outcomes();
  order = planned->step.order;
  const Liveness& after = planned->step.live;
  ResidencyPlan& movement = planned->movement;
  for (std::size_t i = 0; i < policies.size(); ++i) {
    movement.begin_policy(i, listed[i].first);
    if (const auto* r = std::get_if<std::unique_ptr<ResidencyPolicy>>(&policies[i])) {
      (*r)->plan_movement({chain.graph, order, after, costs.device, device}, movement);
    }
    outcome.policies[i].offloaded += movement.outcomes()[i].offloaded;
  }
  const StepProgram program = lower(chain.graph, order, after, movement.decisions());
  const std::vector<std::string> problems = verify(chain.graph, plain, order, program);
  REQUIRE_MESSAGE(problems.empty(), (problems.empty() ? "" : problems.front()));
  IdealAllocator allocator{kGiB};
  allocator.reserve(program.allocations.size());
  Scratch scratch;
  scratch.prepare(program, false);
  outcome.run = run(program, costs, allocator, scratch, {.host_capacity = kGiB});
  outcome.occurrences = order.at.size();
  return outcome;
}

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("without policies everything that backward reads is there at its start") {
    const Outcome o = play(Chain(8), {});
    // At the loss: x0..x8 and u0..u7 and the first gradient: 9*100 + 8*300 + 100.
    CHECK(o.run.live.bytes.count == 3400);
    CHECK(o.run.total == std::chrono::microseconds(1 + 8 + 1 + 8));
  }

  TEST_CASE("checkpoint_every 1 keeps block inputs and recomputes one block's values") {
    const Outcome o = play(Chain(8), {{"checkpoint_every", "{period: 1}"}});
    // Backward of block 7: x0..x7, the recomputed x8 (scratch) and u7, the gradient g8; then g7
    // takes the place of x8: 8*100 + 300 + 2*100.
    CHECK(o.run.live.bytes.count == 1300);
    CHECK(o.run.total == std::chrono::microseconds(18 + 8));
    CHECK(o.run.recompute == std::chrono::microseconds(8));
    CHECK(o.policies[0].recomputed_operators == 8);
  }

  TEST_CASE("checkpoint_every 4 keeps two inputs and one segment's values") {
    const Outcome o = play(Chain(8), {{"checkpoint_every", "{period: 4}"}});
    // Backward of block 7: x0 and x4 kept, x5..x7 and u4..u7 recomputed, g8 and g7.
    CHECK(o.run.live.bytes.count == 200 + 3 * 100 + 4 * 300 + 200);
    CHECK(o.run.total == std::chrono::microseconds(18 + 8));
  }

  TEST_CASE("offloading with a fast link holds two blocks at a time") {
    const Outcome o = play(Chain(8), {{"offload_activations", "{prefetch: 1, min_bytes: 1B}"}});
    // Blocks 0..6 leave the device; x7, u7 and x8 stay with the last block.
    CHECK(o.policies[0].offloaded.count == 7 * 400);
    CHECK(o.run.host.bytes.count == 7 * 400);
    CHECK(o.run.live.bytes.count < 1700);
    // A copy of 300 B takes well under 1 ns here: nothing is exposed.
    CHECK(o.run.exposed_transfer < std::chrono::nanoseconds(20));
  }

  TEST_CASE("offloading over a slow link costs the time that the copies need") {
    // 400 B per block at 20 ns/B are 8 us per block against 1 us of compute: the step takes as long
    // as 7 blocks out and 7 blocks in, each 56 us.
    const Outcome o = play(Chain(8), {{"offload_activations", "{prefetch: 1, min_bytes: 1B}"}}, 20);
    CHECK(o.run.total >= std::chrono::microseconds(112));
    CHECK(o.run.total < std::chrono::microseconds(112 + 18));
    CHECK(o.run.exposed_transfer > std::chrono::microseconds(90));
  }

  TEST_CASE("checkpointing and offloading compose, and their order does not matter") {
    const std::pair<std::string, std::string> checkpoint{"checkpoint_every", "{period: 1}"};
    const std::pair<std::string, std::string> offload{"offload_activations", "{min_bytes: 1B}"};
    const Outcome a = play(Chain(8), {checkpoint, offload});
    const Outcome b = play(Chain(8), {offload, checkpoint});
    CHECK(a.run.live.bytes == b.run.live.bytes);
    CHECK(a.run.total == b.run.total);
    // The values that checkpointing keeps, the inputs x0..x6, are those that move.
    CHECK(a.policies[1].offloaded.count == 7 * 100);
    CHECK(a.run.live.bytes.count < play(Chain(8), {checkpoint}).run.live.bytes.count);
  }

  TEST_CASE("revolve with two checkpoints reverses ten blocks in the optimal number of forwards") {
    const Chain chain(10);
    const Outcome o = play(chain, {{"revolve", "{checkpoints: 2}"}});
    // c = 3: binomial(3+2, 3) = 10 >= 10, so r = 2 and 2*10 - binomial(5, 4) = 15 repeats.
    CHECK(o.occurrences == program_order(chain.graph, 1).at.size() + 15);
    CHECK(o.run.recompute == std::chrono::microseconds(15));
    // Three inputs, one block's input and values, two gradients at most.
    CHECK(o.run.live.bytes.count <= 3 * 100 + 2 * 100 + 300 + 2 * 100);
  }

  TEST_CASE("the first decision on a gap stands and a second one is contested") {
    const Chain chain(4);
    const Outcome o =
        play(chain, {{"checkpoint_every", "{period: 1}"}, {"checkpoint_every", "{period: 2}"}});
    CHECK(o.policies[0].decided > 0);
    CHECK(o.policies[1].contested > 0);
  }
}

}  // namespace tidemark::residency_test
