#include "scenarios/measured/nsight_ranges.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command_runner.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::nsight_ranges_test {

using namespace tidemark::testing;

namespace {

// The report of nsys stats: a step, and operators of which linear launches nothing itself.
std::string report(const std::string& rows) {
  return "Name,Projected Start (ns),Projected Duration (ns),Orig Start (ns),Orig Duration "
         "(ns),Style,"
         "PID,TID,NumGPUOps,Lvl,NumChild,RangeId,ParentId,RangeStack\n"
         ":step,100,90000,1,95000,PushPop,7,7,9,0,3,1,,:1\n" +
         rows;
}

std::string range(const std::string& name, int nanoseconds, int children = 0) {
  return fmt::format("\":{}\",100,{},1,9000,PushPop,7,7,1,1,{},2,1,:1:2\n", name, nanoseconds,
                     children);
}

std::vector<std::string> rows_of(const std::string& rows, DType type) {
  const MeasuredTable table = read_nsight_ranges(parse_csv(report(rows), "r.csv"), type);
  std::vector<std::string> found;
  for (const MeasuredOperator& op : table.operators)
    found.push_back(fmt::format("{} | {} | {:.0f}", op.text, op.kind, op.seconds * 1e9));
  for (const auto& [reason, count] : table.other)
    found.push_back(fmt::format("{}: {}", reason, count));
  return found;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("ranges of Nsight Systems are operators, the innermost ones with the median") {
    const std::string addmm =
        "aten::addmm, seq = 12, op_id = 7, sizes = [[6], [8, 4], [4, 6], [], []], input_op_ids = "
        "[(1,0), (2,0)]";
    CHECK(
        rows_of(range("aten::linear, seq = 12, op_id = 6, sizes = [[8, 4], [6, 4], [6]]", 1300, 1) +
                    range(addmm, 1200) + range(addmm, 9000) + range(addmm, 1300) +
                    range("aten::_softmax, op_id = 8, sizes = [[4, 12, 64, 64], [], []]", 2000) +
                    range("aten::copy_, op_id = 8, sizes = [[4, 12], [4, 12], []]", 2000) +
                    range("aten::mul, op_id = 8, sizes = [[4, 12], []]", 200) +
                    range("aten::embedding, op_id = 9, sizes = [[100, 8], [4]]", 300) +
                    range("aten::cat, op_id = 9, sizes = [[[2, 3], [2, 3]], []]", 300) +
                    range("Optimizer.step#Adam.step", 300),
                DType::kFloat16) ==
        std::vector<std::string>{"copy 4x12 | copy fp16 | 200", "matmul 8x6x4 | matmul fp16 | 1300",
                                 "copies, which may be casts: 1", "operator 'aten::_softmax': 1",
                                 "operator 'aten::cat': 1", "operator 'aten::embedding': 1",
                                 "ranges of no operator: 1"});
    CHECK(rows_of(range("aten::mm, sizes = [[8, 4], [4, 6]]", 5), DType::kTf32) ==
          std::vector<std::string>{"matmul 8x6x4 | matmul tf32 | 5"});
    // Lists that are not closed, numbers that are none, rows that end early.
    CHECK(rows_of(range("aten::mm, sizes = [[8, 4], [4, 6]]", 5) +
                      range("aten::mm, sizes = [[8, 4], [4", 5) +
                      range("aten::mm, sizes = [[8, x], [4, 6]]", 5) + ":aten::mm,1\n",
                  DType::kFloat16) == std::vector<std::string>{"matmul 8x6x4 | matmul fp16 | 5",
                                                               "ranges of no operator: 2",
                                                               "rows with too few cells: 1"});
  }

  TEST_CASE("ranges whose duration is no time are refused with their line") {
    const std::string mm = "aten::mm, sizes = [[8, 4], [4, 6]]";
    const std::string broken = fmt::format("\":{}\",100,xx,1,9,PushPop,7,7,1,1,0,2,1,:1\n", mm);
    const MeasuredTable table = read_nsight_ranges(
        parse_csv(report(range(mm, 5) + broken + range(mm, 7)), "r.csv"), DType::kFloat16);
    CHECK(table.operators.size() == 1);
    CHECK(table.other.empty());
    REQUIRE(table.refused.size() == 1);
    CHECK(table.refused.front().line == 4);
    CHECK(table.refused.front().problem ==
          "Projected Duration (ns): expected a number above 0, found 'xx'");
    CHECK_THROWS_WITH_AS(
        static_cast<void>(read_nsight_ranges(parse_csv(report(range(mm, 5) + broken + broken), "r"),
                                             DType::kFloat16)),
        doctest::Contains("2 of 3 rows are wrong"), UserError);
  }

  TEST_CASE("a database that Nsight Systems exported is told what to export instead") {
    const Workspace workspace;
    workspace.write("step.sqlite", std::string("SQLite format 3\0\x10\0\1\1", 20));
    for (const char* command : {"validate step.sqlite --gpu a100-sxm-80gb",
                                "calibrate a100-sxm-80gb step.sqlite -o mine.yaml"}) {
      const Outcome refused = workspace.run(command);
      CAPTURE(refused.err);
      CHECK(refused.code == 2);
      CHECK(contains(refused.err, "SQLite"));
      CHECK(contains(refused.err, "nsys stats --report nvtx_gpu_proj_trace --format csv"));
    }
  }

  TEST_CASE("calibrate asks for the type of Nsight Systems' ranges, and for shapes") {
    const Workspace workspace;
    std::string rows;
    for (int i = 1; i <= 40; ++i) {
      rows += range(
          fmt::format("aten::mm, op_id = {0}, sizes = [[{1}, 4096], [4096, 4096]]", i, 1024 * i),
          300'000 * i);
    }
    workspace.write("step.csv", report(rows));
    const Outcome untyped = workspace.run("calibrate a100-sxm-80gb step.csv -o mine.yaml");
    CHECK(untyped.code == 2);
    CHECK(contains(untyped.err, "add --dtype fp16, bf16, tf32 or fp32"));
    CHECK(!workspace.exists("mine.yaml"));
    const std::string typed = "calibrate a100-sxm-80gb step.csv -o mine.yaml --dtype ";
    CHECK(contains(workspace.run(typed + "fp17").err, "fp16"));
    CHECK(workspace.run(typed + "bf16").code == 0);
    const Outcome held = workspace.run("validate step.csv --dtype bf16 --gpu ./mine.yaml --json");
    CAPTURE(held.err);
    REQUIRE(held.code == 0);
    CHECK(nlohmann::json::parse(held.out).at("groups").at(0).at("median").get<double>() < 0.1);
    CHECK(contains(workspace.run("validate step.csv --dtype bf16").out, "add --gpu NAME"));
    // What nsys writes before the table when its output goes to a file.
    workspace.write(
        "captured.csv",
        "Generating SQLite file step.sqlite from step.nsys-rep\nProcessing [step.sqlite] "
        "with [nvtx_gpu_proj_trace.py]... \n\n ** NVTX GPU Projection Trace "
        "(nvtx_gpu_proj_trace):\n\n" +
            report(rows));
    const Outcome captured =
        workspace.run("calibrate a100-sxm-80gb captured.csv -o captured.yaml --dtype bf16");
    CAPTURE(captured.err);
    CHECK(captured.code == 0);
    CHECK(contains(captured.out, "fitted to (rows of each class): matmul "));
    CHECK(contains(captured.out, " of 40\n"));
    // Reports of kernels and calls do not say operators.
    workspace.write("kernels.csv",
                    "Time (%),Total Time (ns),Instances,Avg (ns),Name\n70.0,700,10,70.0,sgemm\n");
    workspace.write("calls.csv", "Start (ns),Duration (ns),CorrId,Strm,Name\n1,7,10,7,sgemm\n");
    for (const char* file : {"kernels.csv", "calls.csv"}) {
      const Outcome other =
          workspace.run(fmt::format("calibrate a100-sxm-80gb {} -o o.yaml --dtype bf16", file));
      CHECK(other.code == 2);
      CHECK(contains(other.err, "--report nvtx_gpu_proj_trace"));
    }
    workspace.write("bare.csv", report(range("forward", 5)));
    CHECK(contains(workspace.run("validate bare.csv --dtype bf16 --gpu a100-sxm-80gb").err,
                   "emit_nvtx(record_shapes=True)"));
  }
}

}  // namespace tidemark::nsight_ranges_test
