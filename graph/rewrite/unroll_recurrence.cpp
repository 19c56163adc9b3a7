#include "graph/rewrite/unroll_recurrence.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/operators/kernels.hpp"
#include "graph/operators/known_families.hpp"
#include "graph/operators/products/recurrent_cells.hpp"
#include "graph/operators/products/recurrent_steps.hpp"
#include "graph/rewrite/graph_copy.hpp"

namespace tidemark {
namespace unroll_recurrence_detail {
namespace {

// More steps than this, over all layers and directions, stay one node: a graph of a million nodes
// would tell no more.
constexpr std::int64_t kMostSteps = 1 << 14;

struct State {
  TensorId h;
  TensorId c;  // of an LSTM
};

// The nodes of one recurrent layer's node.
class Unrolled {
 public:
  Unrolled(GraphCopy& copy, NodeId id)
      : copy_(copy),
        node_(copy.source().nodes[id]),
        id_(id),
        cell_(static_cast<CellKind>(node_.family->variant)),
        inputs_(copy.inputs_of(id)),
        layers_(node_.attributes.integer("layers", 1)),
        directions_(node_.attributes.flag("bidirectional") ? 2 : 1) {
    const bool given = node_.attributes.flag("initial_states");
    const std::size_t states = given ? (cell_ == CellKind::kLstm ? 2 : 1) : 0;
    each_ = (inputs_.size() - 1 - states) / static_cast<std::size_t>(layers_ * directions_);
    hidden_ = tensor(inputs_[2]).shape[1];
    given_ = given ? inputs_.size() - states : 0;
  }

  [[nodiscard]] std::int64_t steps() const {
    const Shape& x = copy_.source().tensors[node_.inputs.front()].shape;
    return x[node_.attributes.flag("batch_first") ? 1 : 0] * layers_ * directions_;
  }
  void build();

 private:
  [[nodiscard]] const Tensor& tensor(TensorId id) { return copy_.result().tensors[id]; }
  std::vector<TensorId> add_many(std::string_view family, std::vector<TensorId> inputs,
                                 Attributes attributes = {}) {
    const NodeId added = copy_.result().add_node(*find_family(family), std::move(inputs),
                                                 std::move(attributes), node_.layer);
    return copy_.result().nodes[added].outputs;
  }
  TensorId add(std::string_view family, std::vector<TensorId> inputs, Attributes attributes = {}) {
    return add_many(family, std::move(inputs), std::move(attributes)).front();
  }
  TensorId view(TensorId x, const Shape& shape) {
    return add("view", {x}, {{"shape", std::vector<std::int64_t>(shape.begin(), shape.end())}});
  }
  TensorId cat(std::vector<TensorId> parts, std::int64_t axis) {
    return add("cat", std::move(parts), {{"axis", axis}});
  }
  TensorId linear(TensorId x, std::size_t weight, std::size_t bias);
  std::vector<TensorId> unbind(TensorId x);
  TensorId stack(const std::vector<TensorId>& parts);
  std::vector<State> initial_states(std::int64_t batch);
  State step(TensorId igates, const State& state, std::size_t weights);
  TensorId run(TensorId x, State& state, std::size_t weights, bool reversed);

