// The rules of activation offloading on a chain of equal layers, against their closed forms.
#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "tests/policies/residency/offload_chain.hpp"

namespace tidemark::test::residency_offload_policies_test {
namespace {

constexpr std::int64_t kT = OffloadChain::kSaved;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

Played play_one(int layers, const std::string& name, const std::string& parameters,
                double ns_per_byte, bool saves_input = false) {
  return play(OffloadChain(layers, saves_input).graph, {{name, parameters}}, ns_per_byte);
}

TEST_SUITE("golden") {
  TEST_CASE("TransformerEngine: of L layers that save T each at most L - n are on the device") {
    for (int layers = 3; layers <= 9; ++layers) {
      for (int n = 1; n < layers; ++n) {
        CAPTURE(layers);
        CAPTURE(n);
        const Played p = play_one(layers, "te_offload",
                                  "{min_bytes: 100B, layers: " + std::to_string(n) + "}", 0.5);
        // Beside the sets: x_i and x_{i+1} in forward, two gradients in backward.
        CHECK(p.run.live.bytes.count == (layers - n) * kT + 2);
        CHECK(p.policies[0].offloaded.count == n * kT);
      }
    }
  }

  TEST_CASE("copies shorter than compute are hidden; longer ones stall by exactly the difference") {
    // n = L - 2: the copy of layer j has the forward of j + 1 and the backward of j + 1 to hide in.
    const int layers = 8;
    const int n = 6;
    const std::string parameters = "{min_bytes: 100B, layers: 6}";
    const Played hidden = play_one(layers, "te_offload", parameters, 0.9);
    CHECK(hidden.run.exposed_transfer == nanoseconds(0));
    CHECK(hidden.run.total == microseconds(1 + layers + 1 + layers));
    // 1000 B at 1.7 ns/B: 0.7 us more than a layer takes, in both directions.
    const Played late = play_one(layers, "te_offload", parameters, 1.7);
    CHECK(late.run.exposed_transfer == 2 * n * nanoseconds(700));
    CHECK(late.run.total == microseconds(18) + 2 * n * nanoseconds(700));
  }

  TEST_CASE("torchtune: in_flight tensors stay on the device behind the one being saved") {
    for (int flight : {1, 3, 5}) {
      CAPTURE(flight);
      const Played p =
          play_one(10, "torchtune_offload",
                   "{min_bytes: 100B, in_flight: " + std::to_string(flight) + "}", 0.2);
      CHECK(p.run.live.bytes.count == (flight + 1) * kT + 2);
      // The last one is in the stash when the first node needs it, and the node after it runs
      // before the stash could be cleared.
      CHECK(p.policies[0].offloaded.count == (flight == 1 ? 9 : 8) * kT);
    }
  }

  TEST_CASE("torchtune without streams copies in line with compute") {
    // Ten copies out and ten in of 0.2 us each.
    const Played p = play_one(10, "torchtune_offload", "{min_bytes: 100B, streams: false}", 0.2);
    CHECK(p.policies[0].offloaded.count == 10 * kT);
    CHECK(p.run.exposed_transfer == 20 * nanoseconds(200));
    CHECK(p.run.live.bytes.count == kT + 2);
  }

  TEST_CASE("Megatron: the last group of each module stays, the next group is fetched ahead") {
    // in_flight 0: compute waits for every copy out. Backward holds two groups.
    const Played p = play_one(8, "megatron_offload", "{min_bytes: 100B, in_flight: 0}", 0.4);
    CHECK(p.policies[0].offloaded.count == 7 * kT);
    CHECK(p.run.exposed_transfer == 7 * nanoseconds(400));
    CHECK(p.run.live.bytes.count == 2 * kT + 2);
    // Of seven eligible groups int(7 * 0.5) = 3 stay beside the margin.
    CHECK(play_one(8, "megatron_offload", "{min_bytes: 100B, fraction: 0.5}", 0.4)
              .policies[0]
              .offloaded.count == 4 * kT);
    CHECK(play_one(8, "megatron_offload", "{min_bytes: 100B, margin: 3}", 0.4)
              .policies[0]
              .offloaded.count == 5 * kT);
  }

  TEST_CASE("vDNN: forward waits at each layer's end, backward fetches one layer ahead") {
    // Inputs are 1 B; at 500 ns/B a copy takes half a layer. Only the last input's copy back, which
    // nobody could fetch ahead, is waited for.
    const Played p = play_one(8, "vdnn", "{min_bytes: 1B}", 500, true);
    CHECK(p.policies[0].offloaded.count == 8);
    CHECK(p.run.exposed_transfer == nanoseconds(500));
    // 1.5 us: forward waits 0.5 us in each of eight layers, backward seven times and once for all.
    const Played late = play_one(8, "vdnn", "{min_bytes: 1B}", 1500, true);
    CHECK(late.run.exposed_transfer == 15 * nanoseconds(500) + nanoseconds(1500));
    CHECK(
        play_one(8, "vdnn", "{layers: conv, min_bytes: 1B}", 1, true).policies[0].offloaded.count ==
        0);
  }

  // x_0 to x_6, u_0 to u_5 and a gradient are live at the loss: 6008 B.
  TEST_CASE("vDNN dyn moves nothing when everything fits") {
    CHECK(play_one(6, "vdnn", "{layers: dyn, min_bytes: 1B, budget: 6008B}", 1, true)
              .policies[0]
              .offloaded.count == 0);
    CHECK(play_one(6, "vdnn", "{layers: dyn, min_bytes: 1B, budget: 6007B}", 1, true)
              .policies[0]
              .offloaded.count == 6);
  }

  TEST_CASE("STRONGHOLD: the smallest window whose compute covers the next copy") {
    // A copy takes 2.5 layers. Block b leaves while w - 1 layers run (w = 4) and comes back while w
    // do.
    const Played p = play_one(10, "stronghold", "{min_bytes: 100B}", 2.5);
    CHECK(p.policies[0].offloaded.count == (10 - 4) * kT);
    const Played narrow = play_one(10, "stronghold", "{min_bytes: 100B, window: 2}", 0.5);
    CHECK(narrow.policies[0].offloaded.count == 8 * kT);
    CHECK(narrow.run.exposed_transfer == nanoseconds(0));
    CHECK(narrow.run.live.bytes.count == 3 * kT + 2);
  }

  TEST_CASE("offloaded checkpoints are the inputs of the checkpointed layers") {
    const OffloadChain chain(8);
    const std::pair<std::string, std::string> checkpoint{"checkpoint_every", "{}"};
    const Played smart =
        play(chain.graph, {checkpoint, {"offload_checkpoints", "{min_bytes: 1B}"}}, 100);
    CHECK(smart.policies[1].offloaded.count == 7);  // the last one stays
    CHECK(smart.run.exposed_transfer == nanoseconds(0));
    const Played simple =
        play(chain.graph, {{"offload_checkpoints", "{variant: simple, min_bytes: 1B}"}, checkpoint},
             100);
    // F_7 is recomputed for the loss, right behind itself: x_7 has no time to leave.
    CHECK(simple.policies[0].offloaded.count == 7);
    // x_i is copied while F_i runs; the copy back is waited for each time.
    CHECK(simple.run.exposed_transfer == 7 * nanoseconds(100));
    CHECK(
        play(chain.graph, {{"offload_checkpoints", "{min_bytes: 1B}"}}, 100).policies[0].decided ==
        0);
  }

  TEST_CASE("Belady moves no more than what is above the budget, the first layers first") {
    for (int resident = 2; resident <= 8; ++resident) {
      CAPTURE(resident);
      const std::string parameters =
          "{min_bytes: 100B, budget: " + std::to_string(resident * kT + 2) + "B}";
      const Played p = play_one(8, "belady", parameters, 0.5);
      CHECK(p.run.live.bytes.count == resident * kT + 2);
      CHECK(p.policies[0].offloaded.count == (8 - resident) * kT);
    }
  }

  TEST_CASE("Capuchin swaps what has free time and recomputes what has none") {
    // Two of six sets must go. u_0 and u_1 have the longest gaps: 12 and 10 us.
    const std::string budget = "{min_bytes: 100B, budget: 4012B}";
    const Played swapped = play_one(6, "capuchin", budget, 1, true);
    CHECK(swapped.policies[0].offloaded.count == 2 * kT);
    CHECK(swapped.run.exposed_transfer == nanoseconds(0));
    CHECK(swapped.run.live.bytes.count <= 4012);
    // 20 us per copy: a swap waits for tens of microseconds, F_i is recomputed in one.
    const Played again = play_one(6, "capuchin", budget, 20, true);
    CHECK(again.policies[0].offloaded.count == 0);
    CHECK(again.run.total == microseconds(14 + 2));
    CHECK(again.run.live.bytes.count <= 4012);
    const Played only_swap =
        play_one(6, "capuchin", "{min_bytes: 100B, budget: 4012B, recompute: false}", 20, true);
    CHECK(only_swap.policies[0].offloaded.count == 2 * kT);
    CHECK(only_swap.run.total > microseconds(40));
  }

  TEST_CASE("FlashNeuron selects in forward order, but no more than forward hides") {
    const std::string budget = "{min_bytes: 100B, budget: 5002B, tier: host}";
    CHECK(play_one(8, "flashneuron", budget, 1).policies[0].offloaded.count == 3 * kT);
    // Forward takes 9 us: two copies of 4 us fit, three do not.
    CHECK(play_one(8, "flashneuron", budget, 4).policies[0].offloaded.count == 2 * kT);
  }

  TEST_CASE("FlashNeuron compresses where its copies would take longer than forward") {
    // Three sets must go. Their copies take 12 us, forward 9.
    const auto with = [](const std::string& rest) {
      return play_one(8, "flashneuron", "{min_bytes: 100B, budget: 5002B, tier: host" + rest + "}",
                      4);
    };
    const auto out = [](const Played& p) {
      return p.run.busy[static_cast<std::size_t>(Stream::kCopyOut)];
    };
    const Played quarter = with(", compression: {F: 4}");
    CHECK(quarter.policies[0].offloaded.count == 3 * kT);
    CHECK(quarter.run.live.bytes.count == 5 * kT + 2);
    CHECK(out(quarter) == 3 * microseconds(1));
    CHECK(quarter.run.host.bytes.count == 3 * kT / 4);
    // 834 B take 3.336 us each: two fit, as without; half as many bytes fit three times.
    CHECK(with(", compression: {F: 1.2}").policies[0].offloaded.count == 2 * kT);
    CHECK(out(with(", half: true")) == 3 * microseconds(2));
    // Nothing is compressed where forward hides all of it.
    CHECK(out(play_one(8, "flashneuron", "{min_bytes: 100B, budget: 5002B, tier: host, half: true}",
                       1)) == 3 * microseconds(1));
  }

  TEST_CASE("TransformerEngine queues a layer's copies together; each waits for its own tensor") {
    // Four blocks of two operators, of which two move.
    TrainingGraph graph = OffloadChain(8).graph;
    graph.blocks = 4;
    for (Layer& layer : graph.layers)
      layer.block /= 2;
    const auto with = [&](double ns_per_byte) {
      return play(graph, {{"te_offload", "{min_bytes: 100B, layers: 2}"}}, ns_per_byte).run;
    };
    // u_0 is there at 2 us, block 2 begins at 5: two copies of 1.25 us have ended.
    CHECK(with(1.25).exposed_transfer == nanoseconds(0));
    // Copies of 1.75 us. Forward: u_1 has left at 5.5 us, 0.5 late, u_3 at 9, where block 3 would
    // have begun at 7.5. Backward, from the start of block 2 on: u_3 arrives after 1.75, u_2 after
    // 3.5, 0.5 late, u_1 after 5.25 and u_0 after 7, 0.75 late each.
    CHECK(with(1.75).exposed_transfer == nanoseconds(500 + 1500 + 500 + 750 + 750));
  }

  TEST_CASE("KARMA swaps the first blocks and recomputes those whose copy would take longer") {
    const std::string budget = "{min_bytes: 100B, budget: 4002B}";
    const Played swapped = play_one(6, "karma", budget, 1);
    CHECK(swapped.policies[0].offloaded.count == 2 * kT);
    CHECK(swapped.policies[0].recomputed_operators == 0);
    CHECK(swapped.run.exposed_transfer == nanoseconds(0));
    // At 5.5 us per copy block 1 is needed 4 us into backward and would come 1.5 us late, more than
    // its forward: it is recomputed. Block 0 has the link for itself and comes in time.
    const Played mixed = play_one(6, "karma", "{min_bytes: 100B, budget: 4012B}", 5.5);
    CHECK(mixed.policies[0].offloaded.count == kT);
    CHECK(mixed.policies[0].recomputed_operators == 1);
    CHECK(mixed.run.live.bytes.count <= 4012);
  }

  TEST_CASE("SuperNeurons recomputes a cheap segment together") {
    // No operator is a convolution, so nothing moves; u_0 to u_5 are made from x_0 in one segment,
    // 6 kB where the largest layer touches 1 kB: memory-centric, each value by its own recipe.
    const Played p = play_one(6, "superneurons", "{min_bytes: 100B}", 1, true);
    CHECK(p.policies[0].offloaded.count == 0);
    CHECK(p.policies[0].recomputed_operators == 6);
    CHECK(p.run.total == microseconds(14 + 6));
    CHECK(p.run.live.bytes.count < 2 * kT);
  }
}

// The chain with convolutions in place of its layers.
TrainingGraph convolutions(int layers) {
  TrainingGraph graph = OffloadChain(layers).graph;
  for (Operator& op : graph.operators) {
    if (op.name == "F") op.work.op_class = OperatorClass::kConvolution;
    if (op.name == "B") op.work.op_class = OperatorClass::kConvolutionBackwardData;
  }
  return graph;
}

TEST_SUITE("golden") {
  TEST_CASE("SuperNeurons without its tensor cache moves the output of every convolution") {
    const Played p =
        play(convolutions(8), {{"superneurons", "{tensor_cache: false, min_bytes: 100B}"}}, 0.5);
    CHECK(p.policies[0].offloaded.count == 8 * kT);
    CHECK(p.policies[0].recomputed_operators == 0);
    // u_7 has no convolution behind it whose backward could hide its copy.
    CHECK(p.run.exposed_transfer == nanoseconds(500));
    CHECK(p.run.live.bytes.count == 2 * kT + 2);
  }

  TEST_CASE("SuperNeurons' tensor cache moves what does not fit, least recently used first") {
    for (int resident = 2; resident <= 8; ++resident) {
      CAPTURE(resident);
      const std::string parameters =
          "{min_bytes: 100B, budget: " + std::to_string(resident * kT + 2) + "B}";
      const Played p = play(convolutions(8), {{"superneurons", parameters}}, 0.5);
      CHECK(p.policies[0].offloaded.count == (8 - resident) * kT);
      CHECK(p.run.live.bytes.count == resident * kT + 2);
      CHECK(p.run.exposed_transfer <= (8 - resident) * nanoseconds(500));
    }
    // On a device of 1 GiB nothing moves.
    CHECK(play(convolutions(8), {{"superneurons", "{min_bytes: 100B}"}}, 0.5)
              .policies[0]
              .offloaded.count == 0);
  }

  TEST_CASE("thresholds in elements count those of the type that the value has") {
    // u has 1000 B: 250 elements of four bytes, 500 of two.
    TrainingGraph graph = OffloadChain(6).graph;
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      for (Storage& storage : graph.storages) {
        storage.dtype = type;
        storage.elements.count = storage.bytes.count * 8 / bits_of(type);
      }
      const int elements = type == DType::kFloat32 ? 250 : 500;
      for (const char* policy : {"te_offload", "megatron_offload"}) {
        const auto moved = [&](int smallest) {
          const std::string layers = policy == std::string("te_offload") ? "layers: 2, " : "";
          return play(graph,
                      {{policy, "{" + layers + "min_elements: " + std::to_string(smallest) + "}"}},
                      0.5)
              .policies[0]
              .offloaded.count;
        };
        CAPTURE(policy);
        CHECK(moved(elements) > 0);
        CHECK(moved(elements + 1) == 0);
      }
    }
    const PolicyRegistry registry;
    const Value both = parse_document("{layers: 1, min_bytes: 1B, min_elements: 1}", "t.yaml");
    CHECK_THROWS_WITH_AS(static_cast<void>(registry.find("te_offload")->decode(Decoder(both), {})),
                         doctest::Contains("give one of them"), UserError);
  }

