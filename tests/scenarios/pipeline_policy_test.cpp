// `pipeline` from a scenario to the figures of all its stages.
#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/analysis/pipeline_schedule.hpp"
#include "scenarios/results/read_result.hpp"
#include "scenarios/results/result_document.hpp"
#include "sim/step/arrivals.hpp"
#include "sim/step/run_compiled.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::pipeline_policy_test {
namespace {

// A GPT of small layers on GPUs whose network costs nothing but its latency.
std::string small_gpt(int layers, int gpus, int micro_batches, const std::string& policies) {
  return fmt::format(
      "{{version: 1, model: {{preset: gpt, layers: {}, width: 64, heads: 4, vocab: 512, sequence: "
      "32}}, hardware: {{gpu: h100-sxm-80gb, count: {}, node: 1, network: {{bandwidth: 1000TB/s, "
      "latency: 0s}}}}, training: {{micro_batch: 2, sequence: 32, accumulate: {}}}, policies: "
      "[{}]}}",
      layers, gpus, micro_batches, policies);
}

Scenario scenario_of(const std::string& text) {
  return decode_scenario(parse_document(text, "s.yaml"), environment());
}

PointResult simulated(const std::string& text, const SimulateOptions& options = {}) {
  const Scenario scenario = scenario_of(text);
  return simulate(scenario, build_training(scenario), options);
}

std::string refused(const std::string& text) {
  return error_of([&] {
    const Scenario scenario = scenario_of(text);
    static_cast<void>(compile(scenario, build_training(scenario)));
  });
}

std::vector<std::vector<int>> layers_of(const PointResult& point) {
  std::vector<std::vector<int>> layers;
  for (const StageResult& stage : point.stages) {
    std::vector<int>& own = layers.emplace_back();
    for (const StageBlocks& chunk : stage.chunks)
      own.push_back(chunk.count);
  }
  return layers;
}

// Returns the bytes of the messages of a program by (other rank, tag, direction).
std::map<std::tuple<int, int, bool>, std::int64_t> messages_of(const StepProgram& program) {
  std::map<std::tuple<int, int, bool>, std::int64_t> bytes;
  for (const Message& message : program.messages)
    bytes[{message.peer, message.tag, message.sends}] += message.bytes.count;
  return bytes;
}

// Returns "F0 F1 B0 ..." as the last step of a program runs: a part is where its first kernel is.
std::string order_run(const TrainedModel& model, const Compiled& compiled) {
  std::map<std::uint32_t, std::pair<PartKind, int>> part_of;  // by operator
  for (const StepPart& part : model.training.parts.all()) {
    for (const OperatorId op : part.operators)
      part_of.emplace(op.value, std::pair{part.kind, static_cast<int>(part.chunk)});
  }
  std::string text;
  std::string before;
  for (const Occurrence& at : compiled.order.at) {
    const auto [kind, chunk] = part_of.at(at.op.value);
    if (at.step + 1 != compiled.order.steps || at.recompute) continue;
    const std::optional<StageWork> work = stage_work_of(kind);
    if (!work) continue;
    std::string word = fmt::format("{}{}", letter_of(*work), at.micro_batch);
    if (model.chunks.size() > 1) word += fmt::format(".{}", chunk);
    if (word == before) continue;
    text += (text.empty() ? "" : " ") + word;
    before = word;
  }
  return text;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a pipeline of one stage is no pipeline, to the byte and the nanosecond") {
    const PointResult plain = simulated(small_gpt(4, 1, 3, ""));
    for (const char* schedule : {"1f1b", "gpipe", "zb-h1"}) {
      const PointResult one = simulated(
          small_gpt(4, 1, 3, fmt::format("pipeline: {{size: 1, schedule: {}}}", schedule)));
      CHECK(one.stages.empty());
      CHECK(one.run.step == plain.run.step);
      CHECK(one.run.live.bytes == plain.run.live.bytes);
      CHECK(one.run.reserved.bytes == plain.run.reserved.bytes);
      CHECK(one.smallest_capacity == plain.smallest_capacity);
    }
  }

