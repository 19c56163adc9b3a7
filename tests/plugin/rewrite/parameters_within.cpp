// A rewrite with a budget of its own, compiled out of tree: parameters live on the host, the first
// ones first, until the rest of them takes no more than `budget`.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "policies/registry.hpp"

namespace {

using namespace tidemark;  // NOLINT(google-build-using-namespace): a plugin is a leaf

class ParametersWithin final : public TrainingRewrite {
 public:
  explicit ParametersWithin(std::optional<Bytes> budget) : budget_(budget) {}
  [[nodiscard]] std::string_view name() const override { return "parameters_within"; }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kPlace; }
  [[nodiscard]] std::optional<Bytes> budget() const override { return budget_; }
  [[nodiscard]] bool set_budget(Bytes budget) override {
    budget_ = budget;
    return true;
  }

  void apply(TrainingGraph& graph, const RewriteContext& /*context*/) const override {
    if (!budget_) return;
    Bytes left;
    for (const Storage& storage : graph.storages)
      left += storage.role == Role::kParameter ? storage.bytes : Bytes(0);
    for (Storage& storage : graph.storages) {
      if (storage.role != Role::kParameter || left <= *budget_) continue;
      storage.home = Tier::kHost;
      left -= storage.bytes;
    }
  }

 private:
  std::optional<Bytes> budget_;
};

constexpr PolicyEntry kEntries[] = {
    {.name = "parameters_within",
     .kind = "training rewrite",
     .summary = "keep parameters of at most `budget` on the device, the others on the host",
     .source = "Tidemark's tests/plugin",
     .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
       const auto budget = d.maybe<Bytes>("budget");
       d.finish();
       return std::make_unique<ParametersWithin>(budget);
     }}};

}  // namespace

extern "C" const tidemark::PolicyEntry* tidemark_policies(std::uint32_t abi, std::size_t* count) {
  if (abi != tidemark::kPolicyAbi) return nullptr;
  *count = 1;
  return kEntries;
}
