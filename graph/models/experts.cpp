#include "graph/models/experts.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "graph/models/language.hpp"
#include "graph/models/routing.hpp"

namespace tidemark {
namespace experts_detail {
namespace {

TensorId take(ModelBuilder& b, TensorId x, int axis, std::int64_t index) {
  return b.add("narrow", {x},
               {{"axis", std::int64_t{axis}},
                {"start", index},
                {"length", std::int64_t{1}},
                {"drop_axis", std::int64_t{1}}});
}

struct Routing {
  TensorId weights;  // [tokens, per_token], in the model's type
  TensorId mask;     // int64 [experts, per_token, tokens]
};

//   routing_weights = F.softmax(router_logits, dim=1, dtype=torch.float)
//   routing_weights, selected = torch.topk(routing_weights, k, dim=-1)
//   routing_weights /= routing_weights.sum(dim=-1, keepdim=True)
//   expert_mask = F.one_hot(selected, experts).permute(2, 1, 0)
Routing route(ModelBuilder& b, TensorId tokens, const MixtureOfExperts& mixture) {
  const TensorId logits = b.linear("gate", tokens, mixture.experts, false);
  const TensorId all = b.add("softmax", {logits}, {{"axis", std::int64_t{1}}, {"dtype", "fp32"}});
  const std::vector<TensorId> top = b.add_many(top_k_family(), {all}, {{"k", mixture.per_token}});
  TensorId chosen = top[0];
  if (mixture.normalises) {
    const TensorId sum = b.add(
        "sum", {chosen}, {{"axes", std::vector<std::int64_t>{-1}}, {"keepdim", std::int64_t{1}}});
    chosen = b.multiply(chosen, sum);
  }
  const TensorId weights = b.cast_back(chosen, b.tensor(tokens).dtype);
  const TensorId mask =
      b.add_many(one_hot_family(), {top[1]}, {{"classes", mixture.experts}}).front();
  return {.weights = weights,
          .mask = b.add("permute", {mask}, {{"axes", std::vector<std::int64_t>{2, 1, 0}}})};
}

TensorId expert(ModelBuilder& b, std::int64_t index, TensorId x, const MixtureOfExperts& mixture) {
  auto scope = b.scope(fmt::format("experts.{}", index));
  scope.local(x);
  const std::int64_t width = b.shape(x)[-1];
  const TensorId gate =
      activate(b, mixture.activation, b.linear(mixture.gate, x, mixture.ffn, false));
  const TensorId up = b.linear(mixture.up, x, mixture.ffn, false);
  return b.linear(mixture.down, b.multiply(gate, up), width, false);
}

TensorId zeros_like_tokens(ModelBuilder& b, TensorId x, std::int64_t tokens, std::int64_t width) {
  return b
      .add_many(new_zeros_family(), {},
                {{"shape", std::vector<std::int64_t>{tokens, width}},
                 {"dtype", std::string(name_of(b.tensor(x).dtype))},
                 {"restores_type", std::int64_t{1}}})
      .front();
}

// locations = cumsum(mask, dim=tokens); a token whose location reaches the capacity is dropped;
// places = the positions of what remains, by expert.
TensorId dispatched(ModelBuilder& b, TensorId hidden, const Routing& routing,
                    const MixtureOfExperts& mixture, std::int64_t capacity) {
  const std::int64_t places = mixture.experts * capacity;
  const TensorId mask = b.reshape(routing.mask, {mixture.experts, -1});
  const TensorId locations = b.add("cumsum", {mask}, {{"axis", std::int64_t{-1}}});
  const TensorId kept = b.add("logical_and", {mask, b.add("le", {locations})});
  const TensorId chosen = b.add_many(nonzero_family(), {kept}, {{"count", places}}).front();
  const TensorId row = take(b, chosen, 1, 1);
  const TensorId rank = take(b, chosen, 1, 0);
  const TensorId states = b.add_many(index_family(), {hidden, row}, {}).front();
  std::vector<TensorId> results;
  const std::vector<TensorId> parts = b.split(states, capacity, 0);
  for (std::int64_t i = 0; i < mixture.experts; ++i)
    results.push_back(expert(b, i, parts[static_cast<std::size_t>(i)], mixture));
  const TensorId weight = b.add_many(index_family(), {routing.weights, row, rank}, {}).front();
  const TensorId weighted = b.multiply(b.cat(results, 0), b.view(weight, {places, 1}));
  const Shape shape = b.shape(hidden);
  const TensorId result = zeros_like_tokens(b, hidden, shape[0], shape[1]);
  return b.add_many(index_add_family(), {result, row, weighted}, {{"in_place", std::int64_t{1}}})
      .front();
}

//   rows = hidden[row] in the order of the experts; h = bmm(rows, gate_up^T)
//   result.index_add_(0, row, bmm(act(gate) * up, down^T) * weights[row, rank])
TensorId grouped(ModelBuilder& b, TensorId hidden, const Routing& routing,
                 const MixtureOfExperts& mixture) {
  const Shape shape = b.shape(hidden);
  const std::int64_t routed = shape[0] * mixture.per_token;
  const std::int64_t rows = (routed + mixture.experts - 1) / mixture.experts;
  const std::int64_t places = mixture.experts * rows;
  const TensorId chosen = b.add_many(nonzero_family(), {routing.mask}, {{"count", places}}).front();
  const TensorId rank = take(b, chosen, 1, 1);
  const TensorId row = take(b, chosen, 1, 2);
  TensorId y = b.view(b.add_many(index_family(), {hidden, row}, {}).front(),
                      {mixture.experts, rows, shape[1]});
  {
    const auto scope = b.scope("experts");
    const TensorId gate_up =
        b.parameter("gate_up_proj", {mixture.experts, 2 * mixture.ffn, shape[1]});
    const TensorId down = b.parameter("down_proj", {mixture.experts, shape[1], mixture.ffn});
    const std::vector<TensorId> halves =
        b.split(b.matmul(y, b.transpose(gate_up, 1, 2)), mixture.ffn, 2);
    y = b.multiply(activate(b, mixture.activation, halves[0]), halves[1]);
    y = b.matmul(y, b.transpose(down, 1, 2));
  }
  const TensorId weight = b.add_many(index_family(), {routing.weights, row, rank}, {}).front();
  const TensorId weighted = b.multiply(b.view(y, {places, shape[1]}), b.view(weight, {places, 1}));
  const TensorId result = zeros_like_tokens(b, hidden, shape[0], shape[1]);
  return b.add_many(index_add_family(), {result, row, weighted}, {{"in_place", std::int64_t{1}}})
      .front();
}

}  // namespace
}  // namespace experts_detail

std::int64_t expert_capacity(const MixtureOfExperts& mixture, std::int64_t tokens) {
  const double places = mixture.capacity_factor.value_or(1) * static_cast<double>(tokens) *
                        static_cast<double>(mixture.per_token) /
                        static_cast<double>(mixture.experts);
  if (places >= static_cast<double>(tokens)) return tokens;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(places)));
}

