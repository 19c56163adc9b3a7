#include "policies/compile/compiled_step.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "policies/compile/fuse.hpp"
#include "policies/compile/partition.hpp"
#include "policies/compile/write_over_inputs.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark {
namespace compiled_step_test {
namespace {

// A step of operators that each make one value, and backward operators that each read some.
struct RandomStep {
  // Values differ in size, unless all have that of the gradients.
  explicit RandomStep(std::uint32_t seed, bool equal_sizes = false) : random(seed) {
    const int count = number(3, 9);
    graph.layers.push_back({.name = "block 0", .block = 0});
    graph.layers.push_back({.name = "block 1", .block = 1});
    graph.layers.push_back({.name = "head"});
    const StorageId input = graph.storages.push_back(
        {.bytes = Bytes(64), .role = Role::kInput, .initial = true, .name = "input"});
    for (int i = 0; i < count; ++i) {
      std::vector<Touch> touches{{input, Access::kRead}};
      for (const StorageId made : values) {
        if (number(0, 2) == 0) touches.push_back({made, Access::kRead});
      }
      values.push_back(graph.storages.push_back(
          {.bytes = Bytes(equal_sizes ? 8 : 16 * number(1, 400) + i), .name = "value"}));
      touches.push_back({values.back(), Access::kCreate});
      const LayerId layer(static_cast<std::uint32_t>(3 * i / count));
      graph.part(PartKind::kForward)
          .push_back(add(Phase::kForward, number(0, 3) == 0, layer, touches));
    }
    for (int i = 0; i < number(1, 4); ++i) {
      const int read = number(0, count - 1);
      std::vector<Touch> touches{{values[static_cast<std::size_t>(read)], Access::kRead}};
      const StorageId gradient = graph.storages.push_back({.bytes = Bytes(8), .name = "gradient"});
      touches.push_back({gradient, Access::kCreate});
      const LayerId layer(static_cast<std::uint32_t>(3 * read / count));
      graph.part(PartKind::kBackward)
          .push_back(add(Phase::kBackward, number(0, 3) == 0, layer, touches));
    }
  }

  int number(int low, int high) { return std::uniform_int_distribution<>(low, high)(random); }
  OperatorId add(Phase phase, bool matmul, LayerId layer, const std::vector<Touch>& touches) {
    Operator op{.name = "op", .phase = phase, .layer = layer};
    op.work.op_class = matmul ? OperatorClass::kMatmul : OperatorClass::kElementwise;
    return graph.add_operator(std::move(op), touches);
  }

  std::mt19937 random;
  TrainingGraph graph;
  std::vector<StorageId> values;
};

// The partitioner's rules once more, as a search over all sets of saved values.
class Oracle {
 public:
  Oracle(const RandomStep& step, CompileScope scope) : step_(step), count_(step.values.size()) {
    const bool blocks = scope == CompileScope::kBlocks;
    for (std::size_t i = 0; i < count_; ++i)
      index_[step.values[i].index()] = i;
    const TrainingGraph& g = step.graph;
    for (std::size_t i = 0; i < count_; ++i) {
      const OperatorId op = g.part(PartKind::kForward)[i];
      const bool is_eager = blocks && g.operators[op].layer.index() == 2;
      fusible_[i] = !is_eager && g.operators[op].work.op_class != OperatorClass::kMatmul;
      layer_[i] = g.operators[op].layer;
      std::int64_t read = 0;
      for (const Touch& touch : g.touches_of(op)) {
        if (touch.access != Access::kRead) continue;
        read += g.storages[touch.storage].bytes.count;
        if (index_.contains(touch.storage.index()))
          inputs_[i].push_back(index_[touch.storage.index()]);
      }
      bytes_[i] = g.storages[step.values[i]].bytes.count;
      banned_[i] = !fusible_[i] || 4 * bytes_[i] < read;
      distance_[i] = 100;
    }
    for (const OperatorId op : g.part(PartKind::kBackward)) {
      const std::size_t i = index_[g.touches_of(op).front().storage.index()];
      wanted_[i] = true;
      distance_[i] = 1;
      const bool is_eager = blocks && g.operators[op].layer.index() == 2;
      if (is_eager || g.operators[op].work.op_class == OperatorClass::kMatmul) banned_[i] = true;
    }
    for (std::size_t i = count_; i-- > 0;) {
      for (const std::size_t in : inputs_[i]) {
        distance_[in] = std::min(distance_[in], distance_[i] + 1);
        const bool goes_out = blocks && layer_[in] != layer_[i];
        materialised_[in] |= !fusible_[i] || goes_out;
        banned_[in] |= goes_out;
      }
    }
  }

