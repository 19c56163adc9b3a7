// The figures are those of reference/torch-optimizer-and-autograd-probes.txt: four fp32 tensors of
// 4, 4, 4 and 1 MiB, 13,631,488 bytes of parameters P, on PyTorch 1.13.1.
#include "policies/rewrite/optimizer.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "graph/core/errors.hpp"
#include "policies/optimizers/catalogue.hpp"
#include "policies/rewrite/optimizer_kernels.hpp"
#include "tests/support/live_bytes.hpp"

namespace tidemark::optimizer_test {
namespace {

constexpr std::int64_t kMi = 1 << 20;
constexpr std::int64_t kP = 13 * kMi;

struct Types {
  DType parameter = DType::kFloat32;
  DType gradient = DType::kFloat32;
};

// Backward makes one gradient per parameter, last parameter first; zero_grad drops them.
TrainingGraph probe_graph(Types types = {}) {
  TrainingGraph graph;
  const std::vector<std::int64_t> elements = {kMi, kMi, kMi, kMi / 4};
  std::vector<StorageId> parameters;
  for (std::int64_t count : elements) {
    parameters.push_back(
        graph.storages.push_back({.bytes = bytes_of(types.parameter, Elements(count)),
                                  .role = Role::kParameter,
                                  .initial = true,
                                  .persistent = true,
                                  .name = "w"}));
    graph.parameters.push_back({.name = "w",
                                .dtype = types.parameter,
                                .elements = Elements(count),
                                .storage = parameters.back(),
                                .gradient_dtype = types.gradient});
  }
  graph.part(PartKind::kZeroGrad).push_back(graph.add_operator({.name = "zero_grad"}, {}));
  for (std::size_t i = elements.size(); i-- > 0;) {
    const StorageId gradient =
        graph.storages.push_back({.bytes = bytes_of(types.gradient, Elements(elements[i])),
                                  .role = Role::kGradient,
                                  .persistent = true,
                                  .name = "w.grad"});
    const std::vector<Touch> touches = {{parameters[i], Access::kRead},
                                        {gradient, Access::kCreate}};
    graph.part(PartKind::kBackward)
        .push_back(graph.add_operator({.name = "backward", .phase = Phase::kBackward}, touches));
    graph.holds.push_back({gradient, {}, graph.part(PartKind::kZeroGrad)[0], HoldKind::kLocal});
    graph.parameters[ParameterId(i)].gradient = gradient;
    graph.trained.push_back(ParameterId(i));
  }
  for (const ParameterId id : ids_of(graph.parameters))
    graph.updates.push_back(whole_update(graph, id));
  graph.part(PartKind::kEndOfStep)
      .push_back(graph.add_operator({.name = "end_of_step", .phase = Phase::kOptimizer}, {}));
  return graph;
}

struct Setting {
  OptimizerKind kind = find_optimizer("adam");
  OptimizerImplementation implementation = OptimizerImplementation::kLoop;
  double weight_decay = 0;
  double momentum = 0.9;
  bool amsgrad = false;
  std::string_view framework = "torch-1.13-cpu";
  Precision precision = Precision::kFp32;
  Types types = {};
};

TrainingGraph optimized(const Setting& setting) {
  TrainingGraph graph = probe_graph(setting.types);
  const Optimizer optimizer({.kind = setting.kind,
                             .implementation = setting.implementation,
                             .weight_decay = setting.weight_decay,
                             .momentum = setting.momentum,
                             .amsgrad = setting.amsgrad},
                            rules_of(setting.precision), *find_framework(setting.framework));
  optimizer.apply(graph, {});
  check_invariants(graph);
  return graph;
}

std::int64_t bytes_of(const TrainingGraph& graph, Role role) {
  std::int64_t sum = 0;
  for (const Storage& storage : graph.storages) {
    if (storage.role == role) sum += storage.bytes.count;
  }
  return sum;
}

std::int64_t state_bytes(const Setting& setting) {
  return bytes_of(optimized(setting), Role::kOptimizerState);
}

// Bytes above the start of optimizer.step() in a step that finds its state.
std::int64_t steady_peak(const Setting& setting) {
  const TrainingGraph graph = optimized(setting);
  return test::peak_above_start(graph, program_order(graph, 2), Phase::kOptimizer, 1);
}

std::int64_t first_peak(const Setting& setting) {
  const TrainingGraph graph = optimized(setting);
  return test::peak_above_start(graph, program_order(graph, 2), Phase::kOptimizer, 0);
}

Work step_work(const Setting& setting) {
  const TrainingGraph graph = optimized(setting);
  Work sum{.launches = 0};
  for (OperatorId id : graph.part(PartKind::kOptimizer)) {
    sum.read += graph.operators[id].work.read;
    sum.written += graph.operators[id].work.written;
    sum.launches += graph.operators[id].work.launches;
  }
  return sum;
}

OptimizerSpec decoded(const std::string& text) {
  const Value document = parse_document(text, "test.yaml");
  return decode_optimizer(Decoder(document));
}

constexpr auto kLoop = OptimizerImplementation::kLoop;
constexpr auto kForeach = OptimizerImplementation::kForeach;
constexpr auto kFused = OptimizerImplementation::kFused;

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("the state of each optimizer is what torch.optim allocates") {
    CHECK(state_bytes({.kind = find_optimizer("sgd")}) == 0);
    CHECK(state_bytes({.kind = find_optimizer("momentum")}) == 13'631'488);
    CHECK(state_bytes({.kind = find_optimizer("nesterov")}) == 13'631'488);
    CHECK(state_bytes({.kind = find_optimizer("adam")}) == 27'262'992);  // 2 P + 4 tensors * 4 B
    CHECK(state_bytes({.kind = find_optimizer("adamw")}) == 27'262'992);
    // On CUDA the counters of the loop and foreach forms are on the host.
    CHECK(state_bytes({.kind = find_optimizer("adamw"), .framework = "torch-2.4-cuda"}) == 2 * kP);
  }

