// Loads the document of a scenario: files, what they extend, and scenarios made from a command
// line.
#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "graph/core/paths.hpp"
#include "graph/core/piped_files.hpp"
#include "graph/models/preset.hpp"
#include "hwprofiles/gpu_names.hpp"
#include "scenarios/read/other_names.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/read/short_form.hpp"

namespace tidemark {
namespace load_scenario_detail {
namespace {

namespace fs = std::filesystem;

void make_absolute(Value& path, const fs::path& folder) {
  if (!path.is_scalar() || path.scalar.empty()) return;
  path.scalar = absolute_path(folder / path.scalar).string();
}

void resolve_path(std::string_view key, Value& value, const fs::path& folder);

// A pipeline's table of a schedule and the model of a distillation's teacher are files.
void resolve_policy(const std::string& name, Value& parameters, const fs::path& folder) {
  if (Value* schedule = parameters.find("schedule"); name == "pipeline" && schedule != nullptr) {
    if (Value* table = schedule->find("table")) make_absolute(*table, folder);
  }
  Value* teacher = parameters.find("teacher");
  if (name == "distill" && teacher != nullptr) resolve_path("model", *teacher, folder);
}

void resolve_policies(Value& list, const fs::path& folder) {
  for (Value& item : list.items)
    resolve_policies(item, folder);
  for (Value::Entry& entry : list.entries)
    resolve_policy(entry.key, entry.value, folder);
}

// Makes the path in the value of `key` absolute.
void resolve_path(std::string_view key, Value& value, const fs::path& folder) {
  const auto resolve_child = [&](std::string_view child) {
    if (Value* path = value.find(child)) {
      resolve_path(fmt::format("{}.{}", key, child), *path, folder);
    }
  };
  bool is_path = key == "model.hf" || key == "model.graph" || key == "model.onnx";
  if (key == "report") resolve_child("dir");
  if (key == "report.dir") is_path = true;
  if (key == "model") {
    is_path = is_model_path(value.scalar);
    for (const std::string_view kind : model_kinds())
      resolve_child(kind);
  }
  if (key == "model.layers") is_path = is_layers_path(value.scalar);
  if (key == "hardware" || key == "hardware.gpu") {
    is_path = is_profile_path(value.scalar);
    resolve_child("gpu");
  }
  if (key == "policies") resolve_policies(value, folder);
  // Each turn may have a model of its own.
  if (key == "training") resolve_child("turns");
  if (key == "training.turns") {
    for (Value& turn : value.items) {
      if (Value* model = turn.find("model")) resolve_path("model", *model, folder);
    }
  }
  if (is_path) make_absolute(value, folder);
}

// Makes the paths in the values of a mapping and in the points of a sweep absolute.
void resolve_paths(Value& keys, const fs::path& folder) {
  for (Value::Entry& entry : keys.entries)
    resolve_path(entry.key, entry.value, folder);
  Value* sweep = keys.find("sweep");
  if (sweep == nullptr) return;
  if (Value* matrix = sweep->find("matrix")) {
    for (Value::Entry& entry : matrix->entries) {
      for (Value& item : entry.value.items)
        resolve_path(entry.key, item, folder);
    }
  }
  for (const std::string_view list : {"include", "exclude"}) {
    Value* points = sweep->find(list);
    if (points == nullptr) continue;
    for (Value& point : points->items) {
      for (Value::Entry& entry : point.entries)
        resolve_path(entry.key, entry.value, folder);
    }
  }
}

// Merges `changes` over `base`: mappings key by key, everything else is replaced. A model of
// another kind replaces the whole model: the layers of a preset mean nothing to a file.
Value merge(const Value& base, const Value& changes, const std::string& path) {
  if (!changes.is_mapping()) return changes;
  Value merged = base.is_scalar() && has_long_form(path) ? long_form(path, base) : base;
  if (!merged.is_mapping()) return changes;
  if (path == "model" && !model_kind_of(changes).empty() &&
      model_kind_of(changes) != model_kind_of(merged)) {
    return changes;
  }
  merged.location = changes.location;
  for (const Value::Entry& change : changes.entries) {
    const Value* present = merged.find(change.key);
    const std::string inner = path.empty() ? change.key : path + '.' + change.key;
    Value value = present == nullptr ? change.value : merge(*present, change.value, inner);
    set_entry(merged, change.key, change.location, std::move(value));
  }
  return merged;
}

// A file that is being read because the next one in the chain extends it, or because it was named.
struct OpenFile {
  fs::path identity;
  Location extends;  // location at which it names the next
};

[[noreturn]] void fail_circle(const std::vector<OpenFile>& chain, const fs::path& closing) {
  const auto first = std::find_if(chain.begin(), chain.end(),
                                  [&](const OpenFile& open) { return open.identity == closing; });
  std::string circle;
  for (auto open = first; open != chain.end(); ++open) {
    circle += fmt::format("{}:{}:{} extends ", open->extends.file, open->extends.line,
                          open->extends.column);
  }
  throw UserError(chain.back().extends, "extends",
                  "a scenario cannot extend itself: " + circle + first->extends.file);
}

Value load_file(const std::string& path, std::vector<OpenFile>& chain);

// Reads the file that `extends` names.
Value load_base(const Value& extends, const fs::path& folder, std::vector<OpenFile>& chain) {
  if (!extends.is_scalar() || extends.scalar.empty()) {
    throw UserError(extends.location, "extends", "expected the path of one scenario file");
  }
  const std::string file = (folder / extends.scalar).lexically_normal().string();
  const fs::path identity = identity_of_path(file);
  chain.back().extends = extends.location;
  const bool open = std::any_of(chain.begin(), chain.end(),
                                [&](const OpenFile& other) { return other.identity == identity; });
  if (open) fail_circle(chain, identity);
  if (chain.size() >= kMaxExtends) {
    throw UserError(extends.location, "extends",
                    fmt::format("more than {} files extend one another", kMaxExtends));
  }
  try {
    return load_file(file, chain);
  } catch (const UserError& error) {
    if (error.location().line > 0) throw;
    throw UserError(extends.location, "extends", error.what());  // the file could not be read
  }
}

Value load_file(const std::string& path, std::vector<OpenFile>& chain) {
  if (const std::string advice = advice_for_weights(path); !advice.empty() && path_exists(path))
    throw UserError(fmt::format("{} is no scenario{}", excerpt(path), advice));
  Value document = read_document(path);
  if (document.is_null()) {
    throw UserError(document.location, "", "the file is empty; `tidemark init` writes a scenario");
  }
  if (!document.is_mapping()) {
    throw UserError(document.location, "", "expected a scenario: a mapping with a key 'model'");
  }
  const fs::path folder = folder_of_file(path);
  resolve_paths(document, folder);
  const Value* extends = document.find("extends");
  if (extends == nullptr) return document;
  chain.push_back({.identity = identity_of_path(path), .extends = {}});
  Value base = load_base(*extends, folder, chain);
  // Figures that were published of the base's points say nothing of others.
  std::erase_if(base.entries, [](const Value::Entry& entry) { return entry.key == "published"; });
  chain.pop_back();
  std::erase_if(document.entries, [](const Value::Entry& entry) { return entry.key == "extends"; });
  return merge(base, document, {});
}

std::string unknown_model(const std::string& name) {
  const std::string advice = advice_for_model(name);
  if (!advice.empty()) {
    return fmt::format("{} is neither a file nor a preset{}", tidemark::quoted_excerpt(name),
                       advice);
  }
  std::vector<std::string> names;
  for (const ModelPreset& preset : all_presets())
    names.push_back(preset.name);
  const std::string hint = did_you_mean(name, names);
  return fmt::format("{} is neither a file nor a preset{}", tidemark::quoted_excerpt(name),
                     hint.empty() ? fmt::format("; presets: {}", fmt::join(names, ", ")) : hint);
}

}  // namespace
}  // namespace load_scenario_detail

Value extended_model(const Value& base, const Value& changes) {
  return load_scenario_detail::merge(base, changes, "model");
}

Value load_scenario(const std::string& path) {
  std::vector<load_scenario_detail::OpenFile> chain;
  return load_scenario_detail::load_file(path, chain);
}

Value scenario_of_model(const std::string& model, const std::string& gpu) {
  const Location unknown;
  Value document = mapping_value(unknown);
  set_entry(document, "version", unknown, text_value("1", unknown));
  Value word = text_value(model, unknown);
  if (!is_preset(model)) {
    const bool in_folder = is_folder(model);
    const bool by_other_name = !advice_for_model(model).empty();
    if ((!is_model_path(model) || by_other_name) && !path_exists(model)) {
      throw UserError({}, "model", load_scenario_detail::unknown_model(model));
    }
    // A folder has its files as Hugging Face names them.
    if (in_folder) word.scalar = (std::filesystem::path(model) / "config.json").string();
    load_scenario_detail::make_absolute(word, {});
  }
  set_entry(document, "model", unknown, long_form("model", word));
  if (!gpu.empty()) {
    const Location option{.file = "--gpu"};
    Value name = text_value(gpu, option);
    load_scenario_detail::resolve_path("hardware", name, {});
    set_entry(document, "hardware", option, std::move(name));
  }
  return document;
}

}  // namespace tidemark
