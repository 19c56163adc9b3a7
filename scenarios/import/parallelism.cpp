// How several GPUs share a model, as Accelerate's ParallelismConfig
// (accelerate/parallelism_config.py) and DeepSpeed's tensor_parallel say it.
#include <array>

#include <fmt/format.h>

#include "scenarios/import/draft.hpp"
#include "scenarios/read/short_form.hpp"

namespace tidemark {
namespace parallelism_detail {
namespace {

void set_size(Settings& group, const std::string& key, const std::string& policy, std::int64_t size,
              ScenarioDraft& draft) {
  if (size > 1) {
    set_entry(draft.policy(policy, group.location(key)), "size", group.location(key),
              scalar_at(fmt::to_string(size), group, key));
    group.becomes(key, fmt::format("policies.{}.size: {}", policy, size));
  } else {
    group.without_effect(key, "a size of 1");
  }
}

}  // namespace
}  // namespace parallelism_detail

void import_parallelism(Settings& settings, std::string_view key, ScenarioDraft& draft) {
  if (!settings.has(key)) return;
  Settings group = settings.group(key);
  // Accelerate's questionnaire repeats the name of the group in front of its keys.
  const auto named = [&](const std::string& name) {
    const std::string longer = "parallelism_config_" + name;
    return group.has(longer) ? longer : name;
  };
  std::int64_t ranks = 1;
  for (const auto& [name, policy] :
       {std::pair{"tp_size", "tensor_parallel"}, std::pair{"cp_size", "context_parallel"},
        std::pair{"sp_size", "context_parallel"}}) {
    const std::string own = named(name);
    const auto size = group.integer(own, at_least(1));
    if (!size) continue;
    ranks *= *size;
    parallelism_detail::set_size(group, own, policy, *size, draft);
  }
  const std::string shard = named("dp_shard_size");
  const std::string replicate = named("dp_replicate_size");
  const std::int64_t shards = group.integer(shard, at_least(1)).value_or(1);
  const std::int64_t replicas = group.integer(replicate, at_least(1)).value_or(1);
  ranks *= shards * replicas;
  if (draft.has_policy("fsdp") && replicas > 1 && shards > 1) {
    set_entry(draft.policy("fsdp", {}), "shard", group.location(shard),
              scalar_at(fmt::to_string(shards), group, shard));
    group.becomes(shard, fmt::format("policies.fsdp.shard: {}", shards));
  }
  for (const std::string& own : {shard, replicate})
    group.becomes(own, "hardware.count: the product of all sizes");
  if (draft.ranks < ranks) draft.ranks = ranks;
  group.finish();
}

void import_tensor_parallel(Settings& settings, ScenarioDraft& draft) {
  if (!settings.has("tensor_parallel")) return;
  Settings group = settings.group("tensor_parallel");
  if (const auto size = group.integer("autotp_size"))
    parallelism_detail::set_size(group, "autotp_size", "tensor_parallel", *size, draft);
  group.finish();
}

}  // namespace tidemark