  TEST_CASE("the loop of Adam holds the last denominator beside its own root and denominator") {
    // size(i - 1) + 2 size(i) + 12 with three tensors of 4 MiB.
    CHECK(steady_peak({.kind = find_optimizer("adam")}) == 12'582'924);
    CHECK(steady_peak({.kind = find_optimizer("adamw"), .weight_decay = 0.01}) == 12'582'924);
    // Adam's decay is one more tensor of 4 MiB.
    CHECK(steady_peak({.kind = find_optimizer("adam"), .weight_decay = 0.1}) == 16'777'228);
    // The first step creates all state before its first update: 27,262,992 + 12,582,924.
    CHECK(first_peak({.kind = find_optimizer("adam")}) == 39'845'916);
    CHECK(first_peak({.kind = find_optimizer("adam"), .weight_decay = 0.1}) == 44'040'220);
    // Without holds (ideal) the old denominator is freed: 2 * 4 MiB.
    CHECK(steady_peak({.kind = find_optimizer("adam"), .framework = "ideal"}) == 8 * kMi);
  }

  TEST_CASE("SGD allocates for decay and look-ahead only") {
    // The probe's 292 B are its own profiling range.
    CHECK(steady_peak({.kind = find_optimizer("sgd")}) == 0);
    CHECK(steady_peak({.kind = find_optimizer("sgd"), .weight_decay = 0.1}) == 4 * kMi);
    CHECK(steady_peak({.kind = find_optimizer("momentum"), .framework = "torch-2.4-cuda"}) == 0);
    CHECK(steady_peak({.kind = find_optimizer("momentum"), .weight_decay = 0.1}) == 4'194'316);
    CHECK(steady_peak({.kind = find_optimizer("nesterov")}) == 4'194'304);
    CHECK(first_peak({.kind = find_optimizer("momentum"), .framework = "torch-2.4-cuda"}) == kP);
  }

  TEST_CASE("amsgrad keeps a third moment and needs nothing more in between") {
    const Setting setting{.amsgrad = true};
    CHECK(state_bytes(setting) == 40'894'480);
    CHECK(steady_peak(setting) == 12'582'924);
    CHECK(first_peak(setting) == 53'477'404);
  }

