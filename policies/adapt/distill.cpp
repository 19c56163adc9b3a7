#include "policies/adapt/distill.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/words.hpp"
#include "graph/ir/module_name.hpp"
#include "graph/operators/family.hpp"
#include "graph/rewrite/graph_copy.hpp"
#include "policies/adapt/append_model.hpp"

namespace tidemark {
namespace distill_detail {
namespace {

// The result of each repeated block: the last tensor it makes that a node outside reads.
std::vector<TensorId> block_results(const Graph& graph, int blocks) {
  std::vector<TensorId> results(static_cast<std::size_t>(blocks));
  IdVector<TensorId, int> made_in;
  made_in.assign(graph.tensors.size(), kNoBlock);
  for (const Node& node : graph.nodes) {
    const int block = graph.block_of(node.layer);
    for (TensorId in : node.inputs) {
      if (!in.valid() || made_in[in] == kNoBlock || made_in[in] == block) continue;
      TensorId& result = results.at(static_cast<std::size_t>(made_in[in]));
      if (!result.valid() || in > result) result = in;
    }
    for (TensorId out : node.outputs)
      made_in[out] = block;
  }
  return results;
}

// Returns the result of a module: the last tensor it makes that a node outside reads, or makes at
// all. Throws UserError for a name that is no module's.
TensorId module_result(const Graph& graph, const std::string& module, const Hint& hint,
                       std::string_view key) {
  IdVector<TensorId, char> made_inside;
  made_inside.assign(graph.tensors.size(), 0);
  TensorId result;
  TensorId last;
  for (const Node& node : graph.nodes) {
    const bool inside = node.layer.valid() && is_in_module(graph.layers[node.layer].name, module);
    for (TensorId in : node.inputs) {
      if (inside || !in.valid() || made_inside[in] == 0) continue;
      if (!result.valid() || in > result) result = in;
    }
    for (TensorId out : node.outputs) {
      made_inside[out] = inside ? 1 : 0;
      if (inside) last = out;
    }
  }
  if (result.valid()) return result;
  if (last.valid()) return last;
  std::set<std::string> modules;
  for (const Layer& layer : graph.layers) {
    for (std::size_t dot = layer.name.find('.'); dot != std::string::npos;
         dot = layer.name.find('.', dot + 1))
      modules.insert(layer.name.substr(0, dot));
    modules.insert(layer.name);
  }
  const std::vector<std::string> names(modules.begin(), modules.end());
  throw UserError(hint.location, fmt::format("policies.distill.hints.{}", key),
                  fmt::format("'{}' has no module {}{}", graph.name, quoted_excerpt(module),
                              did_you_mean(module, names)));
}

bool contains(const std::vector<TensorId>& tensors, TensorId tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

class Distillation {
 public:
  Distillation(const Graph& student, const Graph& teacher, const DistillOptions& options)
      : student_(student), teacher_(teacher), options_(options) {
    for (TensorId id : ids_of(student.tensors)) {
      if (student.storages[student.tensors[id].storage].role == Role::kInput) inputs_.push_back(id);
    }
    for (const Node& node : student.nodes) {
      if (!contains(node.outputs, student.loss)) continue;
      for (TensorId target : node.inputs)
        std::erase(inputs_, target);
    }
  }

  Graph run() {
    return rewrite_graph(student_, [&](GraphCopy& copy, NodeId id) {
      const Node& node = student_.nodes[id];
      const bool begins_loss = !has_loss_ && contains(node.inputs, student_.logits);
      const bool ready = std::all_of(inputs_.begin(), inputs_.end(),
                                     [&](TensorId input) { return copy.at(input).valid(); });
      if (ready && !options_.student_first) run_teacher(copy);
      if (begins_loss) {
        run_teacher(copy);
        add_loss(copy);
        has_loss_ = true;
      }
      const NodeId kept = copy.keep(id);
      if (!contains(node.outputs, student_.loss)) return;
      Graph& graph = copy.result();
      layer_ = node.layer;
      TensorId loss = graph.output(kept);
      if (options_.logits) loss = add(graph, "scale", {loss});
      loss = add(graph, "add", {distance_, loss});
      copy.replace(id, std::vector<TensorId>{loss});
      const NodeId last(graph.nodes.size() - 1);
      for (TensorId held : held_)
        graph.locals.push_back({held, last});
    });
  }

 private:
  TensorId add(Graph& graph, std::string_view family, std::vector<TensorId> inputs,
               Attributes attributes = {}) const {
    return graph.output(
        graph.add_node(*find_family(family), std::move(inputs), std::move(attributes), layer_));
  }

  // Runs once; its results live as variables of the training loop until the loss is there.
  void run_teacher(GraphCopy& copy) {
    if (options_.cached || has_teacher_) return;
    has_teacher_ = true;
    Graph& graph = copy.result();
    const AppendedModel appended = append_model(graph, teacher_, "teacher", "distill");
    teacher_logits_ = appended.tensor[teacher_.logits];
    held_.push_back(teacher_logits_);
    if (!options_.features) return;
    std::vector<TensorId> results;
    for (const Hint& hint : options_.hints)
      results.push_back(module_result(teacher_, hint.teacher, hint, "teacher"));
    if (options_.hints.empty()) results = block_results(teacher_, teacher_.blocks);
    for (TensorId result : results) {
      teacher_features_.push_back(appended.tensor[result]);
      held_.push_back(teacher_features_.back());
    }
  }

  // One row per sample or token, in fp32.
  TensorId rows(Graph& graph, TensorId x) const {
    if (graph.tensors[x].shape.rank() != 2) {
      const std::int64_t classes = graph.tensors[x].shape[-1];
      x = add(graph, "reshape", {x}, {{"shape", std::vector<std::int64_t>{-1, classes}}});
    }
    if (bits_of(graph.tensors[x].dtype) >= bits_of(DType::kFloat32)) return x;
    return add(graph, "cast", {x}, {{"dtype", std::string(name_of(DType::kFloat32))}});
  }

  void add_loss(GraphCopy& copy) {
    if (options_.logits) compare_logits(copy);
    if (!options_.features) return;
    if (options_.hints.empty()) return compare_blocks(copy);
    for (std::size_t i = 0; i < options_.hints.size(); ++i) {
      const Hint& hint = options_.hints[i];
      const TensorId result = module_result(student_, hint.student, hint, "student");
      add_distance(copy.result(),
                   compare(copy.result(), hint.student, copy.at(result), teacher_features_[i]));
    }
  }

  void add_distance(Graph& graph, TensorId error) {
    distance_ = distance_.valid() ? add(graph, "add", {distance_, error}) : error;
  }

  void compare_logits(GraphCopy& copy) {
    Graph& graph = copy.result();
    const Attributes classes{{"axis", std::int64_t{1}}};
    const TensorId student = rows(graph, copy.at(student_.logits));
    TensorId log_probabilities =
        add(graph, "log_softmax", {add(graph, "scale", {student})}, classes);
    TensorId teacher;
    if (options_.cached) {
      const std::int64_t count = graph.tensors[student].shape[0];
      const std::int64_t top = std::min(options_.top, graph.tensors[student].shape[1]);
      teacher = graph.add_input("teacher_logits", {count, top}, DType::kFloat32);
      const TensorId indices = graph.add_input("teacher_indices", {count, top}, DType::kInt64);
      log_probabilities = add(graph, "gather", {log_probabilities, indices}, classes);
    } else {
      teacher = rows(graph, teacher_logits_);
      const std::int64_t wanted = graph.tensors[student].shape[1];
      const std::int64_t given = graph.tensors[teacher].shape[1];
      if (wanted != given) {
        throw UserError({}, "policies.distill.teacher",
                        fmt::format("the teacher '{}' has {} classes and '{}' has {}; logits can "
                                    "be compared where they are the same",
                                    teacher_.name, given, student_.name, wanted));
      }
    }
    const TensorId probabilities = add(graph, "softmax", {add(graph, "scale", {teacher})}, classes);
    // at::kl_div: xlogy(target, target) - target * input, then its sum.
    const TensorId entropy = add(graph, "mul", {probabilities, probabilities});
    const TensorId product = add(graph, "mul", {probabilities, log_probabilities});
    distance_ = add(graph, "sum", {add(graph, "sub", {entropy, product})});
    // Divided by the rows, times T, T and 0.5.
    for (int factor = 0; factor < 4; ++factor)
      distance_ = add(graph, "scale", {distance_});
  }

  void compare_blocks(GraphCopy& copy) {
    Graph& graph = copy.result();
    const std::vector<TensorId> blocks = block_results(student_, student_.blocks);
    if (blocks.empty() || teacher_features_.empty()) {
      throw UserError(
          {}, "policies.distill.kind",
          fmt::format("'{}' has {} repeated blocks and its teacher '{}' {}: features "
                      "of blocks cannot be compared; use kind: logits",
                      student_.name, blocks.size(), teacher_.name, teacher_features_.size()));
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (!blocks[i].valid()) continue;
      const std::size_t at =
          std::max<std::size_t>((i + 1) * teacher_features_.size() / blocks.size(), 1) - 1;
      if (!teacher_features_[at].valid()) continue;
      add_distance(graph, compare(graph, fmt::format("block {}", i), copy.at(blocks[i]),
                                  teacher_features_[at]));
    }
  }

  // `what` names the student's feature.
  TensorId compare(Graph& graph, const std::string& what, TensorId student, TensorId teacher) {
    const std::int64_t width = graph.tensors[teacher].shape[-1];
    const std::int64_t own = graph.tensors[student].shape[-1];
    if (own != width) {
      const std::string name = fmt::format("regressor.{}", regressors_++);
      const DType type = graph.tensors[student].dtype;
      layer_ = graph.add_layer(name);
      const TensorId weight = graph.add_parameter(name + ".weight", {width, own}, type, layer_);
      const TensorId bias = graph.add_parameter(name + ".bias", {width}, type, layer_);
      student = add(graph, "linear", {student, weight, bias});
    }
    if (!(graph.tensors[student].shape == graph.tensors[teacher].shape)) {
      throw UserError({}, "policies.distill.kind",
                      fmt::format("{} of '{}' makes {} and the teacher's {}: these features "
                                  "cannot be compared; use kind: logits",
                                  what, student_.name, to_string(graph.tensors[student].shape),
                                  to_string(graph.tensors[teacher].shape)));
    }
    return add(graph, "mse_loss", {student, teacher});
  }

  const Graph& student_;
  const Graph& teacher_;
  const DistillOptions& options_;
  std::vector<TensorId> inputs_;  // the student's inputs but for its targets
  LayerId layer_;
  bool has_teacher_ = false;
  bool has_loss_ = false;
  int regressors_ = 0;
  TensorId teacher_logits_;
  std::vector<TensorId> teacher_features_;
  std::vector<TensorId> held_;
  TensorId distance_;
};

}  // namespace
}  // namespace distill_detail

Graph distill(const Graph& student, const Graph& teacher, const DistillOptions& options) {
  if (!student.loss.valid() || !student.logits.valid() || student.loss == student.logits) {
    throw UserError(
        {}, "policies.distill",
        fmt::format("'{}' has no loss beside its output; choose a training.loss", student.name));
  }
  return distill_detail::Distillation(student, teacher, options).run();
}

}  // namespace tidemark