  TEST_CASE("a model without repeated blocks has no first layers to move") {
    TrainingGraph graph = OffloadChain(3).graph;
    graph.blocks = 0;
    for (Layer& layer : graph.layers)
      layer.block = kNoBlock;
    CHECK_THROWS_WITH_AS(static_cast<void>(play(graph, {{"te_offload", "{layers: 1}"}}, 1)),
                         doctest::Contains("the model has none"), UserError);
  }

  TEST_CASE("prefetch: what of a copy is exposed follows from when it is issued") {
    // Only u_0 moves. Its copy takes 2.5 layers.
    const auto exposed = [](const std::string& prefetch) {
      return play_one(8, "te_offload", "{layers: 1, min_bytes: 100B, prefetch: " + prefetch + "}",
                      2.5)
          .run.exposed_transfer;
    };
    CHECK(exposed("on_demand") == nanoseconds(2500));
    CHECK(exposed("1") == nanoseconds(1500));
    CHECK(exposed("2 blocks") == nanoseconds(500));
    CHECK(exposed("1 operator") == nanoseconds(1500));
    CHECK(exposed("3 operators") == nanoseconds(0));
    CHECK(exposed("just_in_time") == nanoseconds(0));
    CHECK(exposed("earliest") == nanoseconds(0));
  }