  TEST_CASE("layers are shared evenly, with embedding and head as a layer each, or as listed") {
    const auto layers = [](int blocks, const std::string& keys) {
      return layers_of(simulated(small_gpt(blocks, 4, 4, "pipeline: {size: 4, " + keys + "}"),
                                 {.smallest_capacity = false}));
    };
    using Layers = std::vector<std::vector<int>>;
    CHECK(layers(8, "schedule: 1f1b") == Layers{{2}, {2}, {2}, {2}});
    // 10 + 2 over 4 is 3 each, less one at both ends.
    CHECK(layers(10, "split: balanced") == Layers{{2}, {3}, {3}, {2}});
    // Without a split 6 + 2 come out even as well.
    CHECK(layers(6, "schedule: 1f1b") == Layers{{1}, {2}, {2}, {1}});
    CHECK(layers(6, "split: [1, 2, 3, 0]") == Layers{{1}, {2}, {3}, {0}});
    CHECK(layers(8, "schedule: interleaved, chunks: 2") == Layers{{1, 1}, {1, 1}, {1, 1}, {1, 1}});
  }

  TEST_CASE("all stages hold the model once; a tied embedding is held by the first and the last") {
    for (const bool tied : {false, true}) {
      const std::string tie = fmt::format(", tie: {}}}", tied);
      std::string text = small_gpt(4, 2, 4, "pipeline: {size: 2}");
      text.replace(text.find("sequence: 32}"), 13, "sequence: 32" + tie);
      std::string alone = small_gpt(4, 1, 4, "");
      alone.replace(alone.find("sequence: 32}"), 13, "sequence: 32" + tie);
      const PointResult all = simulated(alone);
      const PointResult point = simulated(text, {.smallest_capacity = false});
      CHECK(point.parameter_count == all.parameter_count);
      std::int64_t parameters = 0;
      std::int64_t states = 0;
      std::int64_t reduced = 0;
      for (const StageResult& stage : point.stages) {
        parameters += stage.point.parameters.count;
        states += stage.point.optimizer_state.count;
        for (const Communication& used : stage.point.communication) {
          if (used.kind == CollectiveKind::kAllReduce) reduced += used.bytes.count;
        }
      }
      // 512 x 64 weights of 2 bytes; their gradients are reduced on both stages.
      const std::int64_t embedding = tied ? 512 * 64 * 2 : 0;
      CHECK(parameters == all.parameters.count + embedding);
      CHECK(states == all.optimizer_state.count + 6 * embedding);
      CHECK(reduced == 2 * embedding);
    }
  }

  TEST_CASE("GPipe keeps m micro-batches, 1F1B min(m, p - s) on stage s") {
    for (const int m : {2, 4, 7}) {
      const PointResult all = simulated(small_gpt(4, 4, m, "pipeline: {size: 4, schedule: gpipe}"));
      const PointResult alternating = simulated(small_gpt(4, 4, m, "pipeline: {size: 4}"));
      for (int s = 0; s < 4; ++s) {
        const auto at = static_cast<std::size_t>(s);
        CHECK(all.stages[at].in_flight == m);
        CHECK(alternating.stages[at].in_flight == std::min(m, 4 - s));
      }
    }
  }

  TEST_CASE("the parts of the stages are in the order of the schedule, after what they wait for") {
    // A gradient is sent when it is there, before the last operators of its part have run; a
    // message takes longer than they do.
    std::string text = small_gpt(4, 4, 6, "pipeline: {size: 4, schedule: zb-h1}");
    text.replace(text.find("latency: 0s"), 11, "latency: 5us");
    const PointResult point = simulated(text, {.smallest_capacity = false});
    std::map<std::tuple<StageWork, int, int>, Duration> ended;  // work, micro-batch, stage
    for (const StageResult& stage : point.stages) {
      std::string order;
      for (const StagePart& part : stage.parts) {
        order +=
            fmt::format("{}{}{}", order.empty() ? "" : " ", letter_of(part.work), part.micro_batch);
        ended[{part.work, part.micro_batch, stage.stage}] = part.end;
      }
      CHECK(order == stage.order);
    }
    for (const StageResult& stage : point.stages) {
      for (const StagePart& part : stage.parts) {
        CHECK(part.begin >= Duration(0));
        CHECK(part.end > part.begin);
        if (part.work == StageWork::kForward && stage.stage > 0)
          CHECK(part.begin >= ended.at({StageWork::kForward, part.micro_batch, stage.stage - 1}));
        if (part.work == StageWork::kBackward && stage.stage < 3)
          CHECK(part.begin >= ended.at({StageWork::kBackward, part.micro_batch, stage.stage + 1}));
      }
    }
  }