  // Returns what a set of saved values weighs; infinity where backward would lack something.
  [[nodiscard]] double weigh(std::uint32_t saved) const {
    std::array<bool, 16> there{};
    double sum = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      there[i] = (saved >> i & 1U) != 0;
      if (there[i]) {
        sum += static_cast<double>(bytes_[i]) * std::pow(1.1, std::min(distance_[i], 100)) *
               (materialised_[i] ? 1 : 2);
        continue;
      }
      there[i] = !banned_[i] && std::all_of(inputs_[i].begin(), inputs_[i].end(),
                                            [&](std::size_t in) { return there[in]; });
      if (wanted_[i] && !there[i]) return std::numeric_limits<double>::infinity();
    }
    return sum;
  }
  [[nodiscard]] double least() const {
    double best = std::numeric_limits<double>::infinity();
    for (std::uint32_t saved = 0; saved < (1U << count_); ++saved)
      best = std::min(best, weigh(saved));
    return best;
  }
  // Returns what backward reads of the step once it is compiled, as a set of values.
  [[nodiscard]] std::uint32_t kept_by(const TrainingGraph& compiled) const {
    std::uint32_t set = 0;
    for (const OperatorId op : compiled.part(PartKind::kBackward)) {
      for (const Touch& touch : compiled.touches_of(op)) {
        const auto found = index_.find(touch.storage.index());
        if (found != index_.end()) set |= 1U << found->second;
      }
    }
    return set;
  }

 private:
  const RandomStep& step_;
  std::size_t count_;
  std::map<std::size_t, std::size_t> index_;
  std::array<std::vector<std::size_t>, 16> inputs_;
  std::array<std::int64_t, 16> bytes_{};
  std::array<int, 16> distance_{};
  std::array<bool, 16> fusible_{}, banned_{}, wanted_{}, materialised_{};
  std::array<LayerId, 16> layer_{};
};

// The contents that each operator reads, in program order: every operator makes a new one.
std::vector<std::multiset<std::uint32_t>> contents_read(const TrainingGraph& graph) {
  std::map<std::size_t, std::uint32_t> content;
  std::vector<std::multiset<std::uint32_t>> all;
  for (const PartKind kind : {PartKind::kForward, PartKind::kBackward}) {
    for (const OperatorId op : graph.part(kind)) {
      std::multiset<std::uint32_t> read;
      for (const Touch& touch : graph.touches_of(op)) {
        if (touch.access != Access::kCreate) read.insert(content[touch.storage.index()]);
      }
      for (const Touch& touch : graph.touches_of(op)) {
        if (touch.access != Access::kRead) content[touch.storage.index()] = 1 + op.value;
      }
      all.push_back(std::move(read));
    }
  }
  return all;
}

// The most bytes that are live if each storage goes behind its last operator.
std::int64_t most_live(const TrainingGraph& graph) {
  std::vector<OperatorId> order = graph.part(PartKind::kForward);
  const std::vector<OperatorId>& backward = graph.part(PartKind::kBackward);
  order.insert(order.end(), backward.begin(), backward.end());
  std::map<std::size_t, std::size_t> last;
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const Touch& touch : graph.touches_of(order[i]))
      last[touch.storage.index()] = i;
  }
  std::int64_t live = 0;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const Touch& touch : graph.touches_of(order[i])) {
      if (touch.access == Access::kCreate) live += graph.storages[touch.storage].bytes.count;
    }
    most = std::max(most, live);
    for (const Touch& touch : graph.touches_of(order[i])) {
      if (graph.storages[touch.storage].initial) continue;
      if (last[touch.storage.index()] == i) live -= graph.storages[touch.storage].bytes.count;
    }
  }
  return most;
}

