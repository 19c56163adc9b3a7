#include "graph/import/onnx/merged_operators.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/import/onnx/onnx_uses.hpp"

namespace tidemark {
namespace merged_operators_detail {
namespace {

using Scope = std::vector<std::string_view>;  // "blocks.0", "time", "time.1" of a node's name

constexpr std::size_t kLongestChain = 32;
constexpr std::size_t kDeepestScope = 64;
constexpr std::size_t kMostOwnReaders = 8;

// Parts beyond kDeepestScope belong to the module above.
Scope scope_of(std::string_view name) {
  Scope scope;
  if (!name.starts_with('/')) return scope;
  std::size_t start = 1;
  for (std::size_t slash = name.find('/', start);
       slash != std::string_view::npos && scope.size() < kDeepestScope;
       slash = name.find('/', start)) {
    scope.push_back(name.substr(start, slash - start));
    start = slash + 1;
  }
  return scope;
}

std::size_t common_length(const Scope& a, const Scope& b) {
  const auto [end, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::size_t>(end - a.begin());
}

bool begins_with(const Scope& scope, const Scope& prefix) {
  return common_length(scope, prefix) == prefix.size();
}

Scope first_of(const Scope& scope, std::size_t count) {
  return {scope.data(), scope.data() + count};
}

// Whether two scopes end in the same `count` parts.
bool ends_alike(const Scope& a, const Scope& b, std::size_t count) {
  return std::equal(a.rbegin(), a.rend() - static_cast<std::ptrdiff_t>(a.size() - count),
                    b.rbegin());
}

std::string_view without_number(std::string_view name) {
  return name.substr(0, name.find_last_not_of("0123456789") + 1);
}

bool is_random(const OnnxNode& node) {
  return node.op.starts_with("Random") || node.op == "Bernoulli" || node.op == "Multinomial" ||
         node.op == "Dropout";
}

// The module of a merged result, and one that reads it without having computed it.
struct Reading {
  Scope own;
  Scope other;
};

class Splitter {
 public:
  explicit Splitter(OnnxModel& model) : model_(model), uses_(model) {
    for (const OnnxNode& node : model.nodes)
      scopes_.push_back(scope_of(node.name));
    is_weight_.assign(model.names.size(), 0);
    for (const OnnxInitializer& initializer : model.initializers)
      is_weight_[initializer.value] = 1;
  }

  void run() {
    for (OnnxNodeId id : ids_of(model_.nodes)) {
      const OnnxNode& node = model_.nodes[id];
      if (node.outputs.size() != 1 || scopes_[id].empty() || node.op == "Constant") continue;
      collect(id, node.outputs.front());
    }
    if (!parts_.empty()) rewrite();
  }

 private:
  // Operators that one module gets of its own.
  struct Part {
    Scope own;
    std::set<OnnxNodeId> nodes;
    OnnxNodeId first_reader;
    std::map<OnnxValueId, OnnxValueId> names;  // results, by those of the other module
  };

  void collect(OnnxNodeId maker, OnnxValueId value) {
    if (uses_.readers[value].size() < 2) return;
    std::vector<OnnxUse> own;  // readers inside of the maker's module, or of one around it
    for (const OnnxUse& use : uses_.readers[value]) {
      if (own.size() < kMostOwnReaders && common_length(scopes_[maker], scopes_[use.node]) > 0)
        own.push_back(use);
    }
    for (const OnnxUse& use : uses_.readers[value]) {
      const std::optional<Reading> reading = reading_of(maker, own, use);
      if (!reading) continue;
      const std::optional<std::set<OnnxNodeId>> chain = chain_of(maker, *reading);
      if (!chain) continue;
      Part& part = parts_[reading->other];
      if (part.nodes.empty()) {
        part.own = reading->own;
        part.first_reader = use.node;
      }
      if (part.own != reading->own) continue;
      part.nodes.insert(chain->begin(), chain->end());
      part.first_reader = std::min(part.first_reader, use.node);
    }
  }

  // Whether a node outside of the maker's module reads its result at the place at which one inside
  // of it does: in a module of the same name, or in one of those that differ by their number.
  std::optional<Reading> reading_of(OnnxNodeId maker, const std::vector<OnnxUse>& own,
                                    const OnnxUse& use) const {
    const Scope& outside = scopes_[use.node];
    for (const OnnxUse& reader : own) {
      const Scope& inside = scopes_[reader.node];
      const std::size_t shared = common_length(scopes_[maker], inside);
      const std::size_t tail = inside.size() - shared;
      if (outside.size() <= tail || common_length(outside, inside) >= shared ||
          reader.operand != use.operand ||
          model_.nodes[reader.node].op != model_.nodes[use.node].op ||
          !ends_alike(inside, outside, tail)) {
        continue;
      }
      Reading reading{first_of(inside, shared), first_of(outside, outside.size() - tail)};
      const bool apart = !begins_with(reading.own, reading.other);
      const bool alike = without_number(reading.own.back()) == without_number(reading.other.back());
      if (apart && (tail > 0 || alike)) return reading;
    }
    return std::nullopt;
  }

  // Returns the nodes of a module that a result of it hangs on; nothing if it could not have been
  // computed by another module.
  std::optional<std::set<OnnxNodeId>> chain_of(OnnxNodeId maker, const Reading& reading) const {
    const std::size_t shared = common_length(reading.own, reading.other);
    const Scope module = first_of(reading.own, shared + 1);
    std::set<OnnxNodeId> chain{maker};
    std::vector<OnnxNodeId> pending{maker};
    while (!pending.empty()) {
      const OnnxNode& node = model_.nodes[pending.back()];
      pending.pop_back();
      if (is_random(node) || chain.size() > kLongestChain) return std::nullopt;
      for (OnnxValueId input : node.inputs) {
        if (!input.valid()) continue;
        if (is_weight_[input] != 0) return std::nullopt;
        const OnnxNodeId source = uses_.producer[input];
        if (!source.valid() || !begins_with(scopes_[source], module)) continue;
        if (model_.nodes[source].op == "Constant") continue;
        if (chain.insert(source).second) pending.push_back(source);
      }
    }
    return chain;
  }

  void rewrite() {
    std::map<OnnxNodeId, std::vector<const Scope*>> before;
    for (const auto& [place, part] : parts_)
      before[part.first_reader].push_back(&place);
    IdVector<OnnxNodeId, OnnxNode> nodes;
    for (OnnxNodeId id : ids_of(model_.nodes)) {
      const auto here = before.find(id);
      if (here != before.end()) {
        for (const Scope* place : here->second) {
          Part& part = parts_[*place];
          for (OnnxNodeId original : part.nodes)
            nodes.push_back(copy(original, *place, part));
        }
      }
      OnnxNode node = model_.nodes[id];
      for (Scope place = scopes_[id]; !place.empty(); place.pop_back()) {
        const auto part = parts_.find(place);
        if (part != parts_.end()) rename(node, part->second.names);
      }
      nodes.push_back(std::move(node));
    }
    model_.nodes = std::move(nodes);
  }

  // Copies an operator into another module, at the same path.
  OnnxNode copy(OnnxNodeId original, const Scope& place, Part& part) {
    OnnxNode node = model_.nodes[original];
    rename(node, part.names);
    const Scope& scope = scopes_[original];
    std::string path = fmt::format("/{}", fmt::join(place, "/"));
    for (std::size_t i = common_length(scope, part.own); i < scope.size(); ++i)
      path += fmt::format("/{}", scope[i]);
    node.name = fmt::format("{}/{}", path, node.name.substr(node.name.rfind('/') + 1));
    for (OnnxValueId& output : node.outputs) {
      if (!output.valid()) continue;
      part.names[output] = model_.names.push_back(node.name + "_output_0");
      output = part.names[output];
    }
    return node;
  }

  static void rename(OnnxNode& node, const std::map<OnnxValueId, OnnxValueId>& names) {
    for (OnnxValueId& input : node.inputs) {
      const auto found = names.find(input);
      if (found != names.end()) input = found->second;
    }
  }

  OnnxModel& model_;
  OnnxUses uses_;
  IdVector<OnnxNodeId, Scope> scopes_;
  IdVector<OnnxValueId, char> is_weight_;
  std::map<Scope, Part> parts_;
};

}  // namespace
}  // namespace merged_operators_detail

void split_merged_operators(OnnxModel& model) {
  merged_operators_detail::Splitter(model).run();
}

}  // namespace tidemark
