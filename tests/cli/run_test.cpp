#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "plots/report/html_report.hpp"
#include "tests/cli/command_runner.hpp"
#include "tidemark/version.hpp"

namespace tidemark::testing::run_test {
namespace {

using Json = nlohmann::json;

constexpr const char* kFits = R"(version: 1
name: small
model: mlp
hardware: v100-sxm-16gb
training: {micro_batch: 4}
)";
// 1.56 B parameters with 16 bytes each: 23.2 GiB before the first activation.
constexpr const char* kTooLarge = R"(version: 1
model: gpt2-xl
hardware: v100-sxm-16gb
training: {sequence: 128}
)";
constexpr const char* kSweep = R"(version: 1
name: sweep
model: {preset: gpt2, layers: 2}
hardware: v100-sxm-16gb
training: {sequence: 64}
sweep:
  matrix:
    training.micro_batch: [1, 2]
    policies: [[], [checkpoint_every: {period: 1}]]
)";

void check_keys(const Json& object, const std::vector<std::string>& keys) {
  REQUIRE(object.is_object());
  for (const std::string& key : keys) {
    INFO(key);
    CHECK(object.contains(key));
  }
}

// Checks every field that the interface promises, with its kind of number.
void check_point(const Json& point) {
  check_keys(point, {"name", "overrides", "status", "model", "memory", "time", "throughput",
                     "policies", "failure"});
  check_keys(point, {"convergence"});
  check_keys(point["convergence"], {"steady_from", "fails_in"});
  CHECK(point["convergence"]["fails_in"] ==
        point["memory"]["allocator"]["convergence"]["fails_in"]);
  CHECK(point["convergence"]["steady_from"] == point["memory"]["allocator"]["convergence"]["step"]);
  const double step = point["time"]["step"].get<double>();
  const double samples = point["throughput"]["samples_per_step"].get<double>();
  CHECK(point["time"]["per_sample"].get<double>() == doctest::Approx(step / samples));
  const double tokens = point["throughput"]["tokens_per_step"].get<double>();
  if (tokens > 0) CHECK(point["time"]["per_token"].get<double>() == doctest::Approx(step / tokens));
  if (tokens == 0) CHECK(point["time"]["per_token"].is_null());
  check_keys(point["model"], {"parameters", "trainable_parameters", "operators", "tensors",
                              "forward_flops", "step_flops"});
  const Json& memory = point["memory"];
  for (const char* key :
       {"capacity", "parameters", "gradients", "optimizer_state", "buffers", "inputs",
        "saved_activations", "peak_live", "peak_allocated", "peak_reserved", "device_used",
        "smallest_capacity", "peak_without_workspace"}) {
    INFO(key);
    CHECK(memory[key].is_number_integer());
  }
  check_keys(memory["peak"], {"step", "phase", "operator", "time", "by_role", "largest"});
  check_keys(memory["peak"]["by_role"],
             {"parameter", "gradient", "optimizer_state", "saved_activation", "temporary",
              "workspace", "buffer", "input"});
  std::int64_t sum = 0;
  for (const Json& bytes : memory["peak"]["by_role"])
    sum += bytes.get<std::int64_t>();
  CHECK(sum == memory["peak_live"].get<std::int64_t>());
  check_keys(memory["peak"]["largest"].at(0), {"tensor", "bytes", "role", "operator", "layer"});
  check_keys(memory["phase_peaks"], {"forward", "backward", "optimizer"});
  const Json& allocator = memory["allocator"];
  check_keys(allocator, {"kind", "retries", "ooms", "segments", "fragmentation", "convergence"});
  check_keys(allocator["convergence"], {"step", "steps", "fails_in", "peak_reserved"});
  std::int64_t beyond_live = 0;
  for (const char* term : {"rounding", "pending_events", "inactive_splits", "free_segments"})
    beyond_live += allocator["fragmentation"].at(term).get<std::int64_t>();
  CHECK(allocator["fragmentation"]["reserved"] == memory["peak_reserved"]);
  CHECK(beyond_live == memory["peak_reserved"].get<std::int64_t>() -
                           allocator["fragmentation"]["live"].get<std::int64_t>());
  check_keys(memory["host"], {"peak", "capacity"});
  check_keys(point["time"], {"step", "forward", "backward", "optimizer", "recompute",
                             "exposed_transfer", "exposed_communication", "host_bound", "streams"});
  check_keys(point["time"]["streams"]["compute"], {"busy"});
  check_keys(point["throughput"],
             {"samples_per_second", "tokens_per_second", "model_flops_utilization"});
  for (const Json& policy : point["policies"]) {
    check_keys(policy, {"name", "decided", "contested", "recomputed_operators", "offloaded_bytes"});
  }
}

