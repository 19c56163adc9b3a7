// Rows of published training steps as scenarios: what their families of models are.
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "hwprofiles/measured/csv_table.hpp"
#include "scenarios/measured/measured_steps.hpp"

namespace tidemark::published_steps_test {
namespace {

constexpr const char* kColumns =
    "source,model,gpu,n_gpus,gpu_profile,tp,pp,cp,ep,sp,zero,cpu_offload,precision_norm,"
    "recompute_norm,attention,compile,optimizer_norm,other,finetune,model_family,layers_n,hidden_n,"
    "heads_n,kv_heads_n,head_dim_n,ffn_n,vocab_n,seq_n,micro_batch_n,accumulation,metric_norm,"
    "value_si,usable_memory,usable_time\n";

std::string scenario_in(const std::string& row) {
  const MeasuredSteps read = read_measured_steps(parse_csv(kColumns + row, "steps.csv"), {});
  REQUIRE(read.steps.size() == 1);
  return read.steps.front().scenario;
}

// Returns the scenario of one row; a made-up step of 8 GPUs.
std::string scenario_of(const std::string& family, const std::string& precision) {
  return scenario_in("someone@1 table,a model,A100,8,a100-sxm-80gb,1,1,1,1,0,3,none," + precision +
                     ",none,flash,0,adamw,DALI; NHWC for AMP,pretrain," + family +
                     ",4,256,4,4,64,1024,512,128,2,1,tokens_per_second_per_gpu,1000,0,1\n");
}

// Returns the scenario of BERT's pre-training with sequences of a length.
std::string bert_of(const std::string& source, int length, const char* metric) {
  return scenario_in(source +
                     ",BERT,A100,1,a100-sxm-80gb,1,1,1,1,0,0,none,fp16_mixed,none,math,0,lamb,,"
                     "pretrain,bert,4,256,4,4,64,1024,512," +
                     std::to_string(length) + ",2,1," + metric + ",1000,1,1\n");
}

bool says(const std::string& scenario, const char* words) {
  return scenario.find(words) != std::string::npos;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("MPT is what llm-foundry trained: GELU in one kernel, no dropout, FlashAttention 1") {
    const std::string mpt = scenario_of("mpt", "bf16_fsdp");
    CHECK(says(mpt, "preset: gpt,"));
    CHECK(says(mpt, "dropout: 0,"));
    CHECK(says(mpt, "framework: torch-2.1-cuda"));
    CHECK(says(mpt, "fsdp: {version: 1, param_dtype: bf16, prefetch: post}"));
    const std::string gpt = scenario_of("gpt", "bf16_fsdp");
    CHECK(says(gpt, "preset: gpt,"));
    CHECK(says(gpt, "dropout: 0.1"));
    CHECK_FALSE(says(gpt, "framework"));
    CHECK(says(gpt, "fsdp: {version: 1, param_dtype: bf16}"));
    CHECK(says(scenario_of("llama", "bf16_fsdp"), "preset: llama-2-7b"));
    CHECK(says(scenario_of("stablelm", "bf16_fsdp"), "preset: stablelm-base-alpha-3b"));
    CHECK(says(scenario_of("phi3", "bf16_fsdp"), "preset: phi-3-mini"));
    // The layout of 16-bit steps only.
    CHECK(says(scenario_of("resnet50", "fp16_autocast"), "memory_format: channels_last"));
    CHECK_FALSE(says(scenario_of("resnet50", "tf32"), "memory_format"));
  }

  TEST_CASE(
      "litgpt's Llama has one projection, which its adapters fit, and a loop that keeps logits") {
    const std::string row =
        ",Llama,A100,1,a100-sxm-80gb,1,1,1,1,0,0,none,bf16,none,flash,0,adamw,,"
        "pretrain,llama,4,256,4,4,64,1024,512,128,2,1,peak_allocated,1000,1,1\n";
    const std::string litgpt = scenario_in("Lightning-AI/litgpt@1 table" + row);
    CHECK(says(litgpt, "preset: litgpt"));
    CHECK(says(litgpt, "hold_output: true, hold_output_until: next_output"));
    // Its scripts of 2023 took the longest sample first.
    CHECK_FALSE(says(scenario_in("Lightning-AI/litgpt@1 tutorials/resource-tables.md" + row),
                     "hold_output_until"));
    const std::string other = scenario_in("someone@1 table" + row);
    CHECK(says(other, "preset: llama-2-7b"));
    CHECK_FALSE(says(other, "hold_output"));
  }

  TEST_CASE("litgpt's bases are of bitsandbytes 0.42, head and all, and its loop reduces last") {
    const auto row = [](const char* gpus, const char* zero, const char* quantised,
                        const char* precision, const char* targets) {
      return std::string(
                 "source,model,gpu,n_gpus,gpu_profile,tp,pp,cp,ep,sp,zero,cpu_offload,"
                 "precision_norm,recompute_norm,attention,compile,optimizer_norm,other,finetune,"
                 "lora_rank,lora_targets,quantised,model_family,layers_n,hidden_n,heads_n,"
                 "kv_heads_n,head_dim_n,ffn_n,vocab_n,seq_n,micro_batch_n,accumulation,"
                 "metric_norm,value_si,usable_memory,usable_time\n"
                 "Lightning-AI/litgpt@1 table,Llama,A100,") +
             gpus + ",a100-sxm-80gb,1,1,1,1,0," + zero + ",none," + precision +
             ",none,flash,0,adamw,,lora,8," + targets + "," + quantised +
             ",llama,4,256,4,4,64,1024,512,128,2,16,peak_allocated,1000,1,1\n";
    };
    const auto said = [](const std::string& table) {
      const MeasuredSteps read = read_measured_steps(parse_csv(table, "steps.csv"), {});
      REQUIRE(read.steps.size() == 1);
      return read.steps.front().scenario;
    };
    const std::string quantised = said(row("1", "0", "nf4_dq", "nf4_lora", "q+v"));
    CHECK(says(quantised,
               "lora: {rank: 8, targets: [qkv], parts: [q, v], dtype: bf16, dropout: 0.05, base: "
               "nf4_dq, implementation: bitsandbytes-0.42, quantise_head: true}"));
    CHECK(says(quantised, "precision: bf16,"));
    CHECK(says(quantised, "chunked_loss: {kind: kept_fp32, chunks: 1}"));
    const std::string sharded = said(row("2", "3", "none", "bf16", "q+k+v+o+mlp+head"));
    CHECK(says(sharded,
               "targets: [qkv, attn.proj, fc_1, fc_2, mlp.proj, lm_head], parts: [q, k, v]"));
    CHECK(says(sharded, "fsdp: {version: 1, no_sync: true}"));
  }

  TEST_CASE("what a row does not say of recomputation is not taken for none") {
    const MeasuredSteps read = read_measured_steps(
        parse_csv(std::string(kColumns) +
                      "someone@1 table,a model,A100,8,a100-sxm-80gb,1,1,1,1,0,3,none,bf16_fsdp,"
                      "unknown,flash,0,adamw,,pretrain,llama,4,256,4,4,64,1024,512,128,2,1,"
                      "tokens_per_second_per_gpu,1000,0,1\n",
                  "steps.csv"),
        {});
    CHECK(read.steps.empty());
    CHECK(read.other.count("recomputation unknown") == 1);
  }

  TEST_CASE("NVIDIA reads BERT's long sequences from bins, so that a batch is half as long") {
    const std::string nvidia = "NVIDIA/DeepLearningExamples@1 BERT";
    CHECK(says(bert_of(nvidia, 512, "samples_per_second_per_gpu"), "sequence: 288"));
    CHECK(says(bert_of(nvidia, 128, "samples_per_second_per_gpu"), "sequence: 128"));
    CHECK(says(bert_of(nvidia, 512, "peak_allocated"), "sequence: 512"));
    CHECK(says(bert_of("someone@1", 512, "samples_per_second_per_gpu"), "sequence: 512"));
  }

  TEST_CASE("a rate of flops counts what is recomputed where its row says so") {
    const std::string row =
        "source,model,gpu,n_gpus,gpu_profile,tp,pp,cp,ep,sp,zero,cpu_offload,precision_norm,"
        "recompute_norm,attention,compile,optimizer_norm,other,finetune,model_family,layers_n,"
        "hidden_n,heads_n,kv_heads_n,head_dim_n,ffn_n,vocab_n,seq_n,micro_batch_n,accumulation,"
        "metric_norm,flops_kind,value_si,usable_memory,usable_time\n"
        "a@1,a "
        "model,A100,1,a100-sxm-80gb,1,1,1,1,0,0,none,fp16_mixed,full,math,0,adam,,pretrain,gpt,"
        "4,256,4,4,64,1024,512,128,2,1,tflops_per_gpu,";
    for (const auto& [kind, metric] : {std::pair("hardware", StepMetric::kHardwareFlopsPerGpu),
                                       std::pair("model", StepMetric::kFlopsPerGpu)}) {
      const MeasuredSteps read =
          read_measured_steps(parse_csv(row + kind + ",1e14,0,1\n", "steps.csv"), {});
      REQUIRE(read.steps.size() == 1);
      CHECK(read.steps.front().metric == metric);
    }
  }
}

}  // namespace tidemark::published_steps_test
