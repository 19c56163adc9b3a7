#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "hwprofiles/measured/csv_table.hpp"
#include "scenarios/measured/published_rows.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::adapter_runs_test {
namespace {

constexpr const char* kHeader =
    "id,source,model,gpu,n_gpus,method,rank,targets,quantised,precision,optimizer,"
    "optimizer_in_backward,micro_batch,seq,accumulation,recompute,offload,compile,loss,"
    "trainable_params,other,metric,value,unit,value_si,value_kind,notes\n";

// The figures are made up.
MeasuredSteps read(const std::string& rows) {
  return read_measured_steps(parse_csv(kHeader + rows, "runs.csv"), {});
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("adapters of torchtune have the model's type and torchao's 4-bit weights") {
    const MeasuredSteps read_rows = read(
        "1,pytorch/torchtune@1 README.md,Llama-3.2-3B,a100 (memory not stated),1,qlora,64,"
        "\"q,v,o,mlp\",nf4_dq,bf16,adamw,0,2,4096,1,full,activations,1,eight_chunks,,packed,"
        "peak_active,5,GiB,5e9,rounded,\n");
    REQUIRE(read_rows.steps.size() == 1);
    const MeasuredStep& step = read_rows.steps.front();
    CHECK(step.metric == StepMetric::kPeakActive);
    CHECK(step.value == doctest::Approx(5e9));
    CHECK(step.group == "pytorch/torchtune qlora");
    CHECK(step.scenario.find("{rank: 64, targets: [q_proj, v_proj, o_proj, gate_proj, up_proj, "
                             "down_proj], dtype: bf16, base: nf4, implementation: torchao}") !=
          std::string::npos);
    CHECK(step.scenario.find("offload_activations") != std::string::npos);
    CHECK(step.scenario.find("gpu: 'a100-sxm-80gb'") != std::string::npos);
    Validation validation;
    validate_steps(read_rows, environment(), 1, validation);
    REQUIRE(validation.rows.size() == 1);
    CHECK(validation.rows.front().predicted > 3e9);
  }

  TEST_CASE("the Trainer's guide ran its own optimizers, and PyTorch's context of that time") {
    const MeasuredSteps read_rows = read(
        "1,huggingface/transformers@1 perf_train_gpu_one.mdx,bert-large-uncased sequence "
        "classification,v100-sxm-16gb,1,full,,,,fp16_autocast,adafactor,,1,512,4,full,,0,,,,"
        "samples_per_s,9,samples/s,9,measured,\n");
    REQUIRE(read_rows.steps.size() == 1);
    const MeasuredStep& step = read_rows.steps.front();
    CHECK(step.metric == StepMetric::kSamplesPerSecondPerGpu);
    for (const char* part :
         {"{name: adafactor, implementation: transformers}", "accumulate: 4", "attention: math",
          "framework: torch-1.13-cuda", "loss_scale: dynamic", "checkpoint_every"}) {
      CAPTURE(part);
      CHECK(step.scenario.find(part) != std::string::npos);
    }
  }

  TEST_CASE("rows that do not say their step are counted with the reason") {
    const std::string torchtune = "1,pytorch/torchtune@1 README.md,Llama-3.2-3B,a100-80gb,";
    const std::string packed = ",adamw,0,2,4096,1,full,,1,,,packed,peak_active,5,GiB,5e9,";
    const MeasuredSteps rows =
        read(torchtune +
             "1,full,,,,bf16,adamw,0,2,4096,1,none,,0,full,,,peak_active,5,GiB,5e9,"
             "rounded,\n" +
             torchtune + "2,full,,,,bf16" + packed + "rounded,\n" + torchtune + "1,full,,,,bf16" +
             packed + "estimate,\n" + torchtune + "1,vera,,,,bf16" + packed + "rounded,\n" +
             torchtune + "1,lora,8,\"q,x\",,bf16" + packed + "rounded,\n" + torchtune +
             "1,lora,8,q,int8,bf16" + packed + "rounded,\n");
    CHECK(rows.steps.empty());
    CHECK(rows.refused.empty());
    for (const char* reason : {"lengths that vary", "several GPUs", "estimates by rule of thumb",
                               "method vera", "adapters on q,x", "a base in int8"}) {
      CAPTURE(reason);
      CHECK(rows.other.count(reason) == 1);
    }
  }
}

}  // namespace tidemark::adapter_runs_test
