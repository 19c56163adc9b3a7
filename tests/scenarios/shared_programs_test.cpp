// Steps that share programs come out as they do alone.
#include "sim/step/shared_programs.hpp"

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/analysis/same_structure.hpp"
#include "scenarios/results/result_document.hpp"
#include "scenarios/studies/shared_models.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "sim/step/compile.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/listed_policies.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/long_tests.hpp"

namespace tidemark::shared_programs_test {
namespace {

// Every array of a step in words, so that a difference is shown where it is.
std::string words_of(const StepProgram& program) {
  std::string text;
  for (std::size_t i = 0; i < program.size(); ++i) {
    text += fmt::format("{} {} {} {}:", static_cast<int>(program.opcode[i]), program.stream[i],
                        program.subject[i], program.position[i].value);
    for (const std::uint32_t edge : program.edges_of(i))
      text += fmt::format(" {}", edge);
    for (const AllocationUse use : program.uses_of(i))
      text += fmt::format(" {}/{}", use.allocation().value, static_cast<int>(use.access()));
    text += '\n';
  }
  for (const Allocation& a : program.allocations) {
    text +=
        fmt::format("{} {} {} {} {}\n", a.bytes.count, a.storage.value, static_cast<int>(a.role),
                    static_cast<int>(a.tier), static_cast<int>(a.pool));
  }
  for (const Message& m : program.messages)
    text += fmt::format("{} {} {} {} {}\n", m.instruction, m.peer, m.tag, m.bytes.count, m.sends);
  for (const Slot& slot : program.slot) {
    text += fmt::format("{} {} {};", static_cast<int>(slot.phase), slot.last_step, slot.recompute);
  }
  return text +
         fmt::format("{} {}\n", program.matmul_workspace.value, program.allocate_instructions);
}

std::string words_of(const ProgramOrder& order) {
  std::string text = fmt::format("{} {} {}\n", order.steps, order.micro_batches, order.in_flight);
  for (const Occurrence& o : order.at) {
    text += fmt::format("{} {} {} {} {} {} {}\n", o.op.value, o.step, o.micro_batch, o.recompute,
                        o.in_hooks, o.instance, o.scratch);
  }
  for (const Kept& k : order.kept)
    text +=
        fmt::format("{} {} {} {}\n", k.storage.value, k.bytes.count, k.since.value, k.until.value);
  return text;
}

std::string words_of(const Compiled& compiled) {
  std::string text = words_of(compiled.order) + words_of(compiled.program);
  for (const SavedTensor& saved : compiled.saved) {
    text +=
        fmt::format("{} {} {}:", saved.storage.value, saved.made_by.value, saved.by_recomputation);
    for (const OperatorId reader : saved.needed_by)
      text += fmt::format(" {}", reader.value);
    text += '\n';
  }
  for (const PolicyOutcome& o : compiled.policies) {
    text += fmt::format("{} {} {} {} {} {}\n", o.name, o.decided, o.contested, o.refused,
                        o.recomputed_operators, o.offloaded.count);
  }
  for (const Duration price : compiled.costs.device)
    text += fmt::format("{} ", price.count());
  return text;
}

bool has_pass(const Compiled& compiled, std::string_view name) {
  return std::any_of(compiled.passes.begin(), compiled.passes.end(),
                     [&](const PassTime& pass) { return pass.name == name; });
}

// Changes a field to another value of its type.
template <class T>
void change(T& field) {
  if constexpr (std::is_same_v<T, bool>) {
    field = !field;
  } else if constexpr (std::is_enum_v<T>) {
    field = static_cast<T>(static_cast<unsigned>(field) ^ 1U);
  } else {
    ++field;
  }
}
template <class Tag>
void change(Id<Tag>& id) {
  id.value ^= 1U;
}

Operator& op_of(TrainingGraph& graph) {
  return graph.operators[OperatorId(4U)];
}
Collective& collective_of(TrainingGraph& graph) {
  return op_of(graph).work.collective;
}
Storage& storage_of(TrainingGraph& graph) {
  return graph.storages[StorageId(4U)];
}
std::vector<OperatorId>& forward_of(TrainingGraph& graph) {
  return graph.part(PartKind::kForward);
}

// Adds a part behind those of chunk 0, in place of the one that was added before.
void add_part(TrainingGraph& graph, PartKind kind, std::uint16_t chunk) {
  StepParts parts;
  for (const StepPart& part : graph.parts.all()) {
    if (part.chunk == 0) parts.of(part.kind) = part.operators;
  }
  parts.of(kind, chunk) = {OperatorId(2U)};
  graph.parts = std::move(parts);
}

struct FieldChange {
  std::string_view name;
  void (*change)(TrainingGraph& graph);
};

using G = TrainingGraph;

constexpr FieldChange kStructure[] = {
    {"operator: family", [](G& g) { op_of(g).family = g.operators[OperatorId(0U)].family; }},
    {"operator: no family", [](G& g) { op_of(g).family = nullptr; }},
    {"operator: part", [](G& g) { change(op_of(g).part); }},
    {"operator: phase", [](G& g) { change(op_of(g).phase); }},
    {"operator: executor", [](G& g) { change(op_of(g).executor); }},
    {"operator: node", [](G& g) { change(op_of(g).node); }},
    {"operator: layer", [](G& g) { change(op_of(g).layer); }},
    {"operator: first touch", [](G& g) { change(op_of(g).first_touch); }},
    {"operator: number of touches", [](G& g) { change(op_of(g).touch_count); }},
    {"operator: class", [](G& g) { change(op_of(g).work.op_class); }},
    {"operator: type of arithmetic", [](G& g) { change(op_of(g).work.dtype); }},
    {"operator: a workspace", [](G& g) { op_of(g).workspace = Bytes(8); }},
    {"operator: blocks the host", [](G& g) { change(op_of(g).blocks_host); }},
    {"operator: recomputed by another", [](G& g) { op_of(g).recomputed_by = OperatorId(9U); }},
    {"operators: one more", [](G& g) { g.operators.push_back(op_of(g)); }},
    {"collective: kind", [](G& g) { change(collective_of(g).kind); }},
    {"collective: group", [](G& g) { change(collective_of(g).group); }},
    {"collective: peer", [](G& g) { change(collective_of(g).peer); }},
    {"collective: tag", [](G& g) { change(collective_of(g).tag); }},
    {"collective: ranks", [](G& g) { change(collective_of(g).ranks); }},
    {"collective: neighbours", [](G& g) { change(collective_of(g).neighbours); }},
    {"collective: blocks compute", [](G& g) { change(collective_of(g).blocks_compute); }},
    {"touch: storage", [](G& g) { change(g.touches[3].storage); }},
    {"touch: access", [](G& g) { change(g.touches[3].access); }},
    {"touches: one more", [](G& g) { g.touches.push_back(g.touches[3]); }},
    {"storage: type", [](G& g) { change(storage_of(g).dtype); }},
    {"storage: role", [](G& g) { change(storage_of(g).role); }},
    {"storage: layer", [](G& g) { change(storage_of(g).layer); }},
    {"storage: initial", [](G& g) { change(storage_of(g).initial); }},
    {"storage: persistent", [](G& g) { change(storage_of(g).persistent); }},
    {"storage: one per rank", [](G& g) { change(storage_of(g).one_per_rank); }},
    {"storage: a buffer of the rank", [](G& g) { storage_of(g).rank_buffer = 0; }},
    {"storage: another buffer", [](G& g) { g.storages[StorageId(5U)].rank_buffer = 2; }},
    {"storage: home", [](G& g) { change(storage_of(g).home); }},
    {"storages: one more", [](G& g) { g.storages.push_back(storage_of(g)); }},
    {"layer: block", [](G& g) { change(g.layers[LayerId(1U)].block); }},
    {"layers: one more", [](G& g) { g.layers.push_back(g.layers[LayerId(1U)]); }},
    {"hold: storage", [](G& g) { change(g.holds[0].storage); }},
    {"hold: since", [](G& g) { change(g.holds[0].since); }},
    {"hold: until", [](G& g) { change(g.holds[0].until); }},
    {"hold: kind", [](G& g) { change(g.holds[0].kind); }},
    {"holds: one less", [](G& g) { g.holds.pop_back(); }},
    {"part: an operator", [](G& g) { change(forward_of(g)[2]); }},
    {"part: order", [](G& g) { std::swap(forward_of(g)[2], forward_of(g)[3]); }},
    {"part: one operator less", [](G& g) { forward_of(g).pop_back(); }},
    {"part: kind", [](G& g) { add_part(g, PartKind::kBackward, 1); }},
    {"part: chunk", [](G& g) { add_part(g, PartKind::kForward, 2); }},
    {"rule: loss", [](G& g) { change(g.loss); }},
    {"rule: module's state", [](G& g) { g.module_state.push_back(StorageId(4U)); }},
    {"rule: blocks", [](G& g) { change(g.blocks); }},
    {"rule: turns", [](G& g) { change(g.turns); }},
    {"rule: micro-batches", [](G& g) { change(g.micro_batches); }},
    {"rule: skipped updates", [](G& g) { change(g.skipped_updates); }},
    {"rule: frames", [](G& g) { change(g.has_frames); }},
    {"rule: compiled", [](G& g) { change(g.compiled); }},
    {"rule: early stop", [](G& g) { change(g.checkpoint_stops_early); }},
    {"rule: random state", [](G& g) { g.checkpoint_random_state = Bytes(7); }},
    {"rule: gradients persist", [](G& g) { change(g.gradients_persist); }},
    {"rule: updates in backward", [](G& g) { change(g.updates_in_backward); }},
};

constexpr FieldChange kSizesAndNames[] = {
    {"graph: name", [](G& g) { g.name += "x"; }},
    {"graph: samples", [](G& g) { change(g.samples); }},
    {"graph: tokens", [](G& g) { change(g.tokens); }},
    {"operator: name", [](G& g) { op_of(g).name += "x"; }},
    {"operator: flops", [](G& g) { op_of(g).work.flops = Flops(8); }},
    {"operator: bytes read", [](G& g) { op_of(g).work.read = Bytes(8); }},
    {"operator: bytes written", [](G& g) { op_of(g).work.written = Bytes(8); }},
    {"operator: extents", [](G& g) { change(op_of(g).work.extent[1]); }},
    {"collective: bytes", [](G& g) { collective_of(g).bytes = Bytes(8); }},
    {"storage: name", [](G& g) { storage_of(g).name += "x"; }},
    {"storage: bytes", [](G& g) { storage_of(g).bytes = Bytes(8); }},
    {"storage: elements", [](G& g) { storage_of(g).elements = Elements(8); }},
    {"layer: name", [](G& g) { g.layers[LayerId(1U)].name += "x"; }},
};

struct Settings {
  std::string model;
  std::string policies;
  std::string framework;
  std::string more;  // of training
  int gpus = 1;
};

std::string document_of(const Settings& settings, const char* gpu, int micro_batch, int size) {
  return fmt::format(
      "{{model: {}, hardware: {{gpu: {}, count: {}}}, allocator: torch, training: {{micro_batch: "
      "{}, {}: {}, framework: {}{}}}, policies: [{}]}}",
      settings.model, gpu, settings.gpus, micro_batch,
      is_language(settings.model) ? "sequence" : "image", size, settings.framework, settings.more,
      settings.policies);
}

struct Shared {
  int programs = 0;  // steps that took their program from another
  int plans = 0;     // of these, the steps whose policies were not asked
};

// Compiles steps of several sizes and devices, each alone and with the programs of those before.
Shared compare_steps(const Settings& settings, std::mt19937& rng, int steps) {
  const auto programs = std::make_shared<SharedPrograms>();
  Shared shared;
  for (int i = 0; i < steps; ++i) {
    const int micro_batch = 1 + static_cast<int>(rng() % 4);
    const int size = is_language(settings.model) ? 8 * (1 + static_cast<int>(rng() % 4)) : 32;
    const char* gpu = rng() % 2 == 0 ? "h100-sxm-80gb" : "h200-sxm-141gb";
    const std::string text = document_of(settings, gpu, micro_batch, size);
    CAPTURE(text);
    const Scenario scenario = decode(text);
    TrainedModel model = build_training(scenario);
    const Compiled alone = compile(scenario, model);
    model.structure = programs->structure_of(model.training);
    model.programs = programs;
    const Compiled together = compile(scenario, model);
    CHECK(words_of(together) == words_of(alone));
    if (has_pass(together, "take program")) {
      ++shared.programs;
      shared.plans += has_pass(together, "order") ? 0 : 1;
    }
    CHECK(has_pass(together, "verify") != has_pass(together, "take program"));
  }
  return shared;
}

// Solvers that stop when their time is over may stop elsewhere the next time.
bool is_timed(const std::string& listed_policy) {
  return listed_policy.find("time_limit") != std::string::npos;
}

std::vector<const PolicyEntry*> chosen_with(const PolicyEntry& first, std::string_view model,
                                            std::mt19937& rng) {
  std::vector<const PolicyEntry*> chosen{&first};
  const std::span<const PolicyEntry> entries = environment().policies.entries();
  const std::size_t count = 1 + rng() % 3;
  for (int tries = 0; tries < 20 && chosen.size() < count; ++tries) {
    const PolicyEntry& entry = entries[rng() % entries.size()];
    const bool timed = is_timed(listed(std::string(entry.name)));
    if (!timed && may_join(entry, chosen, model, true)) chosen.push_back(&entry);
  }
  return chosen;
}

constexpr const char* kSwept =
    "{{model: {{preset: gpt, layers: 2, width: 64, heads: 4, vocab: 512, sequence: 32}}, "
    "hardware: a100-sxm-80gb, allocator: {}, training: {{sequence: 32, framework: {}}}, "
    "sweep: {{matrix: {{training.micro_batch: [1, 2, 3, 5], training.sequence: [16, 32], "
    "policies: {}}}}}}}";

nlohmann::ordered_json points_of(const std::string& text, const std::vector<bool>& wanted) {
  std::vector<PointResult> points =
      simulate_points(parse_document(text, "sweep.yaml"), environment(), 1,
                      {.convergence_limit = kConvergenceLimit}, {}, wanted);
  return result_document(points)["points"];
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("steps of any policy share programs across sizes and come out as they do alone") {
    std::mt19937 rng(23);
    const std::span<const PolicyEntry> entries = environment().policies.entries();
    std::set<std::string_view> shared;   // policies whose programs were taken
    std::set<std::string_view> unasked;  // those that were not asked again
    const int rounds = test::runs_long_tests() ? 8 : 1;
    for (int round = 0; round < rounds; ++round) {
      for (const PolicyEntry& first : entries) {
        if (is_timed(listed(std::string(first.name)))) continue;
        const char* model = kModels[rng() % 5 == 0 ? 2 : 0];
        const bool for_language = first.name == "megatron_selective" || first.name == "distill";
        if (for_language) model = kModels[0];
        if (first.name == "liger_kernels") model = kLlama;
        std::vector<std::string> names;
        for (const PolicyEntry* entry : chosen_with(first, model, rng))
          names.push_back(listed(std::string(entry->name)));
        const Settings settings{.model = model,
                                .policies = fmt::format("{}", fmt::join(names, ", ")),
                                .framework = rng() % 2 == 0 ? "ideal" : "torch-2.4-cuda",
                                .more = names.front() == "optimizer_in_backward" || rng() % 2 == 0
                                            ? ""
                                            : ", accumulate: 2"};
        const Shared taken = compare_steps(settings, rng, 4);
        if (names.size() == 1 && taken.programs > 0) shared.insert(first.name);
        if (names.size() == 1 && taken.plans > 0) unasked.insert(first.name);
      }
    }
    CHECK(shared.size() >= 10);
    CHECK(unasked.size() >= 2);
  }

  TEST_CASE("no policy, and each that decides by structure: one program for all sizes") {
    std::mt19937 rng(5);
    for (const char* policies :
         {"", "checkpoint_every", "checkpoint: {first: 2}", "checkpoint_sequential: {segments: 2}",
          "selective: {save: []}", "checkpoint_every: {reentrant: false}", "megatron_selective",
          "checkpoint_every: {period: 2}, eviction: {heuristic: dtr_eq}"}) {
      for (const char* framework : {"ideal", "torch-2.4-cuda"}) {
        CAPTURE(policies);
        const Settings settings{.model = kModels[0], .policies = policies, .framework = framework};
        const Shared taken = compare_steps(settings, rng, 12);
        // Samples alone may be views where several need a copy.
        CHECK(taken.plans >= 8);
        CHECK(taken.plans == taken.programs);
      }
    }
  }

  TEST_CASE("ranks that shard by units, or by stages that gather nothing, share programs, too") {
    std::mt19937 rng(7);
    for (const char* policies :
         {"fsdp", "fsdp: {version: 1}", "fsdp, checkpoint_every", "fsdp, optimizer_in_backward",
          "fsdp: {reshard_after_forward: false, prefetch: post}", "zero: {stage: 1}",
          "zero: {stage: 2}, checkpoint_every"}) {
      CAPTURE(policies);
      const Settings settings{
          .model = kModels[0], .policies = policies, .framework = "torch-2.4-cuda", .gpus = 4};
      const Shared taken = compare_steps(settings, rng, 12);
      CHECK(taken.plans >= 8);
      CHECK(taken.plans == taken.programs);
    }
  }

  TEST_CASE("a sweep has the figures of its points alone, to the byte and nanosecond") {
    for (const char* framework : {"ideal", "torch-2.4-cuda"}) {
      for (const char* allocator : {"ideal", "torch", "bfc", "packed"}) {
        const std::string text = fmt::format(
            kSwept, allocator, framework,
            "[[], [checkpoint_every], [selective: {save: [linear]}], [offload_activations: "
            "{min_bytes: 40KiB}], [checkpoint: {first: 1}, offload_optimizer]]");
        const nlohmann::ordered_json together = points_of(text, {});
        REQUIRE(together.size() == 40);
        for (std::size_t i = 0; i < together.size(); ++i) {
          std::vector<bool> wanted(together.size(), false);
          wanted[i] = true;
          CAPTURE(i);
          CHECK(together[i] == points_of(text, wanted)[i]);
        }
      }
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("graphs that differ in sizes alone have the same structure, others do not") {
    const auto graph_of = [](const std::string& training) {
      return build_training(decode(fmt::format("{{model: {}, hardware: h100-sxm-80gb, training: "
                                               "{{{}}}}}",
                                               kModels[0], training)))
          .training;
    };
    const TrainingGraph two = graph_of("micro_batch: 2, sequence: 32");
    const StructureDigest digest = structure_digest(two);
    CHECK(structure_digest(graph_of("micro_batch: 7, sequence: 32")) == digest);
    CHECK(structure_digest(graph_of("micro_batch: 2, sequence: 16")) == digest);
    for (const std::string other :
         {"optimizer: sgd", "accumulate: 2", "precision: fp32", "dropout: 0", "framework: ideal"}) {
      CAPTURE(other);
      CHECK(structure_digest(graph_of("micro_batch: 2, sequence: 32, " + other)) != digest);
    }
  }

  TEST_CASE("each field that a program follows from counts in a graph's structure by itself") {
    TrainingGraph graph =
        build_training(decode(document_of({.model = kModels[0], .framework = "torch-2.4-cuda"},
                                          "h100-sxm-80gb", 2, 32)))
            .training;
    graph.storages[StorageId(5U)].rank_buffer = 1;
    add_part(graph, PartKind::kForward, 1);
    const StructureDigest digest = structure_digest(graph);
    const auto differs = [&](const FieldChange& field) {
      TrainingGraph changed = graph;
      field.change(changed);
      return structure_digest(changed) != digest;
    };
    for (const FieldChange& field : kStructure) {
      CAPTURE(field.name);
      CHECK(differs(field));
    }
    for (const FieldChange& field : kSizesAndNames) {
      CAPTURE(field.name);
      CHECK_FALSE(differs(field));
    }
  }

  TEST_CASE("structures keep their ids, programs that were not used for longest are forgotten") {
    const auto graph_of = [](int layers) {
      return build_training(
                 decode(fmt::format("{{model: {{preset: gpt, layers: {}, width: 64, heads: 4}}, "
                                    "hardware: h100-sxm-80gb, training: {{sequence: 32}}}}",
                                    layers)))
          .training;
    };
    const TrainingGraph one = graph_of(1);
    const TrainingGraph two = graph_of(2);
    SharedPrograms none(0);
    const StructureId first = none.structure_of(one);
    CHECK(none.structure_of(one) == first);
    CHECK(none.structure_of(two) != first);
    CHECK(none.structure_of(one) == first);
    const auto program_of = [](std::size_t instructions) {
      SharedProgram program;
      program.program.opcode.resize(instructions);
      return std::make_shared<const SharedProgram>(std::move(program));
    };
    SharedPrograms some(10);
    some.keep("a", program_of(4));
    some.keep("b", program_of(4));
    CHECK(some.find("a") != nullptr);
    some.keep("c", program_of(4));
    CHECK(some.find("b") == nullptr);
    CHECK(some.find("a") != nullptr);
    some.keep("a", program_of(9));
    CHECK(some.find("c") == nullptr);
    CHECK(some.find("a")->program.size() == 9);
    some.keep("d", program_of(11));
    CHECK(some.find("d") == nullptr);
  }

  TEST_CASE("models are kept as far as their memory allows") {
    const auto model_of = [](SharedModels& models, int layers) {
      const std::string text = fmt::format(
          "{{model: {{preset: gpt, layers: {}, width: 64, heads: 4}}, hardware: "
          "h100-sxm-80gb, training: {{sequence: 32}}}}",
          layers);
      return models.of(decode(text), parse_document(text, "s.yaml"));
    };
    SharedModels all;
    const auto first = model_of(all, 1);
    CHECK(model_of(all, 2) != first);
    CHECK(model_of(all, 1) == first);
    // A layer has about fifty operators of 216 bytes each and more: one fits, and two do not.
    SharedModels few(30 * kKiB);
    const auto kept = model_of(few, 1);
    CHECK(model_of(few, 1) == kept);
    CHECK(model_of(few, 2) != kept);
    CHECK(model_of(few, 1) != kept);
  }

  TEST_CASE("the models that were used last are kept, twice as many in twice the memory") {
    // Models of one structure, whose sizes in host memory are the same.
    const auto model_of = [](SharedModels& models, int micro_batch) {
      const std::string text = fmt::format(
          "{{model: {{preset: mlp, widths: [64, 64, 10]}}, hardware: h100-sxm-80gb, training: "
          "{{micro_batch: {}}}}}",
          micro_batch);
      return models.of(decode(text), parse_document(text, "s.yaml"));
    };
    constexpr int kBuilt = 40;
    // Builds models, and returns how many of those built last are still there.
    const auto kept_in = [&](SharedModels&& models) {
      std::vector<std::shared_ptr<const TrainedModel>> built;
      for (int i = 0; i < kBuilt; ++i)
        built.push_back(model_of(models, 1 + i));
      int kept = 0;
      while (kept < kBuilt &&
             model_of(models, kBuilt - kept) == built[static_cast<std::size_t>(kBuilt - kept - 1)])
        ++kept;
      return kept;
    };
    CHECK(kept_in(SharedModels()) == kBuilt);
    const int some = kept_in(SharedModels(100 * kKiB));
    CHECK(some >= 4);
    const int twice = kept_in(SharedModels(200 * kKiB));
    CHECK(twice >= 2 * some);
    CHECK(twice <= 2 * some + 1);
    CHECK(twice < kBuilt);
  }
}

}  // namespace tidemark::shared_programs_test
