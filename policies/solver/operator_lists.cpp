#include "policies/solver/operator_lists.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/scalars.hpp"
#include "policies/solver/keep_set.hpp"

namespace tidemark {
namespace {

constexpr std::string_view kBetween = ": ";  // a layer's name and an operator's

std::string_view layer_of(std::string_view node_name) {
  const std::size_t at = node_name.rfind(kBetween);
  return at == std::string_view::npos ? std::string_view() : node_name.substr(0, at);
}

// Of the forward nodes, which is a topological order.
std::set<std::string> operators_in(const RematProblem& problem,
                                   const std::vector<NodeIndex>& forward) {
  std::set<std::string> names;
  for (const NodeIndex node : forward) {
    if (problem.cost[node] > 0) names.emplace(operator_of(problem.name[node]));
  }
  return names;
}

}  // namespace

std::string_view operator_of(std::string_view node_name) {
  const std::size_t at = node_name.rfind(kBetween);
  return at == std::string_view::npos ? node_name : node_name.substr(at + kBetween.size());
}

Schedule selective_schedule(const RematProblem& problem, const std::vector<std::string>& operators,
                            bool saves) {
  const std::vector<NodeIndex> forward = forward_nodes(problem);
  const std::set<std::string> known = operators_in(problem, forward);
  for (const std::string& name : operators) {
    if (known.contains(name)) continue;
    const std::vector<std::string> names(known.begin(), known.end());
    std::string hint = did_you_mean(name, names);
    if (hint.empty()) hint = fmt::format("; it has {}", fmt::join(names, ", "));
    throw UserError(fmt::format("selective.{}: no forward node of the graph is an operator {}{}",
                                saves ? "save" : "recompute", tidemark::quoted(name), hint));
  }
  const std::vector<NodeIndex> outputs = passed_on_outputs(problem);
  std::vector<bool> kept(problem.size(), true);
  for (const NodeIndex node : forward) {
    const bool inside = outputs.empty() || problem.block[node] != kNoBlock;
    const bool stays = std::binary_search(outputs.begin(), outputs.end(), node);
    if (!inside || stays) continue;
    const bool listed = std::find(operators.begin(), operators.end(),
                                  operator_of(problem.name[node])) != operators.end();
    kept[node] = listed == saves;
  }
  return keep_schedule(problem, kept);
}

Schedule attention_schedule(const RematProblem& problem) {
  std::map<std::string_view, std::vector<NodeIndex>> layers;
  for (const NodeIndex node : forward_nodes(problem))
    layers[layer_of(problem.name[node])].push_back(node);
  std::vector<bool> kept(problem.size(), true);
  bool found = false;
  for (const auto& [layer, nodes] : layers) {
    const auto is = [&](NodeIndex node, std::string_view name) {
      return operator_of(problem.name[node]) == name;
    };
    const auto attends = [&](NodeIndex node) {
      return is(node, "softmax") || is(node, "attention");
    };
    const auto product = [&](NodeIndex node) { return is(node, "bmm") || is(node, "attention"); };
    if (std::none_of(nodes.begin(), nodes.end(), attends)) continue;
    const auto first = std::find_if(nodes.begin(), nodes.end(), product);
    const auto last = std::find_if(nodes.rbegin(), nodes.rend(), product).base();
    for (auto node = first; node < last; ++node) {
      kept[*node] = false;
      found = true;
    }
  }
  if (!found) {
    throw UserError(
        "megatron_selective computes attention again, and no layer of this graph has nodes named "
        "bmm and softmax, or attention, behind its name and a colon, as `tidemark graph "
        "--cost-graph` writes them");
  }
  return keep_schedule(problem, kept);
}

}  // namespace tidemark