  TEST_CASE("just in time is the latest position that hides the copy") {
    // Two sets resident, copies of one layer exactly: each is issued one layer ahead.
    const Played p =
        play_one(8, "te_offload", "{layers: 6, min_bytes: 100B, prefetch: just_in_time}", 1);
    CHECK(p.run.exposed_transfer == nanoseconds(0));
    CHECK(p.run.live.bytes.count == 2 * kT + 2);
    // Copies of 1.5 layers would have to begin before backward does: as early as it allows.
    const Played busy =
        play_one(8, "te_offload", "{layers: 4, min_bytes: 100B, prefetch: just_in_time}", 1.5);
    // The last of four copies has ended 6 us into backward, when nothing is waited for: needs are
    // at 5, 6, 7 and 8 us behind the start, copies end at 1.5, 3, 4.5 and 6 us at the earliest.
    CHECK(busy.run.exposed_transfer == nanoseconds(0));
  }

  TEST_CASE("just in time waits for room under a budget that the link cannot keep up with") {
    // Copies of three layers: without a budget they would all begin with backward.
    for (int sets = 2; sets <= 6; ++sets) {
      CAPTURE(sets);
      const std::string budget = ", budget: " + std::to_string(sets * kT + 2) + "B}";
      const auto live = [&](const std::string& rest) {
        return play_one(8, "belady", "{min_bytes: 100B, prefetch: just_in_time" + rest, 3)
            .run.live.bytes.count;
      };
      CHECK(live(budget) <= sets * kT + 2);
    }
    const std::string moved = "{layers: 6, min_bytes: 100B, prefetch: just_in_time";
    CHECK(play_one(8, "te_offload", moved + "}", 3).run.live.bytes.count > 3 * kT);
    CHECK(play_one(8, "te_offload", moved + ", budget: 3002B}", 3).run.live.bytes.count <=
          3 * kT + 2);
  }