TensorId mixture_of_experts(ModelBuilder& builder, std::string_view module, TensorId x,
                            const MixtureOfExperts& mixture) {
  ModelBuilder& b = builder;
  auto scope = b.scope(module);
  scope.local(x);
  const Shape shape = b.shape(x);
  const std::int64_t tokens = shape[0] * shape[1];
  const TensorId hidden = b.view(x, {tokens, shape[2]});
  const experts_detail::Routing routing = experts_detail::route(b, hidden, mixture);
  scope.local(routing.weights);
  scope.local(routing.mask);
  if (mixture.grouped) return b.view(experts_detail::grouped(b, hidden, routing, mixture), shape);
  if (mixture.capacity_factor) {
    const std::int64_t capacity = expert_capacity(mixture, tokens);
    return b.view(experts_detail::dispatched(b, hidden, routing, mixture, capacity), shape);
  }
  TensorId result = experts_detail::zeros_like_tokens(b, x, tokens, shape[2]);
  const std::int64_t routed = tokens * mixture.per_token;
  for (std::int64_t i = 0; i < mixture.experts; ++i) {
    const std::int64_t share = routed / mixture.experts + (i < routed % mixture.experts ? 1 : 0);
    if (share == 0) continue;
    // idx, top_x = torch.where(expert_mask[i]): two columns of one tensor.
    const TensorId chosen =
        b.add_many(nonzero_family(), {experts_detail::take(b, routing.mask, 0, i)},
                   {{"count", share}})
            .front();
    const TensorId rank = experts_detail::take(b, chosen, 1, 0);
    const TensorId row = experts_detail::take(b, chosen, 1, 1);
    const TensorId state = b.add_many(index_family(), {hidden, row}, {}).front();
    const TensorId computed = experts_detail::expert(b, i, state, mixture);
    const TensorId weight = b.add_many(index_family(), {routing.weights, row, rank}, {}).front();
    const TensorId weighted = b.multiply(computed, b.view(weight, {share, 1}));
    result =
        b.add_many(index_add_family(), {result, row, weighted}, {{"in_place", std::int64_t{1}}})
            .front();
  }
  return b.view(result, shape);
}

}  // namespace tidemark
