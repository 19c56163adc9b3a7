#include "graph/models/layers/layer_kind.hpp"

#include <fmt/format.h>

#include "graph/models/model_limits.hpp"

namespace tidemark {

std::int64_t LayerParameters::size(std::string_view key, std::int64_t highest) const {
  if (!decoder_.has(key)) {
    decoder_.fail_at(key, "required key is missing; expected an integer or a size");
  }
  return size(key, 1, 1, highest);
}

std::int64_t LayerParameters::size(std::string_view key, std::int64_t fallback, std::int64_t lowest,
                                   std::int64_t highest) const {
  if (!decoder_.has(key)) return fallback;
  return evaluate_size(*decoder_.value().find(key), sizes_,
                       fmt::format("{}.{}", decoder_.path(), key), lowest, highest);
}

std::vector<std::int64_t> LayerParameters::sizes(std::string_view key, std::int64_t lowest,
                                                 std::int64_t highest) const {
  std::vector<std::int64_t> result;
  if (!decoder_.has(key)) return result;
  const Value& list = *decoder_.value().find(key);
  const std::string path = fmt::format("{}.{}", decoder_.path(), key);
  if (!list.is_sequence()) decoder_.fail_at(key, "expected a list of sizes");
  if (list.items.size() > static_cast<std::size_t>(kMaxRank)) {
    decoder_.fail_at(key, fmt::format("tensors have at most {} axes", kMaxRank));
  }
  for (const Value& item : list.items) {
    result.push_back(
        evaluate_size(item, sizes_, fmt::format("{}[{}]", path, result.size()), lowest, highest));
  }
  return result;
}

void need_axes(const LayerContext& c, int lowest, int highest) {
  const Shape& shape = c.builder.shape(c.x);
  if (shape.rank() >= lowest && shape.rank() <= highest) return;
  const std::string wanted = lowest == highest     ? fmt::format("{}", lowest)
                             : highest == kMaxRank ? fmt::format("at least {}", lowest)
                                                   : fmt::format("{} to {}", lowest, highest);
  c.parameters.decoder().fail(fmt::format("needs an input with {} axes, its input has the shape {}",
                                          wanted, to_string(shape)));
}

void need_numbers(const LayerContext& c) {
  const Tensor& x = c.builder.tensor(c.x);
  if (is_floating(x.dtype)) return;
  c.parameters.decoder().fail(fmt::format("needs numbers, its input {} holds {}: embed it first",
                                          to_string(x.shape), name_of(x.dtype)));
}

bool read_flag(const LayerContext& c, std::string_view key, bool fallback) {
  return c.parameters.decoder().optional<bool>(key, fallback);
}

double read_probability(const LayerContext& c, std::string_view key, double fallback) {
  return c.options.dropout.value_or(
      c.parameters.decoder().optional<double>(key, fallback, between(0, 1)));
}

int read_axis(const LayerContext& c, std::string_view key, std::int64_t fallback) {
  const int rank = c.builder.shape(c.x).rank();
  const std::int64_t chosen = c.parameters.size(key, fallback, -rank, rank - 1);
  return static_cast<int>(chosen < 0 ? chosen + rank : chosen);
}

void need_groups(const LayerContext& c, std::int64_t groups, std::int64_t channels,
                 std::string_view which) {
  require_divides(c.parameters.decoder(), "groups", groups, "groups", channels,
                  fmt::format("{} {}", channels, which));
}

}  // namespace tidemark
