// Steps of several turns, as those of a GAN, against recorded steps of PyTorch 1.13.1 on a CPU.
#if TIDEMARK_READS_ONNX
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/analysis/schedule.hpp"
#include "graph/core/errors.hpp"
#include "scenarios/studies/compare.hpp"
#include "scenarios/studies/measures/measures.hpp"
#include "sim/step/build_training.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/onnx_writer.hpp"

namespace tidemark::test::turns_test {
namespace {

constexpr std::int64_t kBatch = 4;

std::string linear(OnnxWriter& w, const std::string& x, const std::string& module, std::int64_t in,
                   std::int64_t out) {
  const std::string weight = w.parameter(module + ".weight", {out, in});
  const std::string bias = w.parameter(module + ".bias", {out});
  return w.node("Gemm", {x, weight, bias}, {{"transB", std::int64_t{1}}}, "/" + module + "/Gemm");
}

// Both modules run gen = Linear(16, 8), Tanh, Linear(8, 32), Tanh and disc = Linear(32, 200), ReLU,
// Linear(200, 1); the discriminator's returns the mean of disc(fake), the generator's its negative.
struct Exported {
  // `real`: the discriminator's adds the mean of disc(real).
  explicit Exported(bool of_generator, std::int64_t batch = kBatch, bool real = false) {
    OnnxWriter w;
    const std::string z = w.input("z", {batch, 16});
    within_gen = w.node("Tanh", {linear(w, z, "gen.0", 16, 8)}, {}, "/gen/gen.1/Tanh");
    fake = w.node("Tanh", {linear(w, within_gen, "gen.2", 8, 32)}, {}, "/gen/gen.3/Tanh");
    within_disc = w.node("Relu", {linear(w, fake, "disc.0", 32, 200)}, {}, "/disc/disc.1/Relu");
    const std::string score = linear(w, within_disc, "disc.2", 200, 1);
    const std::string mean = w.node("ReduceMean", {score}, {{"keepdims", std::int64_t{0}}});
    if (real) {
      const std::string first =
          w.node("Gemm", {w.input("real", {batch, 32}), "disc.0.weight", "disc.0.bias"},
                 {{"transB", std::int64_t{1}}}, "/disc/disc.0_1/Gemm");
      const std::string second = w.node(
          "Gemm",
          {w.node("Relu", {first}, {}, "/disc/disc.1_1/Relu"), "disc.2.weight", "disc.2.bias"},
          {{"transB", std::int64_t{1}}}, "/disc/disc.2_1/Gemm");
      w.output(
          w.node("Add", {mean, w.node("ReduceMean", {second}, {{"keepdims", std::int64_t{0}}})}));
    } else {
      w.output(of_generator ? w.node("Neg", {mean}) : mean);
    }
    bytes = w.bytes();
  }
  // Names: of the generated samples, and of what lies on the way to them and behind them.
  std::string fake;
  std::string within_gen;
  std::string within_disc;
  std::string bytes;
};

// A way to train the two.
struct Case {
  bool generator_first = false;
  bool shared = false;  // fake = gen(z) once, before both turns
  bool frozen = false;  // disc.requires_grad_(False) in the generator's turn
  std::string zero_grad = "none";
  int accumulate = 1;
  std::int64_t forward = 0;  // peaks of PyTorch's third step, in bytes
  std::int64_t backward = 0;
  std::int64_t optimizer = 0;
};

class Files {
 public:
  [[nodiscard]] std::string turn(bool of_generator, const std::string& more = {}) const {
    const OnnxFile& file = of_generator ? generator_file_ : discriminator_file_;
    return of_generator ? fmt::format(
                              "{{train: [gen], optimizer: {{name: adam, implementation: loop}}, "
                              "model: {{onnx: {}}}{}}}",
                              file.path(), more)
                        : fmt::format(
                              "{{train: [disc], optimizer: {{name: momentum, implementation: "
                              "loop}}, model: {{onnx: {}, detach: [{}]}}{}}}",
                              file.path(), discriminator_.fake, more);
  }
  // A turn that trains the parameters `train`, with its samples detached or not.
  [[nodiscard]] std::string turn_of(const std::string& train, bool follows) const {
    return fmt::format("{{train: [{}], model: {{onnx: {}{}}}}}", train, discriminator_file_.path(),
                       follows ? "" : fmt::format(", detach: [{}]", fake()));
  }
  [[nodiscard]] const std::string& fake() const { return generator_.fake; }
  [[nodiscard]] const std::string& generator() const { return generator_file_.path(); }
  [[nodiscard]] std::string scenario(const std::string& turns, const std::string& training = {},
                                     const std::string& model = {}) const {
    return fmt::format(
        "model: {{onnx: {}{}}}\nhardware: h100-sxm-80gb\nallocator: ideal\ntraining: {{precision: "
        "fp32, framework: torch-1.13-cpu, steps: 2, {}turns: [{}]}}\n",
        generator_file_.path(), model, training, turns);
  }
  [[nodiscard]] std::string scenario(const Case& c) const {
    const std::string generator =
        turn(true, c.frozen ? ", policies: [freeze: {layers: [disc]}]" : "");
    const std::string order =
        c.generator_first ? generator + ", " + turn(false) : turn(false) + ", " + generator;
    return scenario(order,
                    fmt::format("zero_grad: {}, accumulate: {}, ", c.zero_grad, c.accumulate),
                    c.shared ? fmt::format(", shared: [{}]", generator_.fake) : "");
  }

