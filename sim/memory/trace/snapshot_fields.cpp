#include "sim/memory/trace/snapshot_fields.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {

const PickleValue& field_of(const Pickle& pickle, const PickleValue& dict, std::string_view key,
                            PickleKind kind) {
  if (dict.kind() != PickleKind::kDict) {
    pickle.fail(dict.offset(),
                fmt::format("expected a dict with '{}', found {}", key, name_of(dict.kind())));
  }
  const PickleValue* value = pickle.find(dict, key);
  if (value == nullptr) pickle.fail(dict.offset(), fmt::format("the dict has no '{}'", key));
  if (value->kind() != kind) {
    pickle.fail(value->offset(), fmt::format("'{}' is {} instead of {}", key,
                                             name_of(value->kind()), name_of(kind)));
  }
  return *value;
}

std::int64_t number_of(const Pickle& pickle, const PickleValue& dict, std::string_view key) {
  const PickleValue* huge = dict.kind() == PickleKind::kDict ? pickle.find(dict, key) : nullptr;
  if (huge != nullptr && huge->kind() == PickleKind::kHugeInteger) {
    pickle.fail(huge->offset(), fmt::format("'{}' does not fit into 63 bits", key));
  }
  const PickleValue& value = field_of(pickle, dict, key, PickleKind::kInteger);
  if (value.integer() < 0) {
    pickle.fail(value.offset(), fmt::format("'{}' is negative: {}", key, value.integer()));
  }
  return value.integer();
}

int choose_device(const Pickle& pickle, const PickleValue& traces, std::optional<int> device) {
  const std::span<const PickleValue> list = pickle.items(traces);
  std::vector<int> recorded;
  for (std::size_t d = 0; d < list.size(); ++d) {
    if (list[d].kind() != PickleKind::kList) {
      pickle.fail(list[d].offset(), fmt::format("device_traces[{}] is {} instead of a list", d,
                                                name_of(list[d].kind())));
    }
    if (!pickle.items(list[d]).empty()) recorded.push_back(static_cast<int>(d));
  }
  const auto fail = [&](const std::string& problem) {
    throw UserError({.file = pickle.path()}, "device_traces", problem);
  };
  if (recorded.empty()) {
    fail(
        "is empty: nothing was recorded before the snapshot; call "
        "torch.cuda.memory._record_memory_history() before the steps to replay");
  }
  const std::string devices = fmt::format("{}", fmt::join(recorded, ", "));
  if (device) {
    if (std::find(recorded.begin(), recorded.end(), *device) == recorded.end()) {
      fail(fmt::format("device {} has no entries; those with entries: {}", *device, devices));
    }
    return *device;
  }
  if (recorded.size() > 1) {
    fail(
        fmt::format("there are entries of several devices; choose one with --device: {}", devices));
  }
  return recorded.front();
}

// CUDA graphs and torch.cuda.MemPool take memory from pools of their own, which do not share blocks
// with the others.
void refuse_private_pool(const Pickle& pickle, const PickleValue& dict, std::string_view key,
                         std::string_view what) {
  const PickleValue* pool = pickle.find(dict, key);
  if (pool == nullptr) return;
  if (pool->kind() != PickleKind::kList) return;
  std::vector<std::int64_t> id;
  for (const PickleValue& part : pickle.items(*pool)) {
    if (part.kind() != PickleKind::kInteger) return;
    id.push_back(part.integer());
  }
  if (std::all_of(id.begin(), id.end(), [](std::int64_t part) { return part == 0; })) return;
  pickle.fail(pool->offset(),
              fmt::format("{} of the private pool ({}), of a CUDA graph or a MemPool, which is not "
                          "replayed; record the steps without graphs and pools of their own",
                          what, fmt::join(id, ", ")));
}

}  // namespace tidemark
