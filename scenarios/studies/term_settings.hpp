// The settings that change the terms of a point's peak: here, in PyTorch, for Hugging Face.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "graph/core/units.hpp"
#include "graph/ir/storage.hpp"
#include "scenarios/studies/detailed_point.hpp"

namespace tidemark {

struct TermSetting {
  Role role = Role::kParameter;  // the term
  Bytes bytes;                   // bytes of the term at the peak
  std::string change;            // "checkpoint_every(period 1)"
  std::string pytorch;           // empty where PyTorch has no line for it
  std::string hugging_face;      // arguments of its trainers, or DeepSpeed's configuration
};

// Returns what can still be changed about each term at the peak; measures that the scenario takes
// already are not among them. Nothing is simulated.
[[nodiscard]] std::vector<TermSetting> term_settings(const DetailedPoint& point);

// Returns [{"role", "bytes", "change", "pytorch", "hugging_face"}]; null where there is none.
[[nodiscard]] nlohmann::ordered_json term_settings_json(const std::vector<TermSetting>& settings);

}  // namespace tidemark
