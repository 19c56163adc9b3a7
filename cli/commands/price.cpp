#include "cli/commands/price.hpp"

#include <filesystem>
#include <iterator>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/text/json_text.hpp"
#include "cli/text/wording.hpp"
#include "graph/core/errors.hpp"
#include "graph/core/piped_files.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/studies/operator_price.hpp"

namespace tidemark {
namespace price_detail {
namespace {

constexpr const char* kHelp =
    R"(Operators, with sizes joined by x, a type (fp64, fp32, tf32, fp16, bf16, of products fp8) and options:
  linear, matmul, gemm MxNxK           rows M, outputs N, reduction K
  bmm, matmul, gemm BxMxNxK
  conv NxCxHxW OxRxS                   stride=1 padding=R/2 dilation=1 groups=1
  attention BATCHxHEADSxLENGTHxWIDTH   causal keys=LENGTH
  softmax, log_softmax, layer_norm, rms_norm SIZES        over the last axis
  batch_norm, max_pool NxCxHxW         kernel=2
  elementwise, add, mul, gelu, relu, silu, dropout, copy SIZES
`backward` adds the kernels of the backward pass. A table has a column `operator` with such texts.

Examples:
  tidemark price "linear 4096x4096x4096 bf16" --gpu h100
  tidemark price "conv 32x64x56x56 128x3x3 stride=2 fp16 backward" --gpu v100-sxm-16gb
  tidemark price operators.csv --gpu a100-sxm-80gb --json)";

bool is_table(const std::string& what) {
  if (is_open_file_of_process(what)) return true;
  return what.find(' ') == std::string::npos && std::filesystem::path(what).extension() == ".csv";
}

std::string table_of(const std::vector<OperatorPrice>& prices, const DeviceProfile& device,
                     const Console& console) {
  const auto right = Align::kRight;
  Table table({{"operator"},
               {"kernel"},
               {"time", right},
               {"bound"},
               {"efficiency", right},
               {"FLOPs", right},
               {"bytes", right},
               {"FLOP/s", right},
               {"bytes/s", right}});
  for (const OperatorPrice& price : prices) {
    const double seconds = std::chrono::duration<double>(price.time).count();
    table.add_row({{price.text},
                   {price.kernel},
                   {format_duration(price.time)},
                   {std::string(name_of(price.bound))},
                   {percent(price.efficiency())},
                   {operations(price.flops)},
                   {format_bytes(price.bytes)},
                   {format_flops_rate({price.flops.count / seconds})},
                   {format_bandwidth({static_cast<double>(price.bytes.count) / seconds})}});
  }
  return fmt::format("{} ({})\n", bold(device.name, console.colour), device.description) +
         table.text(console.colour, console.terminal ? console.width : 0);
}

}  // namespace
}  // namespace price_detail

void PriceCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName, "say how long single operators take on a GPU, and why");
  app->footer(price_detail::kHelp);
  app->add_option("operator", what, "an operator, or a table of them")
      ->type_name("OPERATOR|TABLE.csv")
      ->required();
  app->add_option("--gpu", gpu, "GPU, by its name or the path of its profile")
      ->type_name("NAME")
      ->required();
  app->add_flag("--json", json, "print one JSON document and nothing else");
}

int PriceCommand::execute(const Console& console) const {
  const Environment environment = default_environment();
  const DeviceProfile device = load_device_profile(gpu, environment.profile_folders);
  std::vector<OperatorText> operators;
  if (price_detail::is_table(what)) {
    operators = read_operator_table(what);
  } else {
    operators.push_back(read_operator(what));
  }
  std::vector<OperatorPrice> prices;
  for (const OperatorText& op : operators) {
    std::vector<OperatorPrice> kernels = price_operator(op, device);
    std::move(kernels.begin(), kernels.end(), std::back_inserter(prices));
  }
  print(json ? json_text(prices_json(prices, device)) + '\n'
             : price_detail::table_of(prices, device, console));
  return kExitFits;
}

}  // namespace tidemark
