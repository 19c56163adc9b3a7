#include "scenarios/read/elastic_options.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace tidemark {
namespace elastic_options_detail {
namespace {

constexpr std::int64_t kMaxSteps = 1000;
constexpr std::int64_t kMaxBatch = 1 << 20;

ElasticityOptions decode_deepspeed(const Decoder& d) {
  ElasticityOptions options;
  options.micro_batches =
      d.optional_list<std::int64_t>("micro_batches", options.micro_batches, between(1, kMaxBatch));
  options.max_batch =
      d.optional<std::int64_t>("max_batch", options.max_batch, between(1, kMaxBatch));
  options.min_gpus = d.optional<std::int64_t>("min_gpus", options.min_gpus, at_least(1));
  options.max_gpus = d.optional<std::int64_t>("max_gpus", options.max_gpus, at_least(1));
  options.prefer_larger = d.optional<bool>("prefer_larger", options.prefer_larger);
  d.finish();
  if (options.micro_batches.empty()) d.fail_at("micro_batches", "the list is empty");
  for (const std::int64_t micro_batch : options.micro_batches) {
    if (micro_batch <= options.max_batch) continue;
    d.fail_at("micro_batches",
              fmt::format("{} is above max_batch, {}", micro_batch, options.max_batch));
  }
  return options;
}

bool lists_elastic(const Value& item) {
  return item.is_scalar() ? item.scalar == kMemoryElastic
                          : item.entries.size() == 1 && item.entries.front().key == kMemoryElastic;
}

}  // namespace
}  // namespace elastic_options_detail

ElasticOptions decode_elastic(const Decoder& parameters) {
  ElasticOptions options;
  const bool elastic = parameters.has("deepspeed");
  if (elastic) {
    options.deepspeed =
        elastic_options_detail::decode_deepspeed(parameters.required_child("deepspeed"));
    if (parameters.has("global_batch")) {
      parameters.fail_at("global_batch",
                         "'deepspeed' computes it from its micro-batches; give one of them");
    }
    const ElasticBatch batch = elastic_batch(*options.deepspeed);
    if (batch.gpus.empty())
      parameters.fail_at("deepspeed", "no number of GPUs in that range can share a batch");
    options.global_batch = batch.global_batch;
  } else {
    options.global_batch = parameters.required<std::int64_t>(
        "global_batch", between(1, elastic_options_detail::kMaxBatch));
  }
  options.lengths = parameters.list<std::int64_t>("lengths", at_least(1));
  options.capacities = parameters.list<Bytes>("capacity", above(0));
  parameters.finish();
  // A policy without parameters has failed above; only where they are described is there none.
  if (options.lengths.empty() && !parameters.value().is_null()) {
    parameters.fail(
        "required key 'lengths' is missing; expected the sequence length of each "
        "step, such as [2048, 512]");
  }
  if (options.lengths.size() > elastic_options_detail::kMaxSteps) {
    parameters.fail_at("lengths",
                       fmt::format("more than {} steps", elastic_options_detail::kMaxSteps));
  }
  if (options.capacities.size() == 1)
    options.capacities.resize(options.lengths.size(), options.capacities.front());
  if (!options.capacities.empty() && options.capacities.size() != options.lengths.size()) {
    parameters.fail_at("capacity",
                       fmt::format("{} capacities for {} lengths; give one for each step, or one "
                                   "for all",
                                   options.capacities.size(), options.lengths.size()));
  }
  return options;
}

std::vector<ParameterNote> elastic_parameters() {
  std::vector<ParameterNote> notes;
  static_cast<void>(decode_elastic(Decoder::describing(notes)));
  for (ParameterNote& note : notes) {
    if (note.name == "lengths") note.default_value.clear();
  }
  notes.push_back({.name = "deepspeed",
                   .type = "mapping",
                   .default_value = "none",
                   .range = "in place of global_batch: micro_batches, max_batch, min_gpus, "
                            "max_gpus, prefer_larger"});
  return notes;
}

const Value* elastic_policy(const Value& document) {
  const Value* policies = document.find("policies");
  if (policies == nullptr) return nullptr;
  static const Value no_parameters;
  for (const Value& item : policies->items) {
    if (elastic_options_detail::lists_elastic(item))
      return item.is_mapping() ? &item.entries.front().value : &no_parameters;
  }
  return nullptr;
}

Value without_elastic(Value document) {
  if (Value* policies = document.find("policies"))
    std::erase_if(policies->items, elastic_options_detail::lists_elastic);
  return document;
}

}  // namespace tidemark
