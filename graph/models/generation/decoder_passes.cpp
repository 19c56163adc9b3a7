#include "graph/models/generation/decoder_passes.hpp"

#include <string>

#include "graph/operators/generation/cache_operators.hpp"

namespace tidemark {

DecoderPasses::DecoderPasses(ModelBuilder& builder, const ModelOptions& options,
                             std::int64_t sequence)
    : b_(builder),
      generation_(options.generation ? &*options.generation : nullptr),
      batch_(options.micro_batch),
      sequence_(sequence),
      length_(sequence) {
  if (generation_ == nullptr) return;
  length_ = generation_->prompt;
}

std::int64_t DecoderPasses::tokens() const {
  return batch_ * (generates() ? generation_->tokens : sequence_);
}

// The last pass makes the last token; nobody reads its keys and values any more, but the caller
// holds the cache until all is over.
TensorId DecoderPasses::run(const std::function<TensorId(TensorId)>& forward) {
  TensorId tokens = b_.input("tokens", {batch_, length_}, DType::kInt64);
  TensorId logits = forward(tokens);
  if (!generates()) return logits;
  for (std::int64_t pass = 1;; ++pass) {
    // generate() of transformers takes the next token from a copy of the logits in fp32.
    tokens = b_.add_many(next_token_family(), {b_.cast(logits, DType::kFloat32)}, {}).front();
    if (pass == generation_->passes()) break;
    b_.repeat();
    past_ += length_;
    length_ = 1;
    layer_ = 0;
    logits = forward(tokens);
  }
  for (const Layer& layer : layers_) {
    b_.keep_in_module(layer.keys);
    b_.keep_in_module(layer.values);
  }
  return logits;
}

TensorId DecoderPasses::narrowed(TensorId x, int axis, std::int64_t length) const {
  if (b_.shape(x)[axis] == length) return x;
  return b_.add("narrow", {x}, {{"axis", std::int64_t{axis}}, {"length", length}});
}

TensorId DecoderPasses::positions(TensorId table) const {
  return narrowed(table, 0, length_);
}

TensorId DecoderPasses::mask(TensorId whole) const {
  if (!whole.valid() || !generates()) return whole;
  const bool all = generation_->cache == CacheKind::kStatic;
  return narrowed(narrowed(whole, -2, length_), -1, all ? generation_->room : past_ + length_);
}

TensorId DecoderPasses::wanted(TensorId hidden) const {
  return generates() ? narrowed(hidden, 1, 1) : hidden;
}

bool DecoderPasses::paged() const {
  return generates() && generation_->cache == CacheKind::kPaged;
}

// Returns a new cache for all tokens of a layer.
TensorId DecoderPasses::room_for(TensorId added) const {
  const Shape shape = b_.shape(added);
  std::vector<std::int64_t> room{shape[0], shape[1], generation_->room, shape[3]};
  DType dtype = b_.tensor(added).dtype;
  if (paged()) {
    room = {shape[0] * generation_->blocks(), generation_->block, shape[1], shape[3]};
    dtype = generation_->dtype.value_or(dtype);
  }
  return b_
      .add_many(new_cache_family(), {}, {{"shape", room}, {"dtype", std::string(name_of(dtype))}})
      .front();
}

TensorId DecoderPasses::extended(TensorId cache, TensorId added) const {
  if (generation_->cache == CacheKind::kDynamic) {
    if (!cache.valid()) return b_.add_many(append_cache_family(), {added}, {}).front();
    return b_.add_many(append_cache_family(), {cache, added}, {}).front();
  }
  if (!cache.valid()) cache = room_for(added);
  return b_.add_many(write_cache_family(), {cache, added}, {{"in_place", std::int64_t{1}}}).front();
}

void DecoderPasses::remember(TensorId& k, TensorId& v) {
  if (!generates()) return;
  if (layer_ == layers_.size()) layers_.emplace_back();
  Layer& layer = layers_[layer_++];
  k = layer.keys = extended(layer.keys, k);
  v = layer.values = extended(layer.values, v);
}

TensorId DecoderPasses::attend_paged(TensorId q, TensorId k, TensorId v) const {
  return b_.add_many(paged_attention_family(), {q, k, v}, {{"tokens", past_ + length_}}).front();
}

}  // namespace tidemark