  TEST_CASE("Adagrad's sums exist from the start, and its roots are variables of the loop") {
    const Setting setting{.kind = find_optimizer("adagrad")};
    CHECK(state_bytes(setting) == 13'631'504);  // P + 4 tensors * 4 B
    CHECK(steady_peak(setting) == 8'388'620);
    CHECK(first_peak(setting) == 8'388'620);
    CHECK(state_bytes({.kind = find_optimizer("adagrad"), .framework = "torch-2.4-cuda"}) == kP);
    // The roots of all, and their gradients scaled.
    CHECK(steady_peak({.kind = find_optimizer("adagrad"),
                       .implementation = kForeach,
                       .framework = "torch-2.4-cuda"}) == 2 * kP);
    // 1.13: roots, scaled gradients, quotients, a rate per tensor; it decays in place (recorded).
    for (const double decay : {0.0, 0.1}) {
      CHECK(steady_peak({.kind = find_optimizer("adagrad"),
                         .implementation = kForeach,
                         .weight_decay = decay}) == 3 * kP + 4 * 4 + 12);
    }
  }

  TEST_CASE("RMSprop replaces its root before it adds epsilon") {
    const Setting setting{.kind = find_optimizer("rmsprop"), .momentum = 0};
    CHECK(state_bytes(setting) == 13'631'488);
    CHECK(steady_peak(setting) == 8'388'608);
    CHECK(first_peak(setting) == 22'020'096);
    const Setting with_momentum{.kind = find_optimizer("rmsprop"), .momentum = 0.9};
    CHECK(state_bytes(with_momentum) == 27'262'976);
    CHECK(steady_peak(with_momentum) == 8'388'608);
    CHECK(first_peak(with_momentum) == 35'651'584);
    CHECK(steady_peak({.kind = find_optimizer("rmsprop"),
                       .implementation = kForeach,
                       .framework = "torch-2.4-cuda"}) == kP);
    // 1.13's foreach form decays in place: recorded P, as without decay.
    CHECK(steady_peak({.kind = find_optimizer("rmsprop"),
                       .implementation = kForeach,
                       .weight_decay = 0.1,
                       .momentum = 0}) == kP + 12);
  }

  TEST_CASE("the fused kernel's counters are on the device, those of the other forms on the host") {
    CHECK(state_bytes({.implementation = kFused, .framework = "torch-2.4-cuda"}) == 2 * kP + 16);
    CHECK(state_bytes({.implementation = kForeach, .framework = "torch-2.4-cuda"}) == 2 * kP);
  }

  TEST_CASE("foreach Adam makes two copies of all parameters in 1.13 and one in 2.4") {
    CHECK(steady_peak({.implementation = kForeach}) == 27'262'988);  // 2 P + 12
    CHECK(first_peak({.implementation = kForeach}) == 54'525'980);
    CHECK(steady_peak({.implementation = kForeach, .framework = "torch-2.4-cuda"}) == kP);
    // The decayed gradients are dropped before the roots are made.
    CHECK(steady_peak(
              {.implementation = kForeach, .weight_decay = 0.1, .framework = "torch-2.4-cuda"}) ==
          kP);
    CHECK(steady_peak({.kind = find_optimizer("momentum"),
                       .implementation = kForeach,
                       .framework = "torch-2.4-cuda"}) == 0);
    CHECK(steady_peak({.kind = find_optimizer("momentum"),
                       .implementation = kForeach,
                       .weight_decay = 0.1,
                       .framework = "torch-2.4-cuda"}) == kP);
  }

  TEST_CASE("a fused step allocates nothing and moves 28 bytes per parameter") {
    const Setting setting{.implementation = kFused, .framework = "torch-2.4-cuda"};
    CHECK(steady_peak(setting) == 0);
    const Work work = step_work(setting);
    CHECK(work.read.count == 4 * kP + 16);     // gradient, weight, both moments, four counters
    CHECK(work.written.count == 3 * kP + 16);  // weight, both moments and counters
  }