PointResult run(const std::string& model, const std::string& rest) {
  const std::string text =
      fmt::format("model: {}\nhardware: h100-sxm-80gb\nallocator: ideal\n{}", model, rest);
  const PointResult point = simulate_points(parse_document(text, "s.yaml"), environment(), 1,
                                            {.smallest_capacity = false})
                                .front();
  REQUIRE_MESSAGE(point.status == PointStatus::kFits, point.error);
  return point;
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("a compiled step keeps the lightest set of values that backward can do with") {
    for (std::uint32_t seed = 0; seed < 400; ++seed) {
      const RandomStep step(seed);
      const CompileScope scope = seed % 2 == 0 ? CompileScope::kModel : CompileScope::kBlocks;
      const Oracle oracle(step, scope);
      TrainingGraph compiled = step.graph;
      CompiledStep(scope).apply(compiled, {});
      check_invariants(compiled);
      CHECK(oracle.weigh(oracle.kept_by(compiled)) == doctest::Approx(oracle.least()));
    }
  }

  TEST_CASE("fused kernels touch what their operators touch, less what only they touch") {
    for (std::uint32_t seed = 0; seed < 100; ++seed) {
      const RandomStep step(seed);
      TrainingGraph fused = step.graph;
      fuse_operators(fused, seed % 2 == 0 ? CompileScope::kModel : CompileScope::kBlocks);
      check_invariants(fused);
      for (const PartKind kind : {PartKind::kForward, PartKind::kBackward})
        CHECK(fused.part(kind).size() <= step.graph.part(kind).size());
      CHECK(fused.model_flops_of(fused.part(PartKind::kForward)).count ==
            step.graph.model_flops_of(step.graph.part(PartKind::kForward)).count);
    }
  }
}

TEST_SUITE("property") {
  TEST_CASE("kernels that write over their inputs leave what others read, and need no more") {
    int reused = 0;
    for (std::uint32_t seed = 0; seed < 400; ++seed) {
      const RandomStep step(seed, true);
      TrainingGraph written = step.graph;
      IdVector<OperatorId, char> moves(written.operators.size(), 0);
      moves[OperatorId(0U)] = 1;
      write_over_inputs(written, seed % 2 == 0 ? CompileScope::kModel : CompileScope::kBlocks,
                        moves);
      check_invariants(written);
      CHECK(contents_read(written) == contents_read(step.graph));
      CHECK(most_live(written) <= most_live(step.graph));
      for (const OperatorId op : ids_of(written.operators)) {
        const bool over = written.touches_of(op).size() < step.graph.touches_of(op).size();
        if (!over) continue;
        ++reused;
        CHECK(is_fusible(step.graph, op,
                         seed % 2 == 0 ? CompileScope::kModel : CompileScope::kBlocks));
      }
    }
    CHECK(reused > 200);
  }
}