 private:
  Exported generator_{true};
  Exported discriminator_{false};
  OnnxFile generator_file_{generator_.bytes, "generator.onnx"};
  OnnxFile discriminator_file_{discriminator_.bytes, "discriminator.onnx"};
};

std::string problem_of(const std::string& text) {
  try {
    const Scenario scenario = decode(text);
    static_cast<void>(build_training(scenario));
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_SUITE("golden") {
  // Recorded with the profiler's memory events: momentum for disc, Adam for gen, both in a loop.
  TEST_CASE("the turns of a GAN peak where those of PyTorch do") {
    const std::vector<Case> cases = {
        {false, false, false, "none", 1, 94012, 117732, 90752},
        {false, false, false, "none", 2, 95708, 119432, 90748},
        {false, false, false, "zero", 1, 95708, 119428, 90752},
        {false, false, false, "zero", 2, 95708, 119432, 90748},
        {false, false, true, "none", 1, 94012, 97220, 90752},
        {false, false, true, "none", 2, 95708, 118792, 90748},
        {false, false, true, "zero", 1, 95708, 118788, 90752},
        {false, false, true, "zero", 2, 95708, 118792, 90748},
        {false, true, false, "none", 1, 94012, 117732, 91264},
        {false, true, false, "zero", 1, 95708, 119428, 91264},
        {false, true, true, "none", 1, 94012, 97220, 91264},
        {false, true, true, "zero", 1, 95708, 118916, 91264},
        {true, false, false, "none", 1, 94012, 117732, 90752},
        {true, false, false, "none", 2, 95708, 119432, 90748},
        {true, false, false, "zero", 1, 95708, 119428, 90752},
        {true, false, true, "none", 1, 94012, 97220, 90752},
        {true, false, true, "none", 2, 95708, 118792, 90748},
        {true, false, true, "zero", 2, 95708, 118792, 90748},
        {true, true, false, "none", 1, 94012, 117732, 91264},
        {true, true, false, "zero", 1, 95708, 119428, 91264},
        {true, true, true, "none", 1, 94012, 97220, 91264},
        {true, true, true, "zero", 1, 95708, 118788, 91264},
    };
    const Files files;
    for (const Case& c : cases) {
      CAPTURE(c.generator_first);
      CAPTURE(c.shared);
      CAPTURE(c.frozen);
      CAPTURE(c.zero_grad);
      CAPTURE(c.accumulate);
      const Scenario scenario = decode(files.scenario(c));
      const PointResult point =
          simulate(scenario, build_training(scenario), {.smallest_capacity = false});
      const auto peak = [&](Phase phase) {
        return point.run.phase_live_without_workspace[static_cast<std::size_t>(phase)].bytes.count;
      };
      CHECK(peak(Phase::kForward) == c.forward);
      CHECK(peak(Phase::kBackward) == c.backward);
      CHECK(peak(Phase::kOptimizer) == c.optimizer);
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("turns share parameters and inputs by their names, and each updates its own") {
    const Files files;
    const Scenario scenario = decode(files.scenario(Case{}));
    const TrainingGraph graph = build_training(scenario).training;
    CHECK(graph.turns == 2);
    // gen: 16 x 8 + 8 + 8 x 32 + 32; disc: 32 x 200 + 200 + 200 + 1
    CHECK(trained_elements(graph.parameters) == Elements(424 + 6801));
    CHECK(graph.parameters.size() == 8);
    CHECK(graph.updates.size() == 8);
    const auto inputs = std::count_if(graph.storages.begin(), graph.storages.end(),
                                      [](const Storage& s) { return s.role == Role::kInput; });
    CHECK(inputs == 1);
    // Momentum of disc once, two moments of gen and a step of 4 bytes for each of its tensors.
    std::int64_t states = 0;
    for (const Storage& storage : graph.storages) {
      if (storage.role == Role::kOptimizerState) states += storage.bytes.count;
    }
    CHECK(states == 4 * 6801 + 2 * 4 * 424 + 4 * 4);
  }

  TEST_CASE("the parts of turns follow each other") {
    const Files files;
    const Scenario scenario = decode(files.scenario(Case{.accumulate = 2}));
    const TrainingGraph graph = build_training(scenario).training;
    std::string text;
    for (const ScheduledPart& part : training_schedule(graph).later_steps) {
      text += fmt::format("{}{}{}.{}", text.empty() ? "" : " ", name_of(part.part),
                          part.micro_batch, part.chunk);
    }
    CHECK(text ==
          "zero_grad0.0 forward0.0 backward0.0 forward1.0 backward_accumulate1.0 optimizer1.0 "
          "end_of_step1.0 zero_grad2.1 forward2.1 backward2.1 forward3.1 backward_accumulate3.1 "
          "optimizer3.1 end_of_step3.1");
  }

  TEST_CASE("a turn that makes gradients which no turn uses says so") {
    const Files files;
    const std::string only = files.scenario(files.turn(false) + ", {train: [gen.0]}");
    const Scenario scenario = decode(only);
    const std::vector<std::string> warnings = build_training(scenario).warnings;
    REQUIRE(warnings.size() == 1);
    CHECK(warnings.front() ==
          "2 parameters get gradients that no turn zeroes or uses, 'gen.2.bias' the first: freeze "
          "them, or name them in train");
  }

  TEST_CASE("mistakes in turns are named") {
    const Files files;
    const std::string both = files.turn(false) + ", " + files.turn(true);
    const auto problem = [&](const std::string& turns, const std::string& training = {}) {
      return problem_of(files.scenario(turns, training));
    };
    CHECK(problem(both) == "no error");
    CHECK(problem(files.turn(true)).find("two or more turns") != std::string::npos);
    CHECK(problem(both + ", {train: [gen]}").find("turns 2 and 3 both update 'gen.") !=
          std::string::npos);
    CHECK(problem(files.turn(false) + ", {train: [generator]}").find("'generator' matches no") !=
          std::string::npos);
    CHECK(problem(both + ", {trains: [gen]}").find("did you mean 'train'") != std::string::npos);
    CHECK(problem(both, "mode: forward, ").find("training.mode: forward") != std::string::npos);
    const std::string shared = files.scenario(Case{.shared = true, .accumulate = 2});
    CHECK(problem_of(shared).find("each micro-batch has its own") != std::string::npos);
    CHECK(problem(both + ", " + files.turn(false)).find("each optimizer has one turn") !=
          std::string::npos);
    CHECK(problem_of(files.scenario(Case{}) + "policies: [checkpoint_every]\n")
              .find("'checkpoint_every' decides about one loss") != std::string::npos);
  }

  TEST_CASE("the turn that goes back through a shared tensor makes it") {
    const Files files;
    // disc.0 and disc.2 have optimizers of their own, around the generator's or on either side.
    const std::string first = files.turn_of("disc.0", false);
    const std::string second = files.turn_of("disc.2", false);
    const std::string gen = files.turn(true, ", policies: [freeze: {layers: [disc]}]");
    const std::vector<std::string> orders = {first + ", " + second + ", " + gen,
                                             first + ", " + gen + ", " + second,
                                             gen + ", " + first + ", " + second};
    const std::string shared = fmt::format(", shared: [{}]", files.fake());
    for (const std::string& order : orders) {
      CAPTURE(order);
      const auto run = [&](const std::string& model) {
        const Scenario scenario = decode(files.scenario(order, {}, model));
        return simulate(scenario, build_training(scenario), {.smallest_capacity = false});
      };
      const Scenario scenario = decode(files.scenario(order, {}, shared));
      const TrainedModel model = build_training(scenario);
      const Scenario apart = decode(files.scenario(order));
      const TrainedModel separate = build_training(apart);
      // The generator runs once instead of three times, and its backward is there all the same.
      CHECK(separate.forward_flops.count - model.forward_flops.count >=
            2 * 2.0 * kBatch * (16 * 8 + 8 * 32));
      CHECK(model.step_flops.count - model.forward_flops.count ==
            separate.step_flops.count - separate.forward_flops.count);
      // The generator's samples are there until the last turn has ended.
      CHECK(run(shared).run.live.bytes > Bytes(0));
      StorageId fake;
      for (const Hold& hold : model.training.holds) {
        const bool ends = model.training.operators[hold.until].part == OperatorPart::kEndOfStep &&
                          model.training.part(PartKind::kEndOfStep, 2).back() == hold.until;
        if (ends && model.training.storages[hold.storage].bytes == Bytes(kBatch * 32 * 4))
          fake = hold.storage;
      }
      REQUIRE(fake.valid());
      std::vector<OperatorId> makers;
      for (int turn = 0; turn < 3; ++turn) {
        for (const OperatorId op :
             model.training.part(PartKind::kForward, static_cast<std::uint16_t>(turn))) {
          for (const Touch& touch : model.training.touches_of(op)) {
            if (touch.storage == fake && touch.access == Access::kCreate) {
              makers.push_back(op);
              CHECK(turn == 0);
            }
          }
        }
      }
      CHECK(makers.size() == 1);
    }
  }

  TEST_CASE("shared tensors that PyTorch refuses are refused") {
    const Files files;
    const std::string gen = files.turn(true);
    const auto problem = [&](const std::string& turns, const std::string& names) {
      return problem_of(files.scenario(turns, {}, fmt::format(", shared: [{}]", names)));
    };
    const auto has = [](const std::string& text, const char* words) {
      return text.find(words) != std::string::npos;
    };
    const std::string both = files.turn(false) + ", " + gen;
    CHECK(problem(both, files.fake()) == "no error");
    CHECK(problem(gen + ", " + files.turn(false), files.fake()) == "no error");
    CHECK(has(problem(files.turn_of("disc", true) + ", " + gen, files.fake()), "a second time"));
    CHECK(has(problem(both, files.fake() + ", " + Exported(true).within_gen), "on the way to it"));
    CHECK(has(problem(both, Exported(true).within_disc), "a second time"));
    // Of D(real) and D(fake), behind whose hidden layer the discriminator's turn detaches.
    const OnnxFile real(Exported(false, kBatch, true).bytes, "real.onnx");
    const std::string hidden = Exported(true).within_disc;
    const std::string updates =
        fmt::format("{{train: [disc], model: {{onnx: {}, detach: [{}]}}}}", real.path(), hidden);
    CHECK(has(problem(updates + ", " + gen, hidden), "modified by an inplace operation"));
    CHECK(problem(gen + ", " + updates, hidden) == "no error");
    const OnnxFile small(Exported(false, 2).bytes, "small.onnx");
    const std::string other =
        fmt::format("{{train: [disc], micro_batch: 2, model: {{onnx: {}, detach: [{}]}}}}",
                    small.path(), files.fake());
    CHECK(has(problem(other + ", " + gen, files.fake()), "has 256 bytes in turn 1 and 512 in"));
    const std::string alone = fmt::format(
        "model: {{onnx: {}, shared: [{}]}}\nhardware: "
        "h100-sxm-80gb\nallocator: ideal\n",
        files.generator(), files.fake());
    CHECK(has(problem_of(alone), "this one has none"));
    const std::string only = fmt::format("{{train: [gen], model: {{onnx: {}, shared: [{}]}}}}",
                                         files.generator(), files.fake());
    CHECK(has(problem_of(files.scenario(files.turn(false) + ", " + only)), "only turn 2 names it"));
  }

  TEST_CASE("a turn has no policies of the whole step") {
    const Files files;
    const auto problem = [&](const std::string& policy) {
      return problem_of(files.scenario(files.turn(false) + ", " +
                                       files.turn(true, ", policies: [" + policy + "]")));
    };
    CHECK(problem("freeze: {layers: [disc]}") == "no error");
    CHECK(problem("ema") == "no error");
    for (const char* policy : {"offload_parameters", "offload_optimizer"}) {
      CAPTURE(policy);
      CHECK(problem(policy).find("is about the whole step") != std::string::npos);
      CHECK(problem_of(files.scenario(Case{}) + "policies: [" + policy + "]\n") == "no error");
    }
    CHECK(problem("memory_elastic: {global_batch: 8, lengths: [8]}").find("is a study") !=
          std::string::npos);
    CHECK(problem("zero: {stage: 2}").find("decides about one loss") != std::string::npos);
  }

  TEST_CASE("turns average what their optimizers update") {
    const Files files;
    const auto averages = [&](const std::string& turns, const std::string& training) {
      const Scenario scenario = decode(files.scenario(turns, training));
      const TrainingGraph graph = build_training(scenario).training;
      std::int64_t elements = 0;
      for (const Storage& storage : graph.storages) {
        if (storage.name.ends_with(".ema")) elements += storage.elements.count;
      }
      std::int64_t updates = 0;
      for (int turn = 0; turn < graph.turns; ++turn) {
        updates += static_cast<std::int64_t>(
            graph.part(PartKind::kAfterOptimizer, static_cast<std::uint16_t>(turn)).size());
      }
      return std::pair{elements, updates};
    };
    const std::string disc = files.turn(false);
    CHECK(averages(disc + ", " + files.turn(true), "ema: device, ") ==
          std::pair<std::int64_t, std::int64_t>{424 + 6801, 8});
    CHECK(averages(disc + ", " + files.turn(true, ", ema: device"), "") ==
          std::pair<std::int64_t, std::int64_t>{424, 4});
  }

  TEST_CASE("saved activations are those of the turn that keeps most") {
    const Files files;
    const auto saved = [&](const std::string& turns) {
      const Scenario scenario = decode(files.scenario(turns));
      return simulate(scenario, build_training(scenario), {.smallest_capacity = false})
          .saved_activations;
    };
    const std::string gen = files.turn(true);
    CHECK(saved(gen + ", " + files.turn(false)) == saved(files.turn(false) + ", " + gen));
  }

  TEST_CASE("nothing is advised about turns that they refuse") {
    const Files files;
    const auto measures = [&](const std::string& text) {
      const Value document = parse_document(text, "s.yaml");
      const Scenario scenario = decode_scenario(document, environment());
      const TrainedModel model = build_training(scenario);
      const Measures all(document, scenario, model);
      return std::pair{all.recompute().has_value() || all.offload_activations().has_value(),
                       all.offload_optimizer().has_value()};
    };
    CHECK(measures(files.scenario(Case{})) == std::pair{false, true});
    const std::string alone =
        fmt::format("model: {{onnx: {}}}\nhardware: h100-sxm-80gb\n", files.generator());
    CHECK(measures(alone) == std::pair{true, true});
  }

  TEST_CASE("a comparison refuses turns") {
    const Files files;
    const std::string text =
        files.scenario(Case{}) + "compare: {policies: [[], [checkpoint_every]], budgets: [50%]}\n";
    std::string problem;
    try {
      static_cast<void>(decode_compare(parse_document(text, "s.yaml"), environment()));
    } catch (const UserError& error) {
      problem = error.what();
    }
    CHECK(problem.find("without training.turns") != std::string::npos);
  }
}

}  // namespace tidemark::test::turns_test
#endif