  TEST_CASE("earliest fills a budget and never passes it") {
    for (int sets = 2; sets <= 6; ++sets) {
      CAPTURE(sets);
      const std::int64_t budget = sets * kT + 2;
      const Played p = play_one(8, "te_offload",
                                "{layers: 6, min_bytes: 100B, prefetch: earliest, budget: " +
                                    std::to_string(budget) + "B}",
                                0.5);
      CHECK(p.run.live.bytes.count <= budget);
      CHECK(p.run.exposed_transfer == nanoseconds(0));
    }
  }

  TEST_CASE("a prefetch that is no rule is refused with what it may be") {
    const PolicyRegistry registry;
    for (const char* bad : {"soon", "-1", "2 layers", "1.5"}) {
      const Value document = parse_document(std::string("{prefetch: ") + bad + "}", "t.yaml");
      CHECK_THROWS_WITH_AS(
          static_cast<void>(registry.find("stronghold")->decode(Decoder(document), {})),
          doctest::Contains("just_in_time"), UserError);
    }
  }
}

TEST_SUITE("property") {
  TEST_CASE("hybrid under a budget is never faster than the optimal plan, and close to it") {
    for (double rate : {0.3, 1.0, 2.0, 6.0, 20.0}) {
      for (int sets : {1, 2, 3}) {
        CAPTURE(rate);
        CAPTURE(sets);
        const OffloadChain chain(4, true);
        const std::int64_t budget = sets * kT + 10;
        const auto with = [&](const std::string& name, const std::string& more) {
          return play(
              chain.graph,
              {{name, "{min_bytes: 100B, budget: " + std::to_string(budget) + "B" + more + "}"}},
              rate);
        };
        const Played best = with("hybrid", ", search: exhaustive");
        const Played greedy = with("hybrid", "");
        REQUIRE(best.run.live.bytes.count <= budget);
        CHECK(greedy.run.live.bytes.count <= budget);
        CHECK(greedy.run.total >= best.run.total);
        // One forward of a layer is the smallest step between two plans that recompute.
        CHECK(greedy.run.total <= best.run.total + microseconds(1));
        for (const char* other : {"belady", "capuchin", "karma"}) {
          const Played p = with(other, "");
          if (p.run.live.bytes.count <= budget) CHECK(p.run.total >= best.run.total);
        }
        // Recomputing all of it is always possible, hiding it at best.
        CHECK(best.run.total >= microseconds(10));
        CHECK(best.run.total <= microseconds(10 + 4));
      }
    }
  }
}

}  // namespace
}  // namespace tidemark::test::residency_offload_policies_test