TEST_SUITE("unit") {
  // Each chunk's logits go when its gradient is there: chunks share too little to be one kernel.
  TEST_CASE("compiled losses of chunks run one after the other") {
    const std::string rest =
        "training: {micro_batch: 4, sequence: 256, precision: bf16, optimizer: sgd, compile: "
        "inductor}\npolicies: [chunked_loss: {kind: kept, chunks: ";
    const std::string model =
        "{preset: llama, layers: 1, width: 64, heads: 2, kv_heads: 2, head_width: 32, ffn: 128, "
        "vocab: 32000}";
    const std::int64_t logits = std::int64_t{2} * 4 * 256 * 32'000;
    const std::int64_t whole = run(model, rest + "2}]").run.live.bytes.count;
    const std::int64_t parts = run(model, rest + "8}]").run.live.bytes.count;
    CHECK(whole > logits * 3 / 2);
    CHECK(parts < whole - logits / 4);
  }

  TEST_CASE("compiled, a model keeps less, takes no longer, and still checkpoints and offloads") {
    for (const std::string model :
         {"{preset: gpt2, layers: 3}", "{preset: llama-3.2-1b, layers: 2}", "resnet18"}) {
      const PointResult eager = run(model, "training: {precision: bf16_autocast}");
      const std::string compiled = "training: {precision: bf16_autocast, compile: inductor}\n";
      const PointResult fused = run(model, compiled);
      CHECK(fused.saved_activations <= eager.saved_activations);
      CHECK(fused.run.live.bytes <= eager.run.live.bytes);
      CHECK(fused.run.step < eager.run.step);
      CHECK(fused.step_flops.count >= eager.step_flops.count * 0.99);
      const PointResult checkpointed =
          run(model, compiled + "policies: [checkpoint_every: {period: 1}]");
      CHECK(checkpointed.saved_activations < fused.saved_activations);
      const PointResult offloaded =
          run(model, compiled + "policies: [offload_activations: {prefetch: 2}]");
      CHECK(offloaded.saved_activations < fused.saved_activations);
    }
  }

  // Of a block of Llama backward needs the inputs of its products and of attention, and what
  // SwiGLU multiplies: no intermediate of a norm, of SiLU or of the rotary embedding.
  TEST_CASE("of a Llama block only operands of products are kept") {
    const auto saved = [](int layers) {
      return run(fmt::format("{{preset: llama-3.2-1b, layers: {}}}", layers),
                 "training: {precision: bf16, sequence: 512, compile: inductor}")
          .saved_activations.count;
    };
    constexpr std::int64_t kTokens = 512, kWidth = 2048, kHidden = 8192, kHeads = 32;
    // Residual, norm, q, k and v of all heads, attention's output, residual, norm; gate, up and
    // their product; the statistics of two norms, the log-sum-exp of attention and its random
    // state.
    const std::int64_t values = 2 * (8 * kWidth + 3 * kHidden);
    const std::int64_t block = kTokens * (values + 2 * 4 + kHeads * 4) + 16;
    CHECK(saved(3) - saved(2) == block);
  }

  TEST_CASE("where each block is compiled, the loss runs eagerly and blocks keep the same") {
    const auto llama = [](int layers, const std::string& compile) {
      return run(fmt::format("{{preset: llama-3.2-1b, layers: {}}}", layers),
                 "training: {precision: bf16, sequence: 512, compile: " + compile + "}");
    };
    const PointResult eager = llama(2, "none");
    const PointResult regional = llama(2, "regional");
    const PointResult whole = llama(2, "inductor");
    // A block keeps the same, whichever way it is compiled.
    CHECK(llama(3, "regional").saved_activations.count - regional.saved_activations.count ==
          llama(3, "inductor").saved_activations.count - whole.saved_activations.count);
    // An eager loss saves its log-probabilities in fp32, a compiled one the logits in bf16.
    constexpr std::int64_t kMore = std::int64_t{512} * 128'256 * (4 - 2);
    CHECK(regional.saved_activations.count - whole.saved_activations.count >= kMore);
    CHECK(regional.saved_activations < eager.saved_activations);
    CHECK(whole.run.live.bytes <= regional.run.live.bytes);
    CHECK(regional.run.live.bytes <= eager.run.live.bytes);
    CHECK(whole.run.step < regional.run.step);
    CHECK(regional.run.step < eager.run.step);
  }

  TEST_CASE("PyTorch before 2.0 does not compile") {
    CHECK_THROWS_WITH((void)run("gpt2", "training: {framework: torch-1.13-cpu, compile: inductor}"),
                      doctest::Contains("PyTorch 2.0"));
  }
}

}  // namespace compiled_step_test
}  // namespace tidemark
