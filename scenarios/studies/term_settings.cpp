#include "scenarios/studies/term_settings.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "scenarios/studies/measures/measures.hpp"

namespace tidemark {
namespace term_settings_detail {
namespace {

std::string for_hugging_face(const Measure& measure) {
  return measure.hugging_face.empty() ? deepspeed_argument({&measure, 1}) : measure.hugging_face;
}

// Lists measures under the terms that they change.
class Terms {
 public:
  explicit Terms(const BytesByRole& at_peak) : at_peak_(at_peak) {}

  void add(std::initializer_list<Role> roles, const Measure& measure) {
    for (const Role role : roles) {
      const Bytes bytes = at_peak_[static_cast<std::size_t>(role)];
      if (bytes == Bytes(0)) continue;
      by_role_[static_cast<std::size_t>(role)].push_back(
          {.role = role,
           .bytes = bytes,
           .change = measure.text,
           .pytorch = measure.pytorch,
           .hugging_face = for_hugging_face(measure)});
    }
  }
  void add(std::initializer_list<Role> roles, const std::optional<Measure>& measure) {
    if (measure) add(roles, *measure);
  }
  // Returns them by role.
  [[nodiscard]] std::vector<TermSetting> all() const {
    std::vector<TermSetting> settings;
    for (const std::vector<TermSetting>& of_role : by_role_)
      settings.insert(settings.end(), of_role.begin(), of_role.end());
    return settings;
  }

 private:
  const BytesByRole& at_peak_;
  std::array<std::vector<TermSetting>, kRoles> by_role_;
};

// Returns the roles of the largest tensors that the loss makes: logits, their copies and gradients.
std::vector<Role> roles_of_loss(const PeakReport& peak) {
  static constexpr std::string_view kOfLoss[] = {"log_softmax", "nll_loss", "cross_entropy"};
  constexpr Bytes kLeast(1 << 20);  // the sum of the losses is of it, too
  std::vector<Role> roles;
  for (const LargestTensor& tensor : peak.largest) {
    const bool of_loss = std::any_of(
        std::begin(kOfLoss), std::end(kOfLoss),
        [&](std::string_view operator_of) { return tensor.op.starts_with(operator_of); });
    if (!of_loss || tensor.bytes < kLeast) continue;
    if (std::find(roles.begin(), roles.end(), tensor.role) == roles.end())
      roles.push_back(tensor.role);
  }
  return roles;
}

}  // namespace
}  // namespace term_settings_detail

std::vector<TermSetting> term_settings(const DetailedPoint& point) {
  const Measures measures(point.document, point.scenario, *point.detail.model);
  term_settings_detail::Terms terms(point.result.peak.by_role);
  terms.add({Role::kSavedActivation}, measures.recompute());
  terms.add({Role::kSavedActivation}, measures.offload_activations());
  if (const std::optional<Measure> fused = measures.fused_loss()) {
    for (const Role role : term_settings_detail::roles_of_loss(point.result.peak))
      terms.add({role}, *fused);
  }
  terms.add({Role::kGradient}, measures.optimizer_in_backward());
  terms.add({Role::kOptimizerState}, measures.offload_optimizer());
  terms.add({Role::kParameter}, measures.offload_parameters());
  terms.add({Role::kParameter, Role::kGradient, Role::kOptimizerState}, measures.sharding());
  for (const Measure& optimizer : measures.optimizers())
    terms.add({Role::kOptimizerState}, optimizer);
  for (const Measure& precision : measures.precisions()) {
    // Autocast narrows what is computed; parameters and their gradients stay as they are.
    const bool autocast = precision.text.ends_with("_autocast");
    if (autocast) {
      terms.add({Role::kSavedActivation, Role::kActivationGradient, Role::kTemporary}, precision);
    } else {
      terms.add({Role::kParameter, Role::kGradient, Role::kOptimizerState, Role::kSavedActivation,
                 Role::kActivationGradient, Role::kTemporary},
                precision);
    }
  }
  terms.add({Role::kGradient, Role::kOptimizerState}, measures.adapters(false));
  terms.add({Role::kParameter}, measures.adapters(true));
  for (const Measure& detail : measures.details()) {
    if (detail.kind == MeasureKind::kZeroGrad) terms.add({Role::kGradient}, detail);
  }
  const std::vector<std::int64_t> smaller = measures.smaller_micro_batches();
  if (!smaller.empty()) {
    terms.add({Role::kInput, Role::kSavedActivation, Role::kActivationGradient, Role::kTemporary,
               Role::kWorkspace},
              measures.micro_batch(smaller.back()));
  }
  return terms.all();
}

nlohmann::ordered_json term_settings_json(const std::vector<TermSetting>& settings) {
  using Json = nlohmann::ordered_json;
  const auto or_null = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  Json list = Json::array();
  for (const TermSetting& setting : settings) {
    list.push_back({{"role", name_of(setting.role)},
                    {"bytes", setting.bytes.count},
                    {"change", setting.change},
                    {"pytorch", or_null(setting.pytorch)},
                    {"hugging_face", or_null(setting.hugging_face)}});
  }
  return list;
}

}  // namespace tidemark
