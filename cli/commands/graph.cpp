// tidemark graph: prints the training graph as a table, for Graphviz or for scripts.
#include <sstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/command.hpp"
#include "cli/text/json_text.hpp"
#include "cli/text/wording.hpp"
#include "graph/analysis/dependency_graph.hpp"
#include "graph/core/errors.hpp"
#include "graph/core/printable.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/step/compile.hpp"

namespace tidemark {
namespace graph_detail {
namespace {

using Json = nlohmann::ordered_json;

// Returns "forward", for further chunks "forward.1".
std::string title_of(const StepPart& part) {
  std::string title(name_of(part.kind));
  if (part.chunk > 0) title += fmt::format(".{}", part.chunk);
  return title;
}

std::string_view name_of(Access access) {
  constexpr std::string_view kNames[] = {"read", "mutate", "overwrite", "create"};
  return kNames[static_cast<int>(access)];
}

Json operator_json(const TrainingGraph& graph, OperatorId id) {
  const Operator& op = graph.operators[id];
  Json touches = Json::array();
  for (const Touch& touch : graph.touches_of(id)) {
    touches.push_back({{"storage", touch.storage.value}, {"access", name_of(touch.access)}});
  }
  return {{"id", id.value},
          {"name", op.name},
          {"phase", name_of(op.phase)},
          {"layer", graph.layer_name(op.layer)},
          {"class", name_of(op.work.op_class)},
          {"flops", op.work.flops.count},
          {"read_bytes", op.work.read.count},
          {"written_bytes", op.work.written.count},
          {"workspace", op.workspace.count},
          {"touches", std::move(touches)}};
}

Json graph_json(const TrainingGraph& graph) {
  Json storages = Json::array();
  for (StorageId id : ids_of(graph.storages)) {
    const Storage& storage = graph.storages[id];
    storages.push_back({{"id", id.value},
                        {"name", storage.name},
                        {"bytes", storage.bytes.count},
                        {"role", name_of(storage.role)},
                        {"layer", graph.layer_name(storage.layer)},
                        {"initial", storage.initial},
                        {"persistent", storage.persistent}});
  }
  Json operators = Json::array();
  for (OperatorId id : ids_of(graph.operators))
    operators.push_back(operator_json(graph, id));
  Json parts = Json::object();
  for (const StepPart& part : graph.parts.all()) {
    Json ids = Json::array();
    for (OperatorId id : part.operators)
      ids.push_back(id.value);
    parts[title_of(part)] = std::move(ids);
  }
  return {{"name", graph.name},
          {"samples", graph.samples},
          {"tokens", graph.tokens},
          {"micro_batches", graph.micro_batches},
          {"parameters", parameter_elements(graph.parameters).count},
          {"storages", std::move(storages)},
          {"operators", std::move(operators)},
          {"parts", std::move(parts)}};
}

// Writes a node per line.
std::string cost_graph_json(const CostGraph& result) {
  std::string nodes;
  for (const CostNodeId id : ids_of(result.nodes)) {
    const CostNode& node = result.nodes[id];
    Json json{
        {"id", id.value},       {"name", node.name},         {"kind", name_of(node.kind)},
        {"cost", node.cost},    {"bytes", node.bytes.count}, {"workspace", node.workspace.count},
        {"deps", Json::array()}};
    for (const CostNodeId dep : node.deps)
      json["deps"].push_back(dep.value);
    if (!node.layer.empty()) json["layer"] = node.layer;
    json["operator"] = node.operator_kind;
    if (node.once) json["once"] = true;
    if (node.block != kNoBlock) json["block"] = node.block;
    if (node.off_main_path) json["aside"] = true;
    if (node.part) json["part"] = true;
    nodes += (nodes.empty() ? "\n  " : ",\n  ") + json_text(json, -1);
  }
  return fmt::format("{{\"name\": {}, \"fixed_bytes\": {}, \"nodes\": [{}\n]}}",
                     json_text(Json(result.name), -1), result.fixed_bytes.count, nodes);
}

Bytes created_by(const TrainingGraph& graph, OperatorId id) {
  Bytes bytes;
  for (const Touch& touch : graph.touches_of(id)) {
    if (touch.access == Access::kCreate) bytes += graph.storages[touch.storage].bytes;
  }
  return bytes;
}

std::string graph_table(const TrainingGraph& graph, const Console& console) {
  std::string text = fmt::format(
      "{}: {} parameters, {} operators, {} storages\n", bold(printable(graph.name), console.colour),
      format_count(static_cast<double>(parameter_elements(graph.parameters).count)),
      grouped(static_cast<std::int64_t>(graph.operators.size())),
      grouped(static_cast<std::int64_t>(graph.storages.size())));
  for (const StepPart& part : graph.parts.all()) {
    if (part.operators.empty()) continue;
    Table table({{"#", Align::kRight},
                 {"layer"},
                 {"operator"},
                 {"flops", Align::kRight},
                 {"traffic", Align::kRight},
                 {"creates", Align::kRight},
                 {"workspace", Align::kRight}},
                2);
    for (OperatorId id : part.operators) {
      const Operator& op = graph.operators[id];
      const Bytes created = created_by(graph, id);
      table.add_row({{fmt::to_string(id.value)},
                     {std::string(graph.layer_name(op.layer))},
                     {op.name},
                     {op.work.flops.count > 0 ? format_count(op.work.flops.count) : ""},
                     {format_bytes(op.work.read + op.work.written + op.work.apart)},
                     {created > Bytes(0) ? format_bytes(created) : ""},
                     {op.workspace > Bytes(0) ? format_bytes(op.workspace) : ""}});
    }
    text += fmt::format("\n{}: {} operators\n", bold(printable(title_of(part)), console.colour),
                        grouped(static_cast<std::int64_t>(part.operators.size())));
    text += table.text(console.colour);
  }
  return text;
}

}  // namespace
}  // namespace graph_detail

void GraphCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName, "show the training graph of a model");
  app->footer(R"(Examples:
  tidemark graph mlp
  tidemark graph gpt2 --dot | dot -Tsvg > gpt2.svg
  tidemark graph scenario.yaml --json
  tidemark graph gpt2 --gpu a100-sxm-80gb --cost-graph > gpt2.json && tidemark plan gpt2.json --budget 2GiB)");
  input.add_options(*app, false);
  CLI::Option* as_dot = app->add_flag("--dot", dot, "for Graphviz");
  CLI::Option* as_json = app->add_flag("--json", json, "for scripts")->excludes(as_dot);
  app->add_flag("--cost-graph", cost_graph,
                "one micro-batch with this device's times, as `tidemark plan` reads it")
      ->excludes(as_dot)
      ->excludes(as_json);
}

int GraphCommand::execute(const Console& console) const {
  const Environment environment = input.environment(console);
  ScenarioInput wanted = input;
  if (!is_scenario_file(input.names.front()) && wanted.gpu.empty()) {
    // The graph does not depend on the device, but a scenario names one.
    const std::vector<std::string> gpus = gpu_names(environment);
    if (gpus.empty()) throw UserError("no hardware profiles are installed");
    wanted.gpu = gpus.front();
  }
  const Scenario scenario = wanted.first_point(environment);
  const TrainedModel model = build_training(scenario);
  if (dot) {
    std::ostringstream out;
    write_dot(out, model.training);
    print(out.str());
  } else if (cost_graph) {
    print(graph_detail::cost_graph_json(cost_graph_of(scenario, model.training)) + '\n');
  } else if (json) {
    print(graph_detail::graph_json(model.training)
              .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
          '\n');
  } else {
    print(graph_detail::graph_table(model.training, console));
  }
  return kExitFits;
}

}  // namespace tidemark
