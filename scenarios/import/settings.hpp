// The settings of another tool's file, and what the import makes of each.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/core/decoder.hpp"

namespace tidemark {

// One setting of an imported file.
struct ImportedSetting {
  std::string key;    // "zero_optimization.stage"
  std::string value;  // value as JSON on one line
  Location location;  // location of the key
  // The key that it becomes in the scenario ("policies.zero.stage: 3"), or the reason why nothing.
  std::string outcome;
};

struct ImportReport {
  std::vector<ImportedSetting> understood;
  std::vector<ImportedSetting> without_effect;  // no figure depends on them
  std::vector<ImportedSetting> not_understood;
};

// One mapping of an imported file. Each key is reported once: where the importer says what became
// of it, or at finish(). Values of a wrong type are a UserError with their place. A key that is
// null, or "auto" (left to the Hugging Face Trainer), counts as absent.
class Settings {
 public:
  // `mapping` and `report` outlive this; a null `mapping` has no keys.
  Settings(const Value* mapping, std::string path, ImportReport& report);

  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] bool is_auto(std::string_view key) const;
  [[nodiscard]] const Value* value(std::string_view key) const;
  [[nodiscard]] Location location(std::string_view key) const;

  // Integers may be written as 5e8, as configurations in JSON have them.
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key,
                                                    Range range = at_least(0)) const;
  [[nodiscard]] std::optional<double> number(std::string_view key, Range range = {}) const;
  [[nodiscard]] std::optional<bool> flag(std::string_view key) const;
  // Returns the text in lower case.
  [[nodiscard]] std::optional<std::string> word(std::string_view key) const;
  // Returns the mapping at `key`, empty where there is none; its keys report for themselves.
  [[nodiscard]] Settings group(std::string_view key);

  // Each says the outcome of a key that is there.
  void becomes(std::string_view key, const std::string& outcome);
  void without_effect(std::string_view key, const std::string& reason = "");
  void not_understood(std::string_view key, const std::string& reason);
  // Reports all keys that are in `keys`, or begin with one that ends in '*', as without effect.
  void without_effect(std::span<const std::string_view> keys);
  // Reports what is left: "auto" as without effect, the rest as not understood.
  void finish();

  [[nodiscard]] ImportReport& report() const { return report_; }

 private:
  void add(std::vector<ImportedSetting>& list, std::string_view key, const std::string& outcome);
  [[nodiscard]] std::string path_of(std::string_view key) const;
  // Returns a copy of the mapping of a tool with only `key`, for its errors.
  [[nodiscard]] Decoder decoder() const { return Decoder(*mapping_, path_); }

  const Value* mapping_;
  std::string path_;
  ImportReport& report_;
  std::set<std::string, std::less<>> reported_;
};

}  // namespace tidemark