  TEST_CASE("what a micro-batch in flight takes is there as often as the schedule says") {
    const auto peaks = [](const std::string& schedule, int m) {
      std::vector<std::int64_t> live;
      const PointResult point =
          simulated(small_gpt(8, 4, m, "pipeline: {size: 4, schedule: " + schedule + "}"),
                    {.smallest_capacity = false});
      for (const StageResult& stage : point.stages)
        live.push_back(stage.point.run.phase_live_without_workspace[0].bytes.count);
      return live;
    };
    // In forward a stage has its micro-batches in flight: from one number of micro-batches to the
    // next GPipe has one more, 1F1B none once it has p - s.
    const std::vector<std::int64_t> g5 = peaks("gpipe", 5);
    const std::vector<std::int64_t> g6 = peaks("gpipe", 6);
    const std::vector<std::int64_t> g7 = peaks("gpipe", 7);
    const std::vector<std::int64_t> f5 = peaks("1f1b", 5);
    const std::vector<std::int64_t> f7 = peaks("1f1b", 7);
    for (std::size_t s = 0; s < 4; ++s) {
      CAPTURE(s);
      CHECK(g6[s] - g5[s] > 0);
      CHECK(g7[s] - g6[s] == g6[s] - g5[s]);
      CHECK(f7[s] == f5[s]);
    }
  }

  TEST_CASE("what a later stage reads passes through the stages between") {
    const std::string text =
        "{version: 1, model: {preset: t5, layers: 2, decoder_layers: 2, width: 64, heads: 4, ffn: "
        "128, vocab: 512, "
        "sequence: 32}, hardware: {gpu: h100-sxm-80gb, count: 4}, training: {micro_batch: 2, "
        "accumulate: 2}, policies: [{pipeline: {size: 4}}]}";
    const Scenario scenario = scenario_of(text);
    const TrainedModel model = build_training(scenario);
    const Compiled compiled = compile(scenario, model);
    const auto sends = [&](std::size_t stage, int peer) {
      std::map<int, int> by_tag;  // messages of two steps of two micro-batches
      for (const Message& message : compiled.stages[stage].program.messages) {
        if (message.sends && message.peer == peer) ++by_tag[message.tag];
      }
      return by_tag;
    };
    // Encoder blocks 0 and 1, decoder blocks 2 and 3. The decoder reads the encoder's output in
    // both of its blocks, so stage 2 hands it on beside its own, and both gradients come back.
    CHECK(sends(0, 1) == std::map<int, int>{{0, 4}});
    CHECK(sends(2, 3) == std::map<int, int>{{4, 8}});
    CHECK(sends(3, 2) == std::map<int, int>{{5, 8}});
    CHECK(sends(1, 0) == std::map<int, int>{{1, 4}});
  }

  TEST_CASE("outputs that are kept stay until their backward") {
    const std::string text = "pipeline: {size: 4, schedule: gpipe, deallocate_outputs: ";
    const PointResult freed = simulated(small_gpt(4, 4, 4, text + "true}"));
    const PointResult kept = simulated(small_gpt(4, 4, 4, text + "false}"));
    // 2 x 32 x 64 activations of 2 bytes, for each of four micro-batches.
    const std::int64_t outputs = 4 * 2 * 32 * 64 * 2;
    const auto forward = [](const PointResult& point, std::size_t stage) {
      return point.stages[stage].point.run.phase_live_without_workspace[0].bytes.count;
    };
    for (std::size_t s = 0; s < 3; ++s)
      CHECK(forward(kept, s) - forward(freed, s) >= outputs * 3 / 4);
    CHECK(forward(kept, 3) == forward(freed, 3));  // the last stage sends nothing
  }

