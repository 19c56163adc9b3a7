// A policy compiled out of tree: recompute every block but the first `keep`. It uses only
// installed headers and resolves everything else in the program that loads it:
//     tidemark run scenario.yaml --plugin libtidemark_example_policy.so
#include <cstddef>
#include <cstdint>
#include <memory>

#include "policies/registry.hpp"
#include "policies/residency/checkpoint.hpp"

namespace {

using namespace tidemark;  // NOLINT(google-build-using-namespace): a plugin is a leaf

class KeepFirstBlocks final : public ResidencyPolicy {
 public:
  explicit KeepFirstBlocks(int keep) : keep_(keep) {}
  [[nodiscard]] std::string_view name() const override { return "keep_first_blocks"; }

  void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const override {
    for (const BlockRegion& block : block_segments(context, 1)) {
      if (block.first_block >= keep_) recompute_segment(context, block, plan);
    }
  }

 private:
  int keep_;
};

constexpr PolicyEntry kEntries[] = {
    {.name = "keep_first_blocks",
     .kind = "residency",
     .summary = "recompute every block but the first `keep`; an example of a plugin",
     .source = "Tidemark's tests/plugin",
     .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
       const int keep = d.optional<int>("keep", 1, at_least(0));
       d.finish();
       return std::make_unique<KeepFirstBlocks>(keep);
     }}};

}  // namespace

extern "C" const tidemark::PolicyEntry* tidemark_policies(std::uint32_t abi, std::size_t* count) {
  if (abi != tidemark::kPolicyAbi) return nullptr;
  *count = 1;
  return kEntries;
}
