#include "policies/adapt/name_patterns.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fnmatch.h>

#include "graph/core/errors.hpp"
#include "graph/core/words.hpp"

namespace tidemark {
namespace name_patterns_detail {
namespace {

// The parameter's name and the modules that it is in, innermost first.
std::vector<std::string> modules_of(const std::string& name) {
  std::vector<std::string> names{name};
  for (std::size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0;
       dot = name.rfind('.', dot - 1))
    names.push_back(name.substr(0, dot));
  return names;
}

// Returns the names that a pattern could have meant: all parameters and modules.
std::vector<std::string> known_names(const Graph& graph) {
  std::set<std::string> names;
  for (const Parameter& parameter : graph.parameters) {
    for (std::string& name : modules_of(parameter.name))
      names.insert(std::move(name));
  }
  return {names.begin(), names.end()};
}

void require_match(const Graph& graph, const std::string& pattern, std::string_view policy,
                   std::string_view key) {
  const bool found =
      std::any_of(graph.parameters.begin(), graph.parameters.end(),
                  [&](const Parameter& p) { return matches_pattern(pattern, p.name); });
  if (found) return;
  const std::vector<std::string> known = known_names(graph);
  std::string hint = did_you_mean(pattern, known);
  if (hint.empty() && !known.empty())
    hint = fmt::format("; the model has for example '{}'", known.front());
  throw UserError(
      {}, fmt::format("policies.{}.{}", policy, key),
      fmt::format("'{}' matches no module and no parameter of {}{}", pattern, graph.name, hint));
}

}  // namespace
}  // namespace name_patterns_detail

bool matches_pattern(std::string_view pattern, std::string_view name) {
  const std::string text(name);
  const std::string whole(pattern);
  return fnmatch(whole.c_str(), text.c_str(), 0) == 0 ||
         fnmatch((whole + ".*").c_str(), text.c_str(), 0) == 0;
}

bool NamePatterns::matches(std::string_view name) const {
  const auto any = [&](const std::vector<std::string>& patterns) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const std::string& pattern) { return matches_pattern(pattern, name); });
  };
  return any(layers) && !any(except);
}

NamePatterns decode_patterns(const Decoder& parameters) {
  std::vector<std::string> listed = parameters.list<std::string>("layers");
  if (!parameters.has("layers")) listed = {"*"};
  return {.layers = std::move(listed), .except = parameters.list<std::string>("except")};
}

std::vector<ParameterId> matching_parameters(const Graph& graph, const NamePatterns& patterns,
                                             std::string_view policy) {
  for (const std::string& pattern : patterns.layers)
    name_patterns_detail::require_match(graph, pattern, policy, "layers");
  for (const std::string& pattern : patterns.except)
    name_patterns_detail::require_match(graph, pattern, policy, "except");
  std::vector<ParameterId> found;
  for (ParameterId id : ids_of(graph.parameters)) {
    if (patterns.matches(graph.parameters[id].name)) found.push_back(id);
  }
  return found;
}

}  // namespace tidemark