  TEST_CASE("mistakes name the nearest numbers that are valid") {
    const auto with = [](int layers, int m, const std::string& keys) {
      return refused(small_gpt(layers, 4, m, "pipeline: {size: 4, " + keys + "}"));
    };
    CHECK(
        with(7, 4, "schedule: 1f1b")
            .find("7 layers cannot be shared evenly among 4 stages; write a size of 1, split: ") !=
        std::string::npos);  // 7 stages need other GPUs than 4
    CHECK(with(8, 5, "schedule: interleaved").find("write 4 or 8") != std::string::npos);
    CHECK(with(8, 4, "schedule: 1f1b, chunks: 2").find("'interleaved' takes any number") !=
          std::string::npos);
    CHECK(with(8, 4, "split: [1, 2, 3]").find("expected the layers of each of 4 stages, found 3") !=
          std::string::npos);
    CHECK(with(8, 4, "split: [1, 2, 3, 4]").find("sum to 10, and the model has 8") !=
          std::string::npos);
    CHECK(with(8, 4, "schedule: 2f2b").find("1f1b") != std::string::npos);
  }

  TEST_CASE("policies that decide the same, or for one rank alone, are refused with both names") {
    const auto with = [](const std::string& other) {
      return refused(small_gpt(8, 4, 4, "{pipeline: {size: 4}}, {" + other + "}"));
    };
    const std::string order = with("revolve: {checkpoints: 2}");
    CHECK(order.find("'revolve' and 'pipeline'") != std::string::npos);
    const std::string evicts = with("eviction: {heuristic: lru}");
    CHECK(evicts.find("'eviction'") != std::string::npos);
    CHECK(evicts.find("'pipeline'") != std::string::npos);
  }

  TEST_CASE("a table is a schedule; one that cannot run says who waits for whom") {
    const ScenarioFolder folder("pipeline_table");
    const std::string good = folder.write("good.csv", "rank,order\n0,F0 F1 B0 B1\n1,F0 B0 F1 B1\n");
    const auto text = [&](const std::string& file) {
      return small_gpt(4, 2, 2,
                       fmt::format("pipeline: {{size: 2, schedule: {{table: {}}}}}", file));
    };
    const PointResult table = simulated(text(good));
    // As csv modules that quote every field write it.
    const std::string quoted =
        folder.write("quoted.csv",
                     "\"rank\",\"note\",\"order\"\r\n\"0\",\"first, \"\"warm\"\"\",\"F0 F1 B0 "
                     "B1\"\r\n\"1\",,\"F0 B0 F1 B1\"\r\n");
    CHECK(simulated(text(quoted)).stages[1].order == "F0 B0 F1 B1");
    const PointResult known = simulated(small_gpt(4, 2, 2, "pipeline: {size: 2}"));
    REQUIRE(table.stages.size() == 2);
    CHECK(table.stages[1].order == "F0 B0 F1 B1");
    CHECK(table.run.step == known.run.step);
    CHECK(table.run.live.bytes == known.run.live.bytes);

    // Two chunks on each of two ranks: rank 0 wants its second chunk's forward before it has sent
    // the first chunk's to rank 1.
    const std::string circle =
        folder.write("circle.csv", "rank,order\n0,F0.1 F0.0 B0.1 B0.0\n1,F0.0 F0.1 B0.1 B0.0\n");
    const PointResult stuck = simulated(
        small_gpt(4, 2, 1, fmt::format("pipeline: {{size: 2, schedule: {{table: {}}}}}", circle)));
    CHECK(stuck.status == PointStatus::kInfeasible);
    REQUIRE(stuck.failure);
    CHECK(stuck.failure->reason.find("rank 0 waits") != std::string::npos);
    CHECK(stuck.failure->reason.find("for rank 1") != std::string::npos);

    const std::string wrong = folder.write("wrong.csv", "rank,order\n0,F0 B0\n1,F0 F0 B0\n");
    CHECK(refused(text(wrong)).find("wrong.csv:3:1: rank 1 runs micro-batch 0 of chunk 0 out of") !=
          std::string::npos);
    const std::string mixed = folder.write("mixed.csv", "rank,order\n0,F0 B0 W0\n1,F0 B0\n");
    CHECK(
        refused(text(mixed)).find("takes the weight gradients with its backwards, unlike rank 0") !=
        std::string::npos);
  }

