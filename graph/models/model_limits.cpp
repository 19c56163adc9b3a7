#include "graph/models/model_limits.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/ir/tensor.hpp"

namespace tidemark {

namespace model_limits_detail {
namespace {

void check_option(std::string_view path, std::int64_t value, std::int64_t limit) {
  if (value >= 1 && value <= limit) return;
  throw UserError({}, std::string(path),
                  fmt::format("expected an integer from 1 to {}, found {}", limit, value));
}

}  // namespace
}  // namespace model_limits_detail

void check_options(const ModelOptions& options) {
  model_limits_detail::check_option("training.micro_batch", options.micro_batch, kMaxSamples);
  if (options.sequence)
    model_limits_detail::check_option("training.sequence", *options.sequence, kMaxSequence);
  if (options.image) model_limits_detail::check_option("training.image", *options.image, kMaxImage);
  if (options.dropout && !(*options.dropout >= 0 && *options.dropout <= 1)) {
    throw UserError({}, "training.dropout",
                    fmt::format("expected a number from 0 to 1, found {}", *options.dropout));
  }
}

std::int64_t sequence_of(const ModelOptions& options, std::int64_t positions, bool fixed_table) {
  const std::int64_t sequence = options.sequence.value_or(std::min(positions, kDefaultSequence));
  if (fixed_table && sequence > positions) {
    throw UserError({}, "training.sequence",
                    fmt::format("{} tokens are more than the {} positions that the model has "
                                "learned; at most {} fit",
                                sequence, positions, positions));
  }
  return sequence;
}

void check_transformer_size(const TransformerSize& size) {
  for (const Shape& shape : {Shape{size.batch, size.sequence, size.vocab},
                             Shape{size.batch, size.heads, size.sequence, size.sequence},
                             Shape{size.batch, size.sequence, size.ffn}}) {
    static_cast<void>(element_count(shape));
  }
}

Graph checked(Graph graph) {
  std::int64_t sum = 0;
  for (const Storage& storage : graph.storages) {
    if (!checked_add(sum, storage.bytes.count, sum) || Bytes(sum) > kMaxModelBytes) {
      throw UserError(
          fmt::format("the tensors of '{}' take more than {} together; no model of "
                      "that size can be simulated",
                      graph.name, format_bytes(kMaxModelBytes)));
    }
  }
  return graph;
}

void require_divides(const Decoder& config, std::string_view key, std::int64_t part,
                     std::string_view parts, std::int64_t whole, const std::string& whole_phrase) {
  if (whole % part == 0) return;
  std::int64_t below = std::min(part, whole);
  while (whole % below != 0)
    --below;
  std::int64_t above = part;
  while (above < whole && whole % above != 0)
    ++above;
  const std::string nearest = above > whole || above == below
                                  ? fmt::format("the nearest that does is {}", below)
                                  : fmt::format("the nearest that do are {} and {}", below, above);
  config.fail_at(key,
                 fmt::format("{} {} do not divide {}; {}", part, parts, whole_phrase, nearest));
}

}  // namespace tidemark
