#include "cli/text/peak_groups.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

namespace tidemark {

Terms by_block(const Terms& by_layer) {
  std::map<std::string, Bytes> blocks;
  for (const auto& [layer, bytes] : by_layer)
    blocks[block_of(layer)] += bytes;
  std::map<std::pair<std::string, Bytes>, std::vector<std::string>> alike;
  for (const auto& [block, bytes] : blocks)
    alike[{pattern_of(block), bytes}].push_back(block);
  Terms terms;
  for (const auto& [key, names] : alike) {
    const auto count = static_cast<std::int64_t>(names.size());
    terms.emplace_back(
        count == 1 ? names.front()
                   : fmt::format("{} ({} of {} each)", key.first, count, format_bytes(key.second)),
        key.second * count);
  }
  std::stable_sort(terms.begin(), terms.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return terms;
}

std::vector<TensorGroup> group_tensors(const std::vector<LargestTensor>& tensors, bool each) {
  std::vector<TensorGroup> groups;
  std::map<std::tuple<std::string, std::int64_t, Role, std::string, std::string>, std::size_t>
      known;
  for (const LargestTensor& tensor : tensors) {
    if (each) {
      groups.push_back({tensor, 1});
      continue;
    }
    TensorGroup group{tensor, 1};
    group.tensor.tensor = name_in_layer(tensor);
    group.tensor.layer = pattern_of(tensor.layer);
    const auto [at, fresh] = known.try_emplace(
        {group.tensor.tensor, tensor.bytes.count, tensor.role, tensor.op, group.tensor.layer},
        groups.size());
    if (fresh) {
      groups.push_back(std::move(group));
    } else {
      ++groups[at->second].count;
    }
  }
  std::stable_sort(groups.begin(), groups.end(), [](const TensorGroup& a, const TensorGroup& b) {
    return a.bytes() > b.bytes();
  });
  return groups;
}

std::vector<SavedGroup> group_saved(const TrainingGraph& graph,
                                    const std::vector<SavedTensor>& saved, bool each) {
  constexpr std::size_t kReaders = 3;
  const auto text = [&](OperatorId id) {
    const Operator& op = graph.operators[id];
    const std::string layer(graph.layer_name(op.layer));
    return layer.empty() ? op.name : (each ? layer : pattern_of(layer)) + ": " + op.name;
  };
  std::map<std::pair<std::string, std::string>, SavedGroup> groups;
  for (const SavedTensor& tensor : saved) {
    SavedGroup group{.made_by = text(tensor.made_by), .needed_by = {}};
    std::vector<std::string> readers;
    for (OperatorId id : tensor.needed_by) {
      const std::string reader = text(id);
      if (std::find(readers.begin(), readers.end(), reader) == readers.end()) {
        readers.push_back(reader);
      }
    }
    const std::size_t shown = each ? readers.size() : std::min(readers.size(), kReaders);
    group.needed_by = tensor.by_recomputation ? "recomputed from it: " : "";
    for (std::size_t i = 0; i < shown; ++i)
      group.needed_by += (i > 0 ? ", " : "") + readers[i];
    if (shown < readers.size()) {
      group.needed_by += fmt::format(" and {} more", readers.size() - shown);
    }
    SavedGroup& known = groups.try_emplace({group.made_by, group.needed_by}, group).first->second;
    ++known.count;
    known.bytes += graph.storages[tensor.storage].bytes;
  }
  std::vector<SavedGroup> list;
  list.reserve(groups.size());
  for (auto& [key, group] : groups)
    list.push_back(std::move(group));
  std::stable_sort(list.begin(), list.end(),
                   [](const SavedGroup& a, const SavedGroup& b) { return a.bytes > b.bytes; });
  return list;
}

}  // namespace tidemark