  TEST_CASE("a stage that runs out of memory is named, and the document comes back whole") {
    std::string text = small_gpt(8, 2, 4, "pipeline: {size: 2, split: [1, 7]}");
    text.replace(text.find("gpu: h100-sxm-80gb"), 18, "gpu: h100-sxm-80gb, hbm: {capacity: 12MiB}");
    text.back() = ',';
    text += " allocator: ideal}";
    const PointResult point = simulated(text);
    CHECK(point.status == PointStatus::kOutOfMemory);
    REQUIRE(point.failure);
    CHECK(point.failure->reason.rfind("stage ", 0) == 0);
    const nlohmann::ordered_json document = result_document(std::vector<PointResult>{point});
    const PointResult read = read_point(document.at("points").at(0));
    CHECK(result_document(std::vector<PointResult>{read}) == document);
    CHECK(document.at("points").at(0).at("ranks").size() == 2);
  }
}

TEST_SUITE("property") {
  TEST_CASE("random pipelines run their schedules, and what is sent is received") {
    std::mt19937 random(2023);
    const auto any = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    for (int trial = 0; trial < 24; ++trial) {
      const int p = any(2, 4);
      const auto order = static_cast<PipelineOrder>(any(0, 4));
      const bool two = order == PipelineOrder::kInterleaved || order == PipelineOrder::kZeroBubbleV;
      const int chunks = two ? 2 : 1;
      const int m = order == PipelineOrder::kInterleaved ? p * any(1, 2) : any(1, 6);
      // A chunk without a block may have no weights, and no part for their gradients.
      const bool apart =
          order == PipelineOrder::kZeroBubbleH1 || order == PipelineOrder::kZeroBubbleV;
      std::vector<int> split;
      for (int i = 0; i < p * chunks; ++i)
        split.push_back(any(i == 0 || apart ? 1 : 0, 2));
      const int layers = std::accumulate(split.begin(), split.end(), 0);
      const std::string extra = any(0, 2) == 0 ? ", {checkpoint_every: {period: 1}}" : "";
      const std::string text = small_gpt(
          layers, p, m,
          fmt::format("{{pipeline: {{size: {}, schedule: {}, split: [{}], deallocate_outputs: "
                      "{}}}}}{}",
                      p, name_of(order), fmt::join(split, ", "), any(0, 1) == 0, extra));
      std::string untied = text;
      untied.replace(untied.find("sequence: 32}"), 13, "sequence: 32, tie: false}");
      CAPTURE(untied);
      const Scenario scenario = scenario_of(untied);
      const TrainedModel model = build_training(scenario);
      const Compiled compiled = compile(scenario, model);
      REQUIRE(compiled.stages.size() == static_cast<std::size_t>(p));
      for (int r = 0; r < p; ++r) {
        const auto at = static_cast<std::size_t>(r);
        CHECK(order_run(*model.stages[at], compiled.stages[at]) ==
              order_text(pipeline_schedule(order, p, chunks, r, m, p), chunks > 1));
        for (const auto& [message, bytes] : messages_of(compiled.stages[at].program)) {
          const auto [peer, tag, sends] = message;
          const auto other = messages_of(compiled.stages[static_cast<std::size_t>(peer)].program);
          const auto match = other.find({r, tag, !sends});
          REQUIRE(match != other.end());
          CHECK(match->second == bytes);
        }
      }
      // With what it receives, and when, a stage runs alone as it does among the others.
      std::vector<Scratch> scratch(compiled.stages.size());
      const std::vector<RunResult> together =
          run_stages(scenario, compiled.stages, scratch, kUnlimited);
      for (std::size_t r = 0; r < together.size(); ++r) {
        Compiled own = compiled.stages[r];
        own.arrivals = arrivals_of(own.program, scratch[r]);
        Scratch alone;
        const RunResult result = run_compiled(scenario, own, alone, kUnlimited, true);
        CHECK(result.total == together[r].total);
        CHECK(result.step == together[r].step);
        CHECK(result.live.bytes == together[r].live.bytes);
        CHECK(result.reserved.bytes == together[r].reserved.bytes);
        CHECK((alone.finished == scratch[r].finished));
      }
      const PointResult point = simulate(scenario, model, compiled, {.smallest_capacity = false});
      CHECK(point.status == PointStatus::kFits);
      REQUIRE(point.stages.size() == static_cast<std::size_t>(p));
      for (const StageResult& stage : point.stages) {
        CHECK(stage.bubble >= 0);
        CHECK(stage.bubble <= 1);
        CHECK(stage.point.run.live.bytes.count > 0);
        CHECK(stage.point.device_used() <= point.device_used());
      }
    }
  }
}

}  // namespace tidemark::pipeline_policy_test
