// Published runs on many GPUs as scenarios: the rules of each system and of its versions.
#include <cstdint>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hwprofiles/measured/csv_table.hpp"
#include "scenarios/measured/measured_steps.hpp"
#include "tests/cli/command_runner.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::parallel_runs_test {
namespace {

// What a row says beside a made-up step of a Llama of 4 layers on 8 GPUs.
struct Run {
  std::string source;
  std::string parallelism = "FSDP2 8";
  std::string precision = "bf16_fsdp";
  std::string recompute = "full";
  std::string other;
  int tensor = 1;
  int context = 1;
  std::string zero = "3";
  std::string metric = "peak_reserved";
  std::string optimizer = "adamw";
  std::int64_t gpus = 8;
  int data = 8;
  std::string profile = "h100-sxm-80gb";
  int group = 8;
  int pipeline = 1;
};

MeasuredSteps read(const Run& run) {
  const CsvTable table = parse_csv(
      fmt::format(
          "id,source,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,micro_batch,gpu,n_gpus,"
          "parallelism,precision,optimizer,other,gpu_profile,tp,pp,vpp,cp,ep,dp,sp,zero,"
          "zero_group,precision_norm,recompute_norm,optimizer_norm,accumulation,schedule,"
          "metric_norm,value_si,usable_memory,usable_time\n"
          "x,{},Llama-3-8B,4,256,4,4,512,1024,128,2,H100,{},{},{},AdamW,\"{}\",{},{},{},"
          "1,"
          "{},1,{},,{},{},{},{},{},{},,{},1e9,1,1\n",
          run.source, run.gpus, run.parallelism, run.precision, run.other, run.profile, run.tensor,
          run.pipeline, run.context, run.data, run.zero, run.group, run.precision, run.recompute,
          run.optimizer, run.pipeline > 1 ? 8 : 1, run.metric),
      "runs.csv");
  return read_measured_steps(table, {});
}

std::string scenario_of(const Run& run) {
  const MeasuredSteps steps = read(run);
  REQUIRE(steps.steps.size() == 1);
  return steps.steps.front().scenario;
}

bool says(const std::string& scenario, const char* words) {
  return scenario.find(words) != std::string::npos;
}

// Bytes at the peak of the optimizer's phase, when everything but what the loop holds is gone.
std::int64_t optimizer_peak(const char* held) {
  const testing::Workspace workspace;
  const testing::Outcome run = workspace.run(fmt::format(
      "run llama --gpu a100-sxm-80gb -s model.layers=1 -s model.vocab=2048 -s "
      "training.sequence=512 "
      "-s training.precision=bf16 -s training.optimizer.name=sgd -s training.hold_output={} --json",
      held));
  REQUIRE(run.code == 0);
  return nlohmann::json::parse(run.out)
      .at("points")[0]
      .at("memory")
      .at("phase_peaks")
      .at("optimizer")
      .get<std::int64_t>();
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("torchtitan kept its logits until June 2024, and one unit of embedding and head") {
    const std::string early = scenario_of({.source = "pytorch/torchtitan#165"});
    CHECK(says(early, "hold_output: fp32"));
    CHECK(says(early, "keep_gathered: [layers.3]"));
    CHECK(says(early, "implementation: foreach"));
    const std::string later = scenario_of({.source = "pytorch/torchtitan#481"});
    CHECK_FALSE(says(later, "hold_output"));
    CHECK(says(later, "keep_gathered: [layers.3]"));
    const std::string today =
        scenario_of({.source = "pytorch/torchtitan#1884", .other = "torch.compile", .context = 2});
    CHECK_FALSE(says(today, "hold_output"));
    CHECK(says(today, "units: [embed_tokens, blocks, [norm, lm_head]]"));
    CHECK(says(today, "implementation: fused"));
    CHECK(says(today, "compile: inductor"));
    CHECK(says(scenario_of({.source = "pytorch/torchtitan#165", .other = "torch.compile"}),
               "compile: regional"));
    CHECK(says(today, "context_parallel: {size: 2, kind: all_gather}"));
    CHECK(says(scenario_of({.source = "pytorch/torchtitan#165", .parallelism = "FSDP1 8"}),
               "fsdp: {version: 1, reshard_after_forward: true, param_dtype: bf16"));
  }

  TEST_CASE("atorch autocasts over fp32 units, and its pipelines have no sequence parallelism") {
    const std::string sharded = scenario_of({.source = "intelligent-machine-learning/dlrover@1",
                                             .parallelism = "FSDP1 per LlamaDecoderLayer",
                                             .precision = "bf16_autocast",
                                             .other = "LoRA r=16 on q,k"});
    CHECK(says(sharded, "precision: bf16_autocast"));
    CHECK_FALSE(says(sharded, "param_dtype"));
    CHECK(says(sharded, "lora: {rank: 16, targets: [q_proj, k_proj]}"));
    const std::string pipeline =
        scenario_of({.source = "intelligent-machine-learning/dlrover@1",
                     .parallelism = "DeepSpeed PipelineEngine TP2 PP1 DP4 ZeRO-1",
                     .precision = "fp16_mixed",
                     .tensor = 2,
                     .zero = "1"});
    CHECK(says(pipeline, "tensor_parallel: {size: 2, sequence: false}"));
    CHECK(says(pipeline, "zero: {stage: 1}"));
    CHECK(says(pipeline, "loss_scale: dynamic"));
    CHECK_FALSE(says(sharded, "loss_scale"));
    // Stage 1 is ZeRO wherever neither torchtitan nor Megatron names it otherwise.
    const std::string other =
        scenario_of({.source = "a", .parallelism = "DP8", .precision = "bf16_mixed", .zero = "1"});
    CHECK(says(other, "zero: {stage: 1}"));
    CHECK_FALSE(says(other, "fsdp"));
  }

  TEST_CASE("rows that cannot be said are counted by reason") {
    CHECK(read({.source = "a", .precision = "fp8_fsdp"}).other.count("precision fp8_fsdp") == 1);
    CHECK(read({.source = "a", .recompute = "modules"}).other.count("recomputation modules") == 1);
    CHECK(read({.source = "a", .metric = "mfu"}).other.count("metric mfu") == 1);
  }

  TEST_CASE("only torchtitan's own threads say its version") {
    const std::string kUnknown = "a version of torchtitan that is not stated";
    for (const char* source :
         {"NousResearch/torchtitan#19", "pytorch/ao#120", "pytorch/torchtitan#abc"}) {
      CAPTURE(source);
      CHECK(read({.source = source}).other.count(kUnknown) == 1);
    }
    // torchao's tables say which torchtitan they ran: a release of early 2025, or a commit.
    const auto of_torchao = [](const char* torchtitan) {
      return scenario_of(
          {.source = "pytorch/ao@36027d82d docs",
           .other = fmt::format("torch.compile; torch 2.7, torchtitan {}", torchtitan)});
    };
    const std::string release = of_torchao("0.0.2");
    CHECK(says(release, "keep_gathered: [layers.3]"));
    CHECK(says(release, "compile: regional"));
    CHECK(says(release, "implementation: fused"));
    CHECK_FALSE(says(release, "hold_output"));
    const std::string commit = of_torchao("2c8b59479");
    CHECK(says(commit, "units: [embed_tokens, blocks, [norm, lm_head]]"));
    CHECK(says(commit, "compile: inductor"));
    CHECK(says(commit, "implementation: fused"));
    // The document on performance is of the summer of 2024.
    const std::string document = scenario_of(
        {.source = "pytorch/torchtitan@1 docs/performance.md", .other = "torch.compile"});
    CHECK_FALSE(says(document, "hold_output"));
    CHECK(says(document, "compile: regional"));
    CHECK(says(document, "implementation: foreach"));
  }

  TEST_CASE("torchtitan's shards are of their group, and pipelines keep what is gathered") {
    const Run replicated{.source = "pytorch/torchtitan#1884", .gpus = 16, .data = 16, .group = 8};
    CHECK(says(scenario_of(replicated), "reduce_dtype: fp32, shard: 8, units:"));
    const Run whole{.source = "pytorch/torchtitan#1884", .gpus = 16, .data = 16, .group = 16};
    CHECK_FALSE(says(scenario_of(whole), "shard:"));
    for (const char* thread : {"#773", "#1884"}) {
      CAPTURE(thread);
      const Run pipelined{.source = std::string("pytorch/torchtitan") + thread,
                          .recompute = "none",
                          .data = 2,
                          .group = 2,
                          .pipeline = 4};
      const std::string scenario = scenario_of(pipelined);
      CHECK(says(scenario, "reshard_after_forward: false"));
      CHECK_FALSE(says(scenario, "keep_gathered"));
      // Its stages have units without an embedding or a head.
      Validation validation;
      validate_steps(read(pipelined), environment(), 1, validation);
      CHECK(validation.rows.size() == 1);
      CHECK(validation.other.empty());
    }
  }

  TEST_CASE("what a row denies or says of something else is not taken for said") {
    const auto with = [](const char* other) {
      return scenario_of({.source = "pytorch/torchtitan#382", .other = other});
    };
    for (const char* other : {"memory used by rank 0", "unused memory", "not fused", "non-fused",
                              "no fused AdamW", "without fused kernels", "fused: off"}) {
      CAPTURE(other);
      CHECK(says(with(other), "implementation: foreach"));
    }
    for (const char* other : {"fused AdamW", "Fused", "apex FusedAdam; no compile"}) {
      CAPTURE(other);
      CHECK(says(with(other), "implementation: fused"));
    }
    for (const char* other : {"no torch.compile", "not compiled", "torch.compile off", "eager"}) {
      CAPTURE(other);
      CHECK_FALSE(says(with(other), "compile:"));
    }
    for (const char* other : {"torch.compile", "Compiled, no dropout", "inductor"}) {
      CAPTURE(other);
      CHECK(says(with(other), "compile: regional"));
    }
  }

  TEST_CASE("adapters are named by letter or by module, and others are not guessed") {
    const auto with = [](const char* other) {
      return Run{.source = "x/dlrover@1", .precision = "bf16_autocast", .other = other};
    };
    CHECK(says(scenario_of(with("LoRA r=8 on q_proj,v_proj")),
               "lora: {rank: 8, targets: [q_proj, v_proj]}"));
    CHECK(
        says(scenario_of(with("LoRA r=8 on gate,down; eager")), "targets: [gate_proj, down_proj]"));
    CHECK(read(with("LoRA r=8 on all")).other.count("adapters on all") == 1);
    CHECK(read(with("LoRA r=8 on qkv")).other.count("adapters on qkv") == 1);
    CHECK(read(with("LoRA r=8 on q,")).other.count("adapters on ") == 1);
    for (const char* other : {"LoRA r=x on q,v", "LoRA r=0 on q", "LoRA r=8", "some lora"}) {
      CAPTURE(other);
      CHECK(read(with(other)).other.count("adapters that are not stated") == 1);
    }
  }

  TEST_CASE("each rule of torchtitan changes with its own pull request") {
    const auto at = [](int thread) {
      return scenario_of({.source = fmt::format("pytorch/torchtitan#{}", thread)});
    };
    const auto compiled = [](int thread) {
      return scenario_of(
          {.source = fmt::format("pytorch/torchtitan#{}", thread), .other = "torch.compile"});
    };
    // The loss was compiled for two months, and again since build_loss_fn.
    for (const int thread : {641, 755, 1032}) {
      CAPTURE(thread);
      CHECK(says(compiled(thread), "compile: regional"));
    }
    for (const int thread : {642, 754, 1033}) {
      CAPTURE(thread);
      CHECK(says(compiled(thread), "compile: inductor"));
    }
    CHECK(says(at(390), "hold_output: fp32"));
    CHECK_FALSE(says(at(391), "hold_output"));
    CHECK(says(at(880), "implementation: foreach"));
    CHECK(says(at(881), "implementation: fused"));
    CHECK(says(at(1093), "keep_gathered: [layers.3]"));
    CHECK(says(at(1094), "units: [embed_tokens, blocks, [norm, lm_head]]"));
  }

  TEST_CASE("counts of GPUs beyond what a scenario holds are refused, and quotes are kept") {
    CHECK_THROWS_AS(static_cast<void>(read({.source = "a", .gpus = 5'000'000'000})), UserError);
    const MeasuredSteps quoted =
        read({.source = "a", .precision = "bf16_mixed", .profile = "it's"});
    REQUIRE(quoted.steps.size() == 1);
    CHECK(says(quoted.steps.front().scenario, "gpu: 'it''s'"));
  }

  TEST_CASE("optimizers keep their names, and unknown ones are not guessed") {
    const auto with = [](const char* optimizer) {
      return Run{.source = "pytorch/torchtitan#382", .optimizer = optimizer};
    };
    CHECK(says(scenario_of(with("adam")), "optimizer: {name: adam, "));
    CHECK(says(scenario_of(with("adamw_8bit")), "optimizer: adamw_8bit"));
    CHECK(says(scenario_of(with("muon")), "optimizer: muon"));
    CHECK(says(scenario_of(with("momentum")), "optimizer: {name: sgd, momentum: 0.9}"));
    CHECK(read(with("unknown")).other.count("optimizer unknown") == 1);
    CHECK(read(with("momentous")).other.count("optimizer momentous") == 1);
  }

  TEST_CASE("shards that a row does not state are not left out silently") {
    const std::string kUnstated = "data parallelism whose shards are not stated";
    CHECK(read({.source = "a", .zero = "unknown"}).other.count(kUnstated) == 1);
    CHECK(read({.source = "a", .zero = ""}).other.count(kUnstated) == 1);
    const std::string kWithout = "bf16_fsdp without shards";
    CHECK(read({.source = "a", .zero = "0"}).other.count(kWithout) == 1);
    CHECK(read({.source = "a", .gpus = 1, .data = 1}).other.count(kWithout) == 1);
    CHECK(says(scenario_of({.source = "a", .precision = "bf16_mixed", .zero = "0"}),
               "policies: [checkpoint_every"));
  }

  TEST_CASE("memory, times and rates of all sources are summed up, apart by one GPU and several") {
    Validation validation;
    const auto add = [&](const Run& run, double factor, bool check = false) {
      MeasuredSteps steps = read(run);
      REQUIRE(steps.steps.size() == 1);
      if (check) steps.steps.front().metric = StepMetric::kFits;
      const std::size_t before = validation.rows.size();
      validate_steps(steps, environment(), 1, validation);
      REQUIRE(validation.rows.size() == before + 1);
      ValidatedRow& row = validation.rows.back();
      row.measured = row.predicted / factor;
    };
    add({.source = "a"}, 1.1);
    add({.source = "b", .metric = "peak_active"}, 0.7);
    add({.source = "c", .metric = "step_time"}, 1.2);
    add({.source = "d"}, 1, true);
    const std::vector<ValidatedGroup> overall = overall_groups_of(validation.rows);
    REQUIRE(overall.size() == 2);
    CHECK(overall[0].group == "memory on several GPUs");
    CHECK(overall[0].errors.n == 2);
    CHECK(overall[0].errors.mape == doctest::Approx(0.2));
    CHECK(overall[1].group == "time on several GPUs");
    CHECK(overall[1].errors.median == doctest::Approx(0.2));
  }

  TEST_CASE(
      "a loop that keeps the logits has them in the optimizer, in fp32 if the model upcasts") {
    constexpr std::int64_t kLogits = 512 * 2048;
    const std::int64_t none = optimizer_peak("false");
    CHECK(optimizer_peak("true") - none == 2 * kLogits);
    CHECK(optimizer_peak("fp32") - none == 4 * kLogits);
    const testing::Workspace workspace;
    const auto gpt_in = [&](const char* precision) {
      return workspace.run(
          fmt::format("run gpt --gpu a100-sxm-80gb -s model.layers=1 -s training.precision={} "
                      "-s training.hold_output=fp32 --json",
                      precision));
    };
    const testing::Outcome refused = gpt_in("bf16");
    CHECK(refused.code == 2);
    CHECK(refused.err.find("training.hold_output: fp32 is the copy that logits.float() makes, and "
                           "gpt makes none: its output is bf16; write true") != std::string::npos);
    CHECK(gpt_in("fp32").code == 0);
  }
}

}  // namespace tidemark::parallel_runs_test