  TEST_CASE("mixed precision with Adam costs 16 bytes per parameter") {
    const Setting setting{.implementation = kFused,
                          .framework = "torch-2.4-cuda",
                          .precision = Precision::kFp16Mixed,
                          .types = {DType::kFloat16, DType::kFloat16}};
    const TrainingGraph graph = optimized(setting);
    const std::int64_t n = kP / 4;
    CHECK(bytes_of(graph, Role::kParameter) == 2 * n);
    CHECK(bytes_of(graph, Role::kGradient) == 2 * n);
    CHECK(bytes_of(graph, Role::kOptimizerState) == 12 * n);
    CHECK(steady_peak(setting) == 0);
    // Reads gradient 2, master 4, moments 8; writes master 4, moments 8, parameter 2.
    CHECK(step_work(setting).read.count == 14 * n);
    CHECK(step_work(setting).written.count == 14 * n);
    // Megatron keeps gradients in fp32: 18 bytes.
    Setting wide = setting;
    wide.types.gradient = DType::kFloat32;
    const TrainingGraph megatron = optimized(wide);
    CHECK(bytes_of(megatron, Role::kGradient) == 4 * n);
    CHECK(bytes_of(megatron, Role::kOptimizerState) == 12 * n);
  }

  TEST_CASE("mixed precision converts gradients unless the kernel or their type spares it") {
    Setting setting{.implementation = kForeach,
                    .framework = "torch-2.4-cuda",
                    .precision = Precision::kBf16Mixed,
                    .types = {DType::kBFloat16, DType::kBFloat16}};
    // fp32 gradients until the second moment is done, then the roots: 4 bytes each, not together.
    CHECK(steady_peak(setting) == kP);
    setting.implementation = kLoop;
    CHECK(steady_peak(setting) == 16 * kMi);  // 12 MiB and one converted gradient of 4 MiB
    setting.types.gradient = DType::kFloat32;
    CHECK(steady_peak(setting) == 12 * kMi);
  }

