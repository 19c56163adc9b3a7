// Every operator that was probed on PyTorch 1.13.1. The bytes that each keeps are written beside
// its probe; the allocations are read from reference/torch-op-rules.json, third-party figures that
// stay outside the repository: $TIDEMARK_SHARED, by default beside it.
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/graph/operators/operator_figures.hpp"
#include "tests/support/shared_data.hpp"

namespace tidemark::probe::torch_op_rules_test {
namespace {

std::vector<OperatorProbe> all_probes() {
  std::vector<OperatorProbe> all;
  for (const auto& some : {product_probes(), normalization_probes(), elementwise_probes(),
                           shape_probes(), loss_probes()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

nlohmann::json reference() {
  std::ifstream file(shared_path("reference/torch-op-rules.json"));
  return file ? nlohmann::json::parse(file) : nlohmann::json();
}

// Running statistics are arguments of torch's batch_norm; here another node updates them.
bool is_running_statistic(const std::string& name) {
  return name == "running_mean" || name == "running_var";
}

// Rows whose saved bytes agree and whose allocations do not.
const std::set<std::string> kForwardDiffers = {
    "linear_bf16",                 // oneDNN's bf16 products reorder operands in ways of their own
    "conv2d_channels_last",        // 8,192 bytes of oneDNN's that no operand explains
    "MultiheadAttention_weights",  // also returns the mean of the weights over heads
};
const std::set<std::string> kBackwardDiffers = {
    "linear_bf16",
    "conv3d",  // oneDNN's blocked gradient pads 8 channels to 16
    "stack",   // AccumulateGrad takes two views of one gradient; here each is copied
};

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("every probed operator keeps as many bytes as PyTorch does") {
    std::set<std::string_view> names;
    for (const OperatorProbe& probe : all_probes()) {
      CAPTURE(std::string(probe.name));
      CHECK(names.insert(probe.name).second);
      CHECK(measure(probe).saved == probe.saved);
    }
    CHECK(names.size() == 141);
  }

  TEST_CASE("saved sets and allocations of the probed operators are those of PyTorch 1.13.1") {
    const nlohmann::json rows = reference();
    if (rows.is_null()) {
      MESSAGE("reference/torch-op-rules.json is not there: skipped");
      return;
    }
    std::size_t found = 0;
    std::size_t forward = 0;
    std::size_t backward = 0;
    for (const OperatorProbe& probe : all_probes()) {
      const std::string name(probe.name);
      CAPTURE(name);
      REQUIRE(rows.contains(name));
      const nlohmann::json& row = rows[name];
      const OperatorFigures figures = measure(probe);
      ++found;
      CHECK(figures.saved == row["new_saved_bytes"].get<std::int64_t>());
      CHECK(figures.saves_output == row["saves_output"].get<bool>());
      std::set<std::string> inputs;
      for (const std::string input : row["saves_inputs"]) {
        if (!is_running_statistic(input)) inputs.insert(input);
      }
      CHECK(figures.saves_inputs == inputs);
      const bool same_forward = figures.forward_peak == row["fwd_peak_delta"].get<std::int64_t>() &&
                                figures.forward_end == row["fwd_end_delta"].get<std::int64_t>();
      const bool same_backward =
          figures.backward_peak == row["bwd_peak_delta"].get<std::int64_t>() &&
          figures.backward_end == row["bwd_end_delta"].get<std::int64_t>();
      forward += same_forward ? 1U : 0U;
      backward += same_backward ? 1U : 0U;
      CHECK(same_forward == (kForwardDiffers.count(name) == 0));
      CHECK(same_backward == (kBackwardDiffers.count(name) == 0));
    }
    CHECK(found == rows.size());
    MESSAGE("of " << found << " probes, forward peak and end agree for " << forward
                  << ", backward peak and end for " << backward);
  }
}

}  // namespace tidemark::probe::torch_op_rules_test
