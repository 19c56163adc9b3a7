#include "scenarios/studies/journal/point_keys.hpp"

#include <cstddef>
#include <fstream>
#include <string_view>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "graph/core/piped_files.hpp"
#include "graph/core/sha1.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "tidemark/version.hpp"

namespace tidemark {

std::string sha1_of(std::string_view text) {
  Sha1 sha1;
  sha1.update(text);
  return sha1.hex();
}

PointKeys::PointKeys(const Environment& environment, std::span<const std::string> plugins) {
  common_ = std::string(kVersion) + '\n';
  for (const std::string& plugin : plugins)
    common_ += content_of(plugin) + '\n';
  // Names of profiles and networks have short forms, and profiles name one another: points depend
  // on all that their folders have.
  for (const std::string& folder : environment.profile_folders) {
    add_folder(folder);
    add_folder(folder + "/networks");
  }
}

void PointKeys::add_folder(const std::string& folder) {
  for (const std::string& name : names_in_folder(folder)) {
    if (name.ends_with(".yaml")) common_ += name + ':' + content_of(folder + '/' + name) + '\n';
  }
}

std::string PointKeys::key(const PointDocument& point, const std::string& previous) {
  std::string text = common_ + previous + '\n' + point.error + '\n';
  for (const Value::Entry& entry : point.document.entries) {
    // Keys for the use of results do not change the results.
    const bool after = entry.key == "report" || entry.key == "compare" || entry.key == "goal" ||
                       entry.key == "published";
    if (after) continue;
    // A label names no file.
    const std::string value = entry.key == "name" ? entry.value.scalar : text_of(entry.value);
    text += fmt::format("{}:", entry.key) + value + '\n';
  }
  return sha1_of(text);
}

std::string PointKeys::text_of(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kNull:
      return "~";
    case Value::Kind::kScalar:
      return scalar(value);
    case Value::Kind::kSequence: {
      std::string text = "[";
      for (const Value& item : value.items)
        text += text_of(item) + ',';
      return text + ']';
    }
    case Value::Kind::kMapping: {
      std::string text = "{";
      for (const Value::Entry& entry : value.entries)
        text += fmt::format("{}:{}:", entry.key.size(), entry.key) + text_of(entry.value) + ',';
      return text + '}';
    }
  }
  throw InternalError("a value of no kind");
}

std::string PointKeys::scalar(const Value& value) {
  const std::string& text = value.scalar;
  if (std::string content = content_of(text); !content.empty()) return content;
  return fmt::format("{}:{}", text.size(), text);
}

std::string PointKeys::base_of(const std::string& path) {
  if (!is_yaml_name(path) && !is_open_file_of_process(path)) return {};
  try {
    const Value profile = read_document(path);
    std::string bases;
    for (const char* key : {"extends", "like"}) {
      const Value* base = profile.find(key);
      if (base == nullptr || !base->is_scalar()) continue;
      bases += content_of((folder_of_file(path) / base->scalar).string());
    }
    return bases;
  } catch (const UserError&) {  // reported elsewhere
    return {};
  }
}

const std::string& PointKeys::content_of(const std::string& path) {
  const auto [entry, added] = contents_.try_emplace(path);
  if (!added || !is_file(path)) return entry->second;
  keep_piped(path);
  std::ifstream file(path, std::ios::binary);
  Sha1 sha1;
  std::string block(std::size_t{1} << 20, '\0');
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    sha1.update(std::string_view(block).substr(0, static_cast<std::size_t>(file.gcount())));
  }
  entry->second = "file " + sha1.hex();  // set first, for profiles that extend each other
  // A longer chain is an error, reported elsewhere.
  if (depth_ == kMaxExtends) return entry->second;
  ++depth_;
  const std::string base = base_of(path);
  --depth_;
  return entry->second += base;
}

}  // namespace tidemark