  TEST_CASE("pure bf16 keeps moments of 2 bytes, as torch.optim does") {
    const Setting setting{.implementation = kForeach,
                          .framework = "torch-2.4-cuda",
                          .precision = Precision::kBf16,
                          .types = {DType::kBFloat16, DType::kBFloat16}};
    CHECK(state_bytes(setting) == kP);      // 2 * 2 bytes per parameter
    CHECK(steady_peak(setting) == kP / 2);  // one copy of 2 bytes
  }
}

TEST_SUITE("unit") {
  TEST_CASE("a loop has one operator per parameter, in the order of the parameters") {
    const TrainingGraph graph = optimized({});
    REQUIRE(graph.part(PartKind::kOptimizer).size() == 4);
    REQUIRE(graph.part(PartKind::kOptimizerFirst).size() == 4);
    CHECK(graph.operators[graph.part(PartKind::kOptimizer)[0]].name == "adam.update");
    CHECK(graph.operators[graph.part(PartKind::kOptimizer)[0]].phase == Phase::kOptimizer);
    CHECK(graph.operators[graph.part(PartKind::kOptimizer)[3]].workspace.count == 12);
    // Root, division and addition of epsilon are kernels of their own.
    CHECK(graph.operators[graph.part(PartKind::kOptimizer)[0]].work.launches == 8);
    CHECK(graph.operators[graph.part(PartKind::kOptimizerFirst)[0]].work.launches == 3);
  }

  TEST_CASE("foreach has one operator per kernel and moves two to three times as much as fused") {
    const Setting setting{.implementation = kForeach, .framework = "torch-2.4-cuda"};
    const TrainingGraph graph = optimized(setting);
    REQUIRE(graph.part(PartKind::kOptimizer).size() == 7);
    CHECK(graph.operators[graph.part(PartKind::kOptimizer)[3]].name == "adam.foreach_square_root");
    const Work work = step_work(setting);
    // m: 12, v: 8 + 12, root 8, divide 8, epsilon 8, update 16 = 72 bytes per parameter.
    CHECK((work.read + work.written).count == 18 * kP);
    CHECK(work.launches == 7);  // 52 chunks of 65,536 elements fit into one launch each
  }

  TEST_CASE("SGD of nothing but weights reads gradient and weight and has no state to create") {
    const Setting setting{.kind = find_optimizer("sgd"), .implementation = kForeach};
    const TrainingGraph graph = optimized(setting);
    CHECK(graph.part(PartKind::kOptimizerFirst).empty());
    REQUIRE(graph.part(PartKind::kOptimizer).size() == 1);
    CHECK(step_work(setting).read.count == 2 * kP);
    CHECK(step_work(setting).written.count == kP);
  }

  TEST_CASE("master weights are there from the start and moments from the first step") {
    const TrainingGraph graph = optimized({.implementation = kFused,
                                           .precision = Precision::kBf16Mixed,
                                           .types = {DType::kBFloat16, DType::kBFloat16}});
    for (const Storage& storage : graph.storages) {
      if (storage.role != Role::kOptimizerState) continue;
      CHECK(storage.persistent);
      CHECK(storage.initial == storage.name.ends_with(".master"));
      CHECK_FALSE(storage.name.ends_with(".step"));
    }
  }

  TEST_CASE("a parameter that is fp32 already needs no master") {
    const TrainingGraph graph =
        optimized({.implementation = kFused, .precision = Precision::kBf16Mixed});
    CHECK(bytes_of(graph, Role::kOptimizerState) == 2 * kP);
  }

  TEST_CASE("an optimizer without trained parameters does nothing") {
    TrainingGraph graph;
    Optimizer({}, rules_of(Precision::kFp32), *find_framework("torch-2.4-cuda")).apply(graph, {});
    CHECK(graph.operators.empty());
  }

  TEST_CASE("launches are limited by 320 chunks of 65,536 elements and by tensors per launch") {
    const std::vector<Elements> small(100, Elements(10));
    CHECK(foreach_launches(small, 1) == 1);  // 110 tensors
    CHECK(foreach_launches(small, 2) == 2);  // 64 + 36
    CHECK(foreach_launches(small, 4) == 3);  // 36 + 36 + 28
    const std::vector<Elements> large = {Elements(320 * 65536), Elements(65536)};
    CHECK(foreach_launches(large, 1) == 2);
    const std::vector<Elements> cut = {Elements(640 * 65536 + 1)};
    CHECK(foreach_launches(cut, 1) == 3);
  }

  TEST_CASE("an optimizer is a name or a mapping, and its defaults depend on the name") {
    CHECK(decoded("micro_batch: 1").kind == find_optimizer("adamw"));
    CHECK(decoded("micro_batch: 1").weight_decay == doctest::Approx(0.01));
    CHECK(decoded("optimizer: adam").weight_decay == 0);
    CHECK(decoded("optimizer: momentum").momentum == doctest::Approx(0.9));
    const OptimizerSpec spec =
        decoded("optimizer: {name: sgd, momentum: 0.5, implementation: loop, weight_decay: 0.1}");
    CHECK(spec.kind == find_optimizer("momentum"));
    CHECK(spec.momentum == doctest::Approx(0.5));
    CHECK(spec.implementation == kLoop);
    CHECK(spec.weight_decay == doctest::Approx(0.1));
  }

  TEST_CASE("mistakes in an optimizer are named with their place") {
    const auto problem = [](const std::string& text) -> std::string {
      try {
        static_cast<void>(decoded(text));
      } catch (const UserError& error) {
        return error.what();
      }
      return {};
    };
    CHECK(problem("optimizer: adamv").find("did you mean 'adam") != std::string::npos);
    CHECK(problem("optimizer: {name: lion, implementation: foreach}")
              .find("lion has no foreach form; it has loop and fused") != std::string::npos);
    CHECK(problem("optimizer: {name: adam, momentum: 0.9}").find("momentum") != std::string::npos);
    CHECK(problem("optimizer: {name: adam, implementation: fsued}").find("'fused'") !=
          std::string::npos);
    CHECK(problem("optimizer: {name: sgd, weight_decay: -1}").find("test.yaml:1:38") !=
          std::string::npos);
  }

  TEST_CASE("the implementation is the framework's, or fused with master weights") {
    const FrameworkRules& cuda = *find_framework("torch-2.4-cuda");
    const FrameworkRules& cpu = *find_framework("torch-1.13-cpu");
    CHECK(implementation_of({}, cuda, false) == kForeach);
    CHECK(implementation_of({}, cpu, false) == kLoop);
    CHECK(implementation_of({}, cpu, true) == kFused);
    CHECK(implementation_of({.implementation = kLoop}, cuda, true) == kLoop);
  }
}

}  // namespace tidemark::optimizer_test
