#include "policies/registry.hpp"

#include <exception>
#include <filesystem>

#include <dlfcn.h>
#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "policies/adapt/entries.hpp"
#include "policies/compress/entries.hpp"
#include "policies/eviction/entries.hpp"
#include "policies/kernels/entries.hpp"
#include "policies/loss/entries.hpp"
#include "policies/parallel/entries.hpp"
#include "policies/recompute/entries.hpp"
#include "policies/residency/entries.hpp"
#include "policies/rewrite/entries.hpp"
#include "policies/sequence/planned.hpp"
#include "policies/shard/entries.hpp"

namespace tidemark {
namespace registry_detail {
namespace {

// Runs a plug-in's own code, whose exceptions are faults of the plug-in.
template <class Call>
auto guarded(const std::string& path, const Call& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    throw UserError({.file = path}, {},
                    fmt::format("the plugin failed to list its policies: {}", error.what()));
  } catch (...) {
    throw UserError({.file = path}, {}, "the plugin failed to list its policies");
  }
}

}  // namespace
}  // namespace registry_detail

PolicyRegistry::PolicyRegistry()
    : entries_{
          chunked_loss_entry(),
          fused_loss_entry(),
          liger_kernels_entry(),
          adaptive_precision_entry(),
          layer_precision_entry(),
          distill_entry(),
          prune_entry(),
          qat_entry(),
          compress_activations_entry(),
          compress_gradients_entry(),
          context_parallel_entry(),
          expert_parallel_entry(),
          tensor_parallel_entry(),
          checkpoint_every_entry(),
          checkpoint_entry(),
          checkpoint_sequential_entry(),
          data_parallel_entry(),
          freeze_entry(),
          lora_entry(),
          offload_activations_entry(),
          offload_optimizer_entry(),
          offload_parameters_entry(),
          optimizer_in_backward_entry(),
          ema_entry(),
          pipeline_entry(),
          quantise_weights_entry(),
          revolve_entry(),
          torchtune_offload_entry(),
          te_offload_entry(),
          megatron_offload_entry(),
          offload_checkpoints_entry(),
          vdnn_entry(),
          stronghold_entry(),
          belady_entry(),
          capuchin_entry(),
          flashneuron_entry(),
          karma_entry(),
          superneurons_entry(),
          hybrid_entry(),
          selective_entry(),
          megatron_selective_entry(),
          eviction_entry(),
          distributed_optimizer_entry(),
          megatron_data_parallel_entry(),
          fsdp_entry(),
          zero_entry(),
      } {
  const std::span<const PolicyEntry> planned = planned_entries();
  entries_.insert(entries_.end(), planned.begin(), planned.end());
}

void PolicyRegistry::load_plugin(const std::string& path) {
  if (!path_exists(path)) {
    throw UserError({.file = path}, {}, "no such plugin; give the path of a shared library");
  }
  // The absolute path keeps dlopen from searching the library path.
  const std::string file = absolute_path(path).string();
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();  // NOLINT(concurrency-mt-unsafe): before any thread starts
    throw UserError({.file = path}, {},
                    fmt::format("not a loadable plugin: {}", reason == nullptr ? "" : reason));
  }
  using Entry = const PolicyEntry* (*)(std::uint32_t, std::size_t*);
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "tidemark_policies"));
  if (entry == nullptr) {
    throw UserError({.file = path}, {},
                    "exports no tidemark_policies(); see docs in policies/registry.hpp");
  }
  std::size_t count = 0;
  const PolicyEntry* entries =
      registry_detail::guarded(path, [&] { return entry(kPolicyAbi, &count); });
  if (entries == nullptr) {
    throw UserError(
        {.file = path}, {},
        fmt::format("was built for another policy interface than {}; rebuild it against "
                    "this version's headers",
                    kPolicyAbi));
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (find(entries[i].name) != nullptr) {
      throw UserError(
          {.file = path}, {},
          fmt::format("policy '{}' exists already; give it another name", entries[i].name));
    }
    entries_.push_back(entries[i]);
  }
}

const PolicyEntry* PolicyRegistry::find(std::string_view name) const {
  for (const PolicyEntry& entry : entries_) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

std::vector<std::string> PolicyRegistry::names() const {
  std::vector<std::string> all;
  for (const PolicyEntry& entry : entries_)
    all.emplace_back(entry.name);
  return all;
}

}  // namespace tidemark