  GraphCopy& copy_;
  const Node& node_;
  NodeId id_;
  CellKind cell_;
  std::vector<TensorId> inputs_;
  std::int64_t layers_;
  std::int64_t directions_;
  std::size_t each_ = 4;   // weights and biases of a layer and direction
  std::size_t given_ = 0;  // index of the first initial state; 0 where they are zeros
  std::int64_t hidden_ = 1;
};

// F.linear with the weight at an index and the bias, if there is one, at another.
TensorId Unrolled::linear(TensorId x, std::size_t weight, std::size_t bias) {
  const Tensor input = tensor(x);
  const TensorId added = each_ == 4 ? inputs_[bias] : TensorId();
  Attributes attributes;
  Strides strides;
  if (!view_strides(input.shape, input.strides,
                    {input.elements().count / input.shape[-1], input.shape[-1]}, strides)) {
    x = add("contiguous", {x});
    attributes.set("copied_rows", std::int64_t{1});
  }
  return add("linear", {x, inputs_[weight], added}, attributes);
}

// The parts along axis 0, as Tensor.unbind.
std::vector<TensorId> Unrolled::unbind(TensorId x) {
  const Tensor whole = tensor(x);
  std::vector<TensorId> parts =
      add_many("split", {x},
               {{"sizes", std::vector<std::int64_t>(static_cast<std::size_t>(whole.shape[0]), 1)},
                {"axis", std::int64_t{0}}});
  Shape shape;
  for (int axis = 1; axis < whole.shape.rank(); ++axis)
    shape.push_back(whole.shape[axis]);
  for (TensorId& part : parts)
    part = view(part, shape);
  return parts;
}

TensorId Unrolled::stack(const std::vector<TensorId>& parts) {
  std::vector<TensorId> rows;
  rows.reserve(parts.size());
  for (TensorId part : parts) {
    Shape shape{1};
    for (std::int64_t extent : tensor(part).shape)
      shape.push_back(extent);
    rows.push_back(view(part, shape));
  }
  return cat(std::move(rows), 0);
}

// h, and c of an LSTM, of each layer and direction: parts of one tensor each.
std::vector<State> Unrolled::initial_states(std::int64_t batch) {
  const std::int64_t runs = layers_ * directions_;
  std::vector<State> states(static_cast<std::size_t>(runs));
  const auto parts_of = [&](std::size_t index) {
    const TensorId whole = given_ > 0
                               ? inputs_[given_ + index]
                               : add("zeros", {},
                                     {{"shape", std::vector<std::int64_t>{runs, batch, hidden_}},
                                      {"dtype", std::string(name_of(tensor(inputs_[2]).dtype))}});
    return unbind(whole);
  };
  const std::vector<TensorId> h = parts_of(0);
  for (std::size_t i = 0; i < states.size(); ++i)
    states[i].h = h[i];
  if (cell_ != CellKind::kLstm) return states;
  const std::vector<TensorId> c = parts_of(1);
  for (std::size_t i = 0; i < states.size(); ++i)
    states[i].c = c[i];
  return states;
}

// One step of a cell from the product of its input.
State Unrolled::step(TensorId igates, const State& state, std::size_t weights) {
  const TensorId hgates = linear(state.h, weights + 1, weights + 3);
  RecurrentCell cell(
      [this](std::string_view family, std::vector<TensorId> inputs, Attributes attributes) {
        return add_many(family, std::move(inputs), std::move(attributes));
      },
      hidden_);
  switch (cell_) {
    case CellKind::kLstm: {
      const auto next = cell.lstm(cell.in_place("add", {hgates, igates}), state.c);
      return {.h = next.h, .c = next.c};
    }
    case CellKind::kGru:
      return {.h = cell.gru(igates, hgates, state.h)};
    case CellKind::kRnn:
      return {.h = cell.rnn(igates, hgates)};
  }
  return state;
}

// One layer in one direction: returns the states of all steps, and the last one in `state`.
TensorId Unrolled::run(TensorId x, State& state, std::size_t weights, bool reversed) {
  const TensorId of_input = linear(x, weights, weights + 2);
  std::vector<TensorId> igates = unbind(of_input);
  if (reversed) std::reverse(igates.begin(), igates.end());
  std::vector<TensorId> outputs;
  outputs.reserve(igates.size());
  for (TensorId gates : igates) {
    state = step(gates, state, weights);
    outputs.push_back(state.h);
  }
  if (reversed) std::reverse(outputs.begin(), outputs.end());
  const TensorId result = stack(outputs);
  copy_.result().locals.push_back({of_input, NodeId(copy_.result().nodes.size() - 1)});
  return result;
}

void Unrolled::build() {
  TensorId x = inputs_[0];
  const bool batch_first = node_.attributes.flag("batch_first");
  const Attributes swap{{"axis_a", std::int64_t{0}}, {"axis_b", std::int64_t{1}}};
  if (batch_first) x = add("transpose", {x}, swap);
  std::vector<State> states = initial_states(tensor(x).shape[1]);
  const double dropout = node_.attributes.number("dropout", 0);
  std::size_t at = 0;
  for (std::int64_t layer = 0; layer < layers_; ++layer) {
    std::vector<TensorId> results;
    for (std::int64_t direction = 0; direction < directions_; ++direction, ++at)
      results.push_back(run(x, states[at], 1 + at * each_, direction > 0));
    x = results.size() == 1 ? results.front()
                            : cat(results, tensor(results.front()).shape.rank() - 1);
    if (dropout > 0 && layer + 1 < layers_) x = add("dropout", {x}, {{"p", dropout}});
  }
  // The final states of a stack of layers that the file keeps apart are joined there.
  const bool joined_later = node_.attributes.flag("final_states_are_views") && states.size() == 1;
  const auto joined = [&](TensorId State::*member) {
    std::vector<TensorId> parts;
    parts.reserve(states.size());
    for (const State& state : states)
      parts.push_back(state.*member);
    if (!joined_later) return stack(parts);
    const Shape& shape = tensor(parts.front()).shape;
    return view(parts.front(), {1, shape[0], shape[1]});
  };
  std::vector<TensorId> outputs{x, joined(&State::h)};
  if (cell_ == CellKind::kLstm) outputs.push_back(joined(&State::c));
  if (batch_first) outputs[0] = add("transpose", {x}, swap);
  copy_.replace(id_, outputs);
}

}  // namespace
}  // namespace unroll_recurrence_detail

Graph unroll_recurrence(const Graph& graph) {
  return rewrite_graph(graph, [&](GraphCopy& copy, NodeId id) {
    if (is_recurrent(*copy.source().nodes[id].family)) {
      unroll_recurrence_detail::Unrolled unrolled(copy, id);
      if (unrolled.steps() <= unroll_recurrence_detail::kMostSteps) return unrolled.build();
    }
    copy.keep(id);
  });
}

}  // namespace tidemark