TEST_SUITE("golden") {
  TEST_CASE("run exits 0 where the scenario fits and shows summary and chart") {
    const Workspace w;
    w.write("s.yaml", kFits);
    const Outcome o = w.run("run s.yaml");
    CHECK(o.code == 0);
    CHECK(o.err.empty());
    CHECK(contains(o.out, "small: fits"));
    CHECK(contains(o.out, "device memory"));
    CHECK(contains(o.out, "▼"));
    CHECK_FALSE(contains(w.run("run s.yaml --no-chart").out, "▼"));
  }

  TEST_CASE("run --json prints one document with every field of the interface and nothing else") {
    const Workspace w;
    w.write("s.yaml", kFits);
    const Outcome o = w.run("run s.yaml --json");
    CHECK(o.code == 0);
    const Json document = Json::parse(o.out);
    CHECK(document["tidemark"] == "0.1.0");
    REQUIRE(document["points"].size() == 1);
    check_point(document["points"][0]);
    CHECK(document["points"][0]["status"] == "fits");
    CHECK(document["points"][0]["failure"].is_null());
    CHECK_FALSE(contains(o.out, w.folder().string()));
    CHECK(w.run("run s.yaml --json").out == o.out);
  }

  TEST_CASE("the head of a report counts the whole model's parameters") {
    const Workspace w;
    const auto head = [&](const std::string& policies) {
      w.write("s.yaml",
              "model: {preset: llama, layers: 2, width: 64, heads: 4, ffn: 128, vocab: 512}\n"
              "hardware: {gpu: h100-sxm-80gb, count: 2}\ntraining: {sequence: 32}\npolicies: [" +
                  policies + "]\n");
      return w.run("run s.yaml").out;
    };
    CHECK(contains(head("tensor_parallel: {size: 2}"), "parameters; h100-sxm-80gb x 2"));
    CHECK(contains(head("fsdp: {}"), "parameters; h100-sxm-80gb x 2;"));
    // Consumer cards share a host unless the scenario says otherwise; links follow the profile.
    const auto cards = [&](const std::string& more) {
      return w.run("run s.yaml -s policies=[] -s hardware.gpu=rtx-4090-24gb " + more);
    };
    CHECK(contains(cards("").out, "rtx-4090-24gb x 2;"));
    CHECK(contains(cards("-s hardware.node=1").out, "rtx-4090-24gb x 2 on 2 hosts;"));
    const auto step = [&](const std::string& more) {
      const Outcome run = cards("--json " + more);
      REQUIRE(run.code == 0);
      return nlohmann::json::parse(run.out)["points"][0]["communication"].dump();
    };
    const std::string bandwidth = "-s hardware.links.collective.bandwidth=";
    CHECK(step(bandwidth + "2GB/s") != step(bandwidth + "20GB/s"));
  }

  TEST_CASE("run exits 1 where the scenario does not fit and says what would help") {
    const Workspace w;
    w.write("s.yaml", kTooLarge);
    const Outcome text = w.run("run s.yaml");
    CHECK(text.code == 1);
    CHECK(contains(text.out, "does not fit"));
    CHECK(contains(text.out, "out of device memory in step 0"));
    CHECK(contains(text.out, "Parameters, gradients and optimizer state alone take"));
    CHECK(contains(text.out, "a larger GPU: rtx-5090-32gb, v100-pcie-32gb, "));
    const Outcome o = w.run("run s.yaml --json");
    CHECK(o.code == 1);
    const Json point = Json::parse(o.out)["points"][0];
    check_point(point);
    CHECK(point["status"] == "out_of_memory");
    check_keys(point["failure"],
               {"step", "phase", "operator", "layer", "requested", "retries", "message", "reason",
                "rounded", "segment", "device_free", "largest_free_block", "free_in_segments",
                "partly_free_segments", "suggestions", "tried"});
    // It is reported also where it does not fit: 2 bytes of each parameter.
    CHECK(point["memory"]["parameters"].get<std::int64_t>() ==
          2 * point["model"]["parameters"].get<std::int64_t>());
  }

  TEST_CASE("the help of run gives the exit codes that run has") {
    const Workspace w;
    w.write("s.yaml", kSweep);
    const std::string codes = "Exit codes: 0 a point fits; 1 none does; 2 bad input";
    CHECK(contains(w.run("run --help").out, codes));
    const auto code = [&](const std::string& batches) {
      return w.run("run s.yaml -s 'sweep={matrix: {training.micro_batch: [" + batches + "]}}'")
          .code;
    };
    CHECK(code("1, 100000") == 0);
    CHECK(code("100000, 200000") == 1);
    CHECK(code("1, none") == 2);
  }

  TEST_CASE("the mildest change that fits is reported for a sweep's points that do not fit") {
    const Workspace w;
    w.write("s.yaml", R"(version: 1
model: {preset: gpt2, layers: 2}
hardware: v100-sxm-16gb
training: {sequence: 1024}
sweep: {matrix: {training.micro_batch: [1, 64]}}
)");
    const Outcome o = w.run("run s.yaml");
    CHECK(o.code == 0);  // one that fits is an answer
    CHECK(w.run("run s.yaml -s 'sweep={matrix: {training.micro_batch: [64, 128]}}'").code == 1);
    CHECK(contains(o.out, "1 of 2 fit"));
    CHECK(contains(o.out, "micro_batch 64 would fit with "));
    CHECK_FALSE(contains(o.out, "micro_batch 1 would fit"));
    const Json failure = Json::parse(w.run("run s.yaml --json").out)["points"][1]["failure"];
    REQUIRE_FALSE(failure["suggestions"].empty());
    CHECK(contains(o.out, failure["suggestions"][0]["change"].get<std::string>()));
  }

  TEST_CASE("run shows a sweep as a table and policies compactly") {
    const Workspace w;
    w.write("s.yaml", kSweep);
    const Outcome o = w.run("run s.yaml");
    CHECK(o.code == 0);
    CHECK(contains(o.out, "sweep: 4 points"));
    CHECK(contains(o.out, "micro_batch  policies"));
    CHECK(contains(o.out, "no policy"));
    CHECK(contains(o.out, "checkpoint_every(period 1)"));
    CHECK(contains(o.out, "4 of 4 fit"));
    CHECK(contains(o.out, "fastest: "));
    const Json points = Json::parse(w.run("run s.yaml --json -j 1").out)["points"];
    REQUIRE(points.size() == 4);
    CHECK(points[1]["overrides"]["training.micro_batch"] == 1);
    CHECK(points[2]["overrides"]["training.micro_batch"] == 2);
    CHECK(points[3]["overrides"]["policies"][0]["checkpoint_every"]["period"] == 1);
  }

  TEST_CASE("the threads of a run do not change its document") {
    const Workspace w;
    w.write("s.yaml", kSweep);
    CHECK(w.run("run s.yaml --json -j 1").out == w.run("run s.yaml --json -j 4").out);
  }

  TEST_CASE(
      "run -o writes results.json, results.csv, timeline.csv, the report and nothing temporary") {
    const Workspace w;
    w.write("s.yaml", kFits);
    const Outcome o = w.run("run s.yaml -o out/deep --json");
    CHECK(o.code == 0);
    CHECK(w.names("out/deep").size() == (has_html_report() ? 4 : 3));
    CHECK(w.read("out/deep/results.json") == o.out);
    CHECK(w.read("out/deep/results.csv").starts_with("name,status,capacity,device_used,peak_live"));
    CHECK(w.read("out/deep/timeline.csv").starts_with("time_ns,step,phase,operator,layer,tensor"));
  }

  TEST_CASE("a pipeline's run has a timeline for each stage, the largest of which is the run's") {
    const Workspace w;
    w.write("s.yaml",
            "model: {preset: gpt, layers: 6, width: 64, heads: 4, vocab: 256, sequence: 32}\n"
            "hardware: {gpu: h100-sxm-80gb, count: 3}\n"
            "training: {accumulate: 4}\n"
            "policies: [pipeline: {size: 3}]\n"
            "report: {formats: [csv]}\n");
    CHECK(w.run("run s.yaml -o out").code == 0);
    const std::string shown = w.read("out/timeline.csv");
    int same = 0;
    for (const char* stage : {"0", "1", "2"}) {
      const std::string own = w.read("out/timeline.stage-" + std::string(stage) + ".csv");
      CHECK(own.starts_with("time_ns,step,phase,operator,layer,tensor"));
      CHECK(std::count(own.begin(), own.end(), '\n') > 50);
      same += own == shown ? 1 : 0;
    }
    CHECK(same == 1);
    CHECK_FALSE(w.exists("out/timeline.stage-3.csv"));
    // What more GPUs would share is said of several GPUs only.
    CHECK(contains(w.run("explain s.yaml").out, "On twice the GPUs (6)"));
    CHECK_FALSE(contains(w.run("explain gpt2 --gpu h100-sxm-80gb").out, "On twice the GPUs"));
  }

  TEST_CASE("a report replaces the files of the last one in its folder, and names its own") {
    const Workspace w;
    w.write("s.yaml", kFits);
    const Outcome first = w.run("run s.yaml -o out --json -s 'report={formats: [json, csv, svg]}'");
    w.write("out/mine.txt", "kept");
    CHECK(first.err.starts_with("tidemark: wrote out/results.json, out/results.csv, "));
    CHECK(w.exists("out/timeline.svg"));
    const Outcome second = w.run("run s.yaml -o out --json -s 'report={formats: [json]}'");
    CHECK(second.err == "tidemark: wrote out/results.json\n");
    CHECK(w.names("out") == std::vector<std::string>{"mine.txt", "results.json"});
    // A list that was changed by hand does not reach beyond the folder.
    w.write("out/.tidemark-files", "../s.yaml\n..\nmine.txt/\n");
    CHECK(w.run("run s.yaml -o out --json -s 'report={formats: [json]}'").code == 0);
    CHECK(w.exists("s.yaml"));
    CHECK(w.exists("out/mine.txt"));
  }

  TEST_CASE("pictures are there as SVG, PDF and data, and say how to make them again") {
    const Workspace w;
    std::filesystem::create_directory(w.folder() / "deep");
    w.write("deep/s.yaml", kFits);
    const std::string command =
        "run deep/s.yaml -s 'report={formats: [svg]}' -s 'training.micro_batch=1' --no-chart -o ";
    REQUIRE(w.run(command + "out").code == 0);
    CHECK(w.names("out") == std::vector<std::string>{"addresses.pdf", "addresses.svg",
                                                     "addresses.svg.csv", "timeline.pdf",
                                                     "timeline.svg", "timeline.svg.csv"});
    // An allocator that only counts bytes has no addresses.
    REQUIRE(w.run(command + "counted -s allocator=ideal").code == 0);
    CHECK(w.names("counted").size() == 3);
    // Without folders, and without where the picture went.
    const std::string line = "reproduce (tidemark " + std::string(kVersion) +
                             "): tidemark run s.yaml -s 'report={formats: [svg]}' -s "
                             "training.micro_batch=1";
    CHECK(contains(w.read("out/timeline.svg"), ">" + line + "<"));
    CHECK(contains(w.read("out/timeline.pdf"), "training.micro_batch=1"));
    REQUIRE(w.run(command + "again").code == 0);
    CHECK(w.read("again/timeline.pdf") == w.read("out/timeline.pdf"));
    CHECK(w.read("out/timeline.svg.csv").starts_with("begin_ns,time_ns,phase,live_bytes,"));
  }

  TEST_CASE("run and explain say where the time of a step goes") {
    const Workspace w;
    w.write("s.yaml", kFits);
    const Outcome run = w.run("run s.yaml --no-chart");
    REQUIRE(run.code == 0);
    CHECK(contains(run.out, "\n  kernels        "));
    CHECK(contains(run.out, "\n  layers         "));
    const Outcome told = w.run("explain s.yaml");
    CHECK(contains(told.out, "\nTime by kind of kernel, in the last step\n"));
    CHECK(contains(told.out, "\nTime by layer, those that repeat together\n"));
    CHECK(contains(told.out, "\n  loss  "));
    CHECK(contains(told.out, "\n  optimizer  "));
    const auto terms =
        nlohmann::json::parse(w.run("explain s.yaml --json").out)["points"][0]["time_terms"];
    double sum = 0;
    for (const auto& term : terms["operators"]) {
      for (const char* phase : {"forward", "backward", "optimizer", "recompute"})
        sum += term[phase].get<double>();
    }
    const auto time = nlohmann::json::parse(w.run("run s.yaml --json").out)["points"][0]["time"];
    CHECK(sum == doctest::Approx(time["streams"]["compute"]["busy"].get<double>()));
  }

  TEST_CASE("policies that rewrite the model are not said to have changed nothing") {
    const Workspace w;
    w.write("s.yaml",
            "model: {preset: gpt2, layers: 1}\nhardware: v100-sxm-16gb\n"
            "training: {sequence: 64}\n");
    const auto line = [&](const std::string& options) {
      const std::string out = w.run("run s.yaml " + options).out;
      const std::size_t begin = out.find("  policies ");
      return begin == std::string::npos ? "" : out.substr(begin, out.find('\n', begin) - begin);
    };
    CHECK(contains(line("-s 'policies=[{lora: {rank: 4, targets: [c_attn]}}]'"),
                   "lora: in the model that is simulated"));
    CHECK(contains(line("-s 'policies=[zero]' -s training.mode=forward"), "zero: changed nothing"));
    // A collective names the ranks that take part.
    CHECK(contains(w.run("run s.yaml -s hardware.count=2").out, "over 2 data ranks: "));
  }

  TEST_CASE("a loader's batches are host memory, in its role and against the host's capacity") {
    const Workspace w;
    w.write("s.yaml",
            "model: {preset: gpt2, layers: 1}\nhardware: h100-sxm-80gb\ntraining: {micro_batch: 8, "
            "sequence: 1024, loader: {workers: 4, prefetch_factor: 2, pin_memory: true}}\n");
    const Json point = Json::parse(w.run("run s.yaml --json").out)["points"][0];
    // A batch is 8 x 1024 tokens and as many labels of 8 bytes: 131,072. Workers keep 2 x 4 of them
    // in shared memory, and as many page-locked, with the one that the loop is at.
    const std::int64_t batch = 8 * 1024 * 8 * 2;
    CHECK(point["memory"]["host"]["by_role"]["loader"] == (8 + 9) * batch);
    CHECK(point["memory"]["host"]["peak"] == (8 + 9) * batch);
    CHECK(contains(w.run("run s.yaml").out, "host memory    2.13 MiB of 256 GiB, 2.13 MiB of it"));
    // Four workers of 100 GiB do not fit into 256 GiB.
    const Outcome full = w.run("run s.yaml -s training.loader.worker_memory=100GiB");
    CHECK(full.code == 1);
    CHECK(contains(full.out, "the data loader keeps 400 GiB of host memory"));
  }

  TEST_CASE("points that share a model have warnings of their own") {
    const Workspace workspace;
    // lora leaves the input of the first block without a gradient.
    workspace.write("s.yaml",
                    "model: {preset: gpt, layers: 2, width: 32, heads: 2, vocab: 64}\n"
                    "hardware: h100-sxm-80gb\ntraining: {sequence: 16}\nsweep:\n  include:\n"
                    "  - {hardware: tpu-v4-32gb, policies: [lora]}\n  - {policies: [lora]}\n"
                    "  - {policies: [lora, checkpoint_every: {reentrant: true}]}\n");
    const auto points =
        nlohmann::json::parse(workspace.run("sweep s.yaml -o o -j 1 --json").out).at("points");
    REQUIRE(points.size() == 3);
    const std::array<std::string, 3> expected{"roofline", "", "reentrant"};
    for (std::size_t i = 0; i < 3; ++i) {
      CAPTURE(i);
      const std::string warnings =
          points.at(i).contains("warnings") ? points.at(i).at("warnings").dump() : "";
      for (const char* word : {"roofline", "reentrant"})
        CHECK(contains(warnings, word) == (expected.at(i) == word));
    }
  }

  TEST_CASE("a report is drawn of a step that runs out of memory under eviction") {
    const Workspace workspace;
    workspace.write("s.yaml",
                    "model: {preset: gpt2, layers: 2}\n"
                    "hardware: {gpu: v100-sxm-16gb, hbm: {capacity: 700MiB}}\n"
                    "training: {sequence: 48, micro_batch: 5, optimizer: sgd, precision: "
                    "fp16_mixed}\npolicies: [eviction: {min_bytes: 1MiB}]\n");
    const Outcome outcome = workspace.run("run s.yaml -o out");
    CAPTURE(outcome.err);
    CHECK(outcome.code == 1);
    CHECK(workspace.exists("out/report.html"));
  }

  TEST_CASE("formats without a folder are not left out without a word") {
    const Workspace w;
    w.write("s.yaml", std::string(kFits) + "report: {formats: [svg]}\n");
    const Outcome o = w.run("run s.yaml --json");
    CHECK(o.code == 0);
    CHECK(o.err.find("report.formats lists svg, but there is no folder") != std::string::npos);
  }

  TEST_CASE("sweep writes a row per point and exits 0 where some do not fit") {
    const Workspace w;
    w.write("s.yaml", std::string(kTooLarge) + "sweep: {matrix: {training.micro_batch: [1, 2]}}\n");
    const Outcome o = w.run("sweep s.yaml -o out -j 2 --json");
    CHECK(o.code == 0);
    CHECK(w.read("out/results.json") == o.out);
    CHECK(w.read("out/results.csv").starts_with("name,training.micro_batch,status"));
    CHECK(w.run("run s.yaml").code == 1);
  }

  TEST_CASE("explain adds up to the total and lists tensors with the operators that made them") {
    const Workspace w;
    w.write("s.yaml", kFits);
    const Outcome o = w.run("explain s.yaml");
    CHECK(o.code == 0);
    CHECK(contains(o.out, "By role"));
    CHECK(contains(o.out, "By layer"));
    // What lies outside of every module says what it is, as in the report: the peak of a long
    // sequence is that of the loss.
    const std::string gpt2 = w.run("explain gpt2 --gpu h100 -s model.layers=1").out;
    CHECK(contains(gpt2.substr(gpt2.find("By layer"), 400), "\n  loss  "));
    CHECK_FALSE(contains(gpt2, "(no layer)"));
    CHECK(contains(o.out, "Largest tensors"));
    CHECK(contains(o.out, "there from the start"));
    CHECK(contains(o.out, "Saved for backward by one micro-batch, and what needs it"));
    CHECK(contains(o.out, "log_softmax.backward"));
    CHECK(contains(o.out, "On the device"));
    const Json peak =
        Json::parse(w.run("explain s.yaml --json").out)["points"][0]["memory"]["peak"];
    std::int64_t roles = 0;
    std::int64_t layers = 0;
    std::int64_t tensors = 0;
    for (const Json& bytes : peak["by_role"])
      roles += bytes.get<std::int64_t>();
    for (const Json& layer : peak["by_layer"])
      layers += layer["bytes"].get<std::int64_t>();
    for (const Json& tensor : peak["largest"])
      tensors += tensor["bytes"].get<std::int64_t>();
    CHECK(roles == layers);
    CHECK(roles == tensors);
    const Json memory = Json::parse(w.run("explain s.yaml --json").out)["points"][0]["memory"];
    std::int64_t saved = 0;
    for (const Json& tensor : memory["saved"]) {
      saved += tensor["bytes"].get<std::int64_t>();
      CHECK_FALSE(tensor["needed_by"].empty());
    }
    CHECK(memory["saved_activations"] == saved);
  }

  TEST_CASE("output that is not a terminal has no colour, with NO_COLOR or without") {
    const Workspace w;
    w.write("s.yaml", kFits);
    CHECK_FALSE(contains(w.run("run s.yaml").out, "\x1b"));
    CHECK_FALSE(contains(w.run("run s.yaml", "NO_COLOR=1").out, "\x1b"));
    CHECK_FALSE(contains(w.run("run missing.yaml").err, "\x1b"));
  }
}

}  // namespace
}  // namespace tidemark::testing::run_test
