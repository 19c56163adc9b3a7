// Lines of text: tables of measurements, buffers to pack, schedules, operators, journals of sweeps.
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "hwprofiles/measured/csv_table.hpp"
#include "hwprofiles/measured/measured_operators.hpp"
#include "policies/rewrite/pipeline_table.hpp"
#include "scenarios/measured/measured_steps.hpp"
#include "scenarios/measured/nsight_ranges.hpp"
#include "scenarios/studies/journal/journal_lines.hpp"
#include "scenarios/studies/journal/sweep_journal.hpp"
#include "scenarios/studies/operator_price.hpp"
#include "scenarios/studies/operator_text.hpp"
#include "scenarios/studies/simulate_point.hpp"
#include "sim/memory/packing/buffers_csv.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace tidemark::fuzz {
namespace table_targets_detail {
namespace {

void read_measured(const std::string& bytes) {
  const CsvTable table = parse_csv(bytes, "measured.csv");
  if (is_nsight_table(table)) {
    static_cast<void>(read_nsight_ranges(table, DType::kFloat16));
  } else if (is_step_table(table)) {
    static_cast<void>(read_measured_steps(table, {.models_folder = "/nowhere"}));
  } else {
    static_cast<void>(read_measured_operators(table));
  }
}

void read_buffers(const std::string& bytes) {
  static_cast<void>(parse_buffers(bytes, "buffers.csv"));
}

void read_schedule(const std::string& bytes) {
  static_cast<void>(read_pipeline_table(file_with(bytes, "schedule.csv"), 2, {}, "schedule"));
}

// Reads an operator and prices it.
void read_one_operator(const std::string& bytes) {
  static const DeviceProfile device =
      load_device_profile("a100-sxm-40gb", environment().profile_folders);
  static_cast<void>(price_operator(read_operator(bytes), device));
}

// A journal's lines have checksums, which no mutation meets: a line without one gets its own.
std::string with_checksums(std::string_view bytes) {
  std::string journal;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view line = bytes.substr(0, end);
    const bool checked =
        line.starts_with("{\"checksum\"") || line.size() < 3 || line.front() != '{';
    journal += checked ? std::string(line) + '\n' : checked_line(line);
    if (end == std::string_view::npos) break;
    bytes.remove_prefix(end + 1);
  }
  return journal;
}

// A sweep of two points.
const Value& swept() {
  static const Value document = parse_document(
      "model: {preset: mlp, widths: [8, 8]}\nhardware: a100-sxm-40gb\nsweep: {matrix: "
      "{training.micro_batch: [1, 2]}}\n",
      "journal.yaml");
  return document;
}

const SweepIdentity& sweep() {
  static const SweepIdentity identity = sweep_identity(swept(), environment(), {}, {});
  return identity;
}

// Reads a journal in the folder of its sweep, in which no other file is named as one.
void read_journal(const std::string& bytes) {
  const std::filesystem::path path(file_with(with_checksums(bytes), "points.jsonl"));
  const std::string folder = path.parent_path().string();
  static_cast<void>(journal_points(folder, sweep()));
  static_cast<void>(merge_journals(folder));
}

// The journal of the sweep, without its checksums.
std::string whole_journal() {
  const std::filesystem::path path(file_with("", "points.jsonl"));
  {
    SweepJournal journal(path.parent_path().string(), sweep(), {}, {});
    for (std::size_t i = 0; i < 2; ++i)
      journal.add(i, simulate_in_detail(swept(), i, environment(), {}).result);
  }
  std::string text = read_text_file(path.string());
  constexpr std::string_view checksum = "\"checksum\":\"0123456789abcdef\",";
  for (std::size_t at = 0; (at = text.find("\"checksum\":", at)) != std::string::npos;)
    text.erase(at, checksum.size());
  return text;
}

}  // namespace
}  // namespace table_targets_detail

std::vector<FuzzTarget> table_targets() {
  using namespace table_targets_detail;
  return {
      {.name = "measured",
       .texts =
           {"op,shape,dtype,device,seconds\nmatmul,64x64x64,fp16,a100,1e-5\n"
            "conv,\"8x3x32x32,16x3x3,1,1\",fp32,v100,2e-5\n"
            "attention_causal_backward,2x4x128x64,bf16,h100,3e-5\n",
            "model,img_size,batch,step_ms\nresnet50,224,256,360.5\n",
            "source,system,model,params,gpu_profile,gpus,precision,sequence,micro_batch,metric,"
            "value_si,usable_time,usable_memory\nx,megatron,gpt2,1e8,a100-sxm-80gb,1,fp16,1024,"
            "4,step_time,0.5,1,0\n"},
       .read = read_measured},
      {.name = "buffers",
       .texts = {"id,lower,upper,size\na,0,3,512\nb,2,5,1024\n",
                 "size,upper,lower,id,offset\n1,2,0,x,0\n"},
       .read = read_buffers},
      {.name = "schedule",
       .texts = {"rank,order\n0,F0 F1 B0 F2 B1 B2\n1,F0 B0 F1 B1 F2 B2\n",
                 "rank,order\n0,F0.0 F0.1 B0.1 W0.1 B0.0 W0.0\n1,F0.0 F0.1 B0.1 B0.0\n"},
       .read = read_schedule},
      {.name = "operator",
       .texts = {"linear 64x64x64 bf16 backward", "conv 2x64x56x56 128x3x3 stride=2 fp16",
                 "attention 8x32x2048x128 bf16 causal keys=77", "softmax 4096x4096",
                 "max_pool 32x64x56x56"},
       .read = read_one_operator},
      {.name = "journal", .texts = {whole_journal()}, .read = read_journal},
  };
}

}  // namespace tidemark::fuzz
