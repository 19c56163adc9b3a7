#include <string>
#include <vector>

#include <fmt/format.h>

#include "hwprofiles/device_profile.hpp"

namespace tidemark {
namespace for_framework_detail {
namespace {

// FlashAttention-2, which the profiles' attention is, came with PyTorch 2.2 and doubled the rate
// (its release notes).
constexpr double kFirstFlashAttention = 0.5;

// Leaves of the figures PATH.ERA the one of `era`, as PATH.
void choose_figure(const std::string& path, FrameworkEra era, std::vector<Figure>& figures) {
  const std::string chosen = fmt::format("{}.{}", path, name_of(era));
  std::erase_if(figures, [&](const Figure& figure) {
    return figure.path.starts_with(path + '.') && figure.path != chosen;
  });
  for (Figure& figure : figures) {
    if (figure.path == chosen) figure.path = path;
  }
}

}  // namespace
}  // namespace for_framework_detail

DeviceProfile for_framework(DeviceProfile profile, FrameworkEra era) {
  if (era == FrameworkEra::kTorch21) {
    for (auto* curves : {&profile.attention_forward, &profile.attention_backward}) {
      for (AttentionCurve& curve : *curves) {
        curve.share *= for_framework_detail::kFirstFlashAttention;
        curve.causal_share *= for_framework_detail::kFirstFlashAttention;
      }
    }
  }
  profile.host.dispatch = profile.host.dispatches.at(era);
  profile.framework.context = profile.framework.contexts.at(era);
  for_framework_detail::choose_figure("host.dispatch", profile.host.dispatches.era_for(era),
                                      profile.figures);
  for_framework_detail::choose_figure("framework.context", profile.framework.contexts.era_for(era),
                                      profile.figures);
  return profile;
}

}  // namespace tidemark
