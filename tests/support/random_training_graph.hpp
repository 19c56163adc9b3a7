// Random training graphs for property tests: chains of blocks with skips, in-place operators,
// several outputs, workspaces, parameters whose gradients are written and applied, and saved-tensor
// holds.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "graph/ir/training_graph.hpp"

namespace tidemark::test {

using Rng = std::mt19937;

inline int pick(Rng& rng, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(rng);
}

struct RandomGraphOptions {
  int blocks = 4;
  int operators_per_block = 4;
  bool in_place = true;
};

inline TrainingGraph random_training_graph(Rng& rng, const RandomGraphOptions& options) {
  TrainingGraph graph;
  graph.name = "random";
  graph.blocks = options.blocks;
  graph.samples = 1;
  const auto storage = [&](std::string name, Role role, LayerId layer, bool initial) {
    return graph.storages.push_back({.bytes = Bytes(pick(rng, 1, 4000)),
                                     .role = role,
                                     .layer = layer,
                                     .initial = initial,
                                     .persistent = initial,
                                     .name = std::move(name)});
  };
  const auto add = [&](std::string name, Phase phase, LayerId layer, std::vector<Touch> touches) {
    Operator op;
    op.name = std::move(name);
    op.phase = phase;
    op.layer = layer;
    op.workspace = Bytes(pick(rng, 0, 3) == 0 ? pick(rng, 1, 2000) : 0);
    op.work.op_class = OperatorClass::kFixed;
    op.work.fixed = Duration(pick(rng, 1, 500));
    return graph.add_operator(std::move(op), touches);
  };
  struct Forward {
    std::vector<StorageId> saved;
    std::vector<StorageId> inputs;
    StorageId output;
    StorageId weight;
    LayerId layer;
  };
  std::vector<Forward> forwards;
  const StorageId x = storage("x", Role::kInput, {}, true);
  std::vector<StorageId> activations{x};
  for (int b = 0; b < options.blocks; ++b) {
    const LayerId layer = graph.layers.push_back({.name = "b" + std::to_string(b), .block = b});
    for (int k = 0; k < options.operators_per_block; ++k) {
      Forward f{.layer = layer};
      const StorageId last = activations.back();
      std::vector<Touch> touches;
      // An operator in place changes the output of its own block, as relu_ does.
      const bool in_place = options.in_place && k > 0 && pick(rng, 0, 4) == 0;
      f.inputs.push_back(last);
      if (in_place) {
        touches.push_back({last, Access::kMutate});
        f.output = last;
        forwards.back().saved.clear();  // its backward must not need the content before
        forwards.back().saved.push_back(last);
      } else {
        touches.push_back({last, Access::kRead});
        if (pick(rng, 0, 2) == 0 && activations.size() > 1) {
          const StorageId skip = activations[static_cast<std::size_t>(
              pick(rng, 1, static_cast<int>(activations.size()) - 1))];
          if (skip != last && !options.in_place) {
            touches.push_back({skip, Access::kRead});
            f.inputs.push_back(skip);
          }
        }
        f.output = storage("a", Role::kSavedActivation, layer, false);
        touches.push_back({f.output, Access::kCreate});
        if (pick(rng, 0, 3) == 0) {
          const StorageId mask = storage("mask", Role::kSavedActivation, layer, false);
          touches.push_back({mask, Access::kCreate});
          f.saved.push_back(mask);
        }
      }
      if (pick(rng, 0, 1) == 0) {
        f.weight = storage("w", Role::kParameter, layer, true);
        touches.push_back({f.weight, Access::kRead});
      }
      if (!in_place && pick(rng, 0, 2) > 0 && last != x) f.saved.push_back(last);
      if (pick(rng, 0, 2) == 0) f.saved.push_back(f.output);
      graph.part(PartKind::kForward).push_back(add("f", Phase::kForward, layer, touches));
      if (!in_place) activations.push_back(f.output);
      forwards.push_back(std::move(f));
    }
  }
  StorageId gradient = storage("dy", Role::kActivationGradient, {}, false);
  graph.part(PartKind::kBackward)
      .push_back(add("root", Phase::kBackward, {},
                     {{activations.back(), Access::kRead}, {gradient, Access::kCreate}}));
  for (std::size_t i = forwards.size(); i-- > 0;) {
    const Forward& f = forwards[i];
    std::vector<Touch> reads{{gradient, Access::kRead}};
    for (StorageId s : f.saved)
      reads.push_back({s, Access::kRead});
    std::vector<Touch> touches = reads;
    const StorageId next = storage("dx", Role::kActivationGradient, f.layer, false);
    touches.push_back({next, Access::kCreate});
    OperatorId last = add("b", Phase::kBackward, f.layer, touches);
    graph.part(PartKind::kBackward).push_back(last);
    if (f.weight.valid()) {
      const StorageId dw = storage("dw", Role::kGradient, f.layer, false);
      graph.storages[dw].persistent = true;
      touches = reads;
      touches.push_back({dw, Access::kCreate});
      last = add("bw", Phase::kBackward, f.layer, touches);
      graph.part(PartKind::kBackward).push_back(last);
      graph.trained.push_back(graph.parameters.push_back(
          {.name = "w", .elements = Elements(1), .storage = f.weight, .gradient = dw}));
      graph.updates.push_back(whole_update(graph, graph.trained.back()));
    }
    for (StorageId s : f.saved)
      graph.holds.push_back({s, {}, last, HoldKind::kSaved});
    graph.holds.push_back({gradient, {}, last, HoldKind::kSaved});
    gradient = next;
  }
  const OperatorId zero = add("zero_grad", Phase::kForward, {}, {});
  graph.part(PartKind::kZeroGrad).push_back(zero);
  for (ParameterId id : graph.trained) {
    const Parameter& p = graph.parameters[id];
    graph.part(PartKind::kOptimizer)
        .push_back(add("update", Phase::kOptimizer, {},
                       {{p.gradient, Access::kRead}, {p.storage, Access::kMutate}}));
    graph.holds.push_back({p.gradient, {}, zero, HoldKind::kLocal});
  }
  check_invariants(graph);
  return graph;
}

}  // namespace tidemark::test
