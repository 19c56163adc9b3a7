// Figures and settings in words, the same in every command.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "graph/core/units.hpp"
#include "sim/step/simulate.hpp"

namespace tidemark {

// The indent of a list under a heading.
inline constexpr std::size_t kIndent = 2;

// Formats all bytes of a column in one unit, so that figures can be compared at a glance.
class BytesColumn {
 public:
  // The unit follows from `largest`: GiB from 1 GiB on, else MiB, else bytes.
  explicit BytesColumn(Bytes largest);
  [[nodiscard]] std::string text(Bytes bytes) const;  // "37.11 GiB"

 private:
  double scale_;
  int decimals_;
  std::string_view unit_;
};

[[nodiscard]] std::string grouped(std::int64_t number);  // "1,234,567"
[[nodiscard]] std::string rate(double per_second);       // "9,696", "89.4", "0.52"
[[nodiscard]] std::string operations(Flops flops);       // "137 GFLOP"
[[nodiscard]] std::string percent(double share);         // "52 %", "0.4 %"
// Returns a part in percent of the whole; empty where there is no whole.
[[nodiscard]] std::string share_of(Bytes part, Bytes whole);
[[nodiscard]] std::string share_of(Duration part, Duration whole);
[[nodiscard]] std::string in_seconds(Duration duration,
                                     Duration largest);  // "1.234 s" or "412.3 ms"

// The median error of peaks of published runs on several GPUs, of `tidemark validate` (3.1 %; on
// one GPU it is 0.4 %).
inline constexpr double kPeakError = 0.03;
inline constexpr std::string_view kPeakErrorText = "3 %";
// Whether a run that fits leaves less free than this, so that a real one may not fit.
[[nodiscard]] bool is_close(Bytes used, Bytes capacity);
[[nodiscard]] bool is_close(const PointResult& point);
// Says so of `count` runs among others; empty for none.
[[nodiscard]] std::string close_runs(std::ptrdiff_t count);
inline constexpr std::string_view kCloseReason =
    "peaks of real runs differ from simulated ones by as much";

// Returns a setting in words: "4", "a100-sxm-80gb", and policies as "checkpoint_every(period 1) +
// offload_activations", none as "no policy".
[[nodiscard]] std::string short_setting(const Value& setting);

// Returns "7 all_reduce operations of 237 MiB over 8 data ranks: 1.46 ms busy, 120 us of it
// exposed".
[[nodiscard]] std::string communication_text(const Communication& used, const Mesh& mesh);

// Returns "a batch of 4 MiB every 16 ms; up to 8 ahead: ..." of a data loader.
[[nodiscard]] std::string loader_text(const LoaderFigures& loader);
// Returns "5.2 GiB on the device and 131 GiB on the host at most" of loading the weights.
[[nodiscard]] std::string load_text(const LoadFigures& load);

// Returns "backward, h.47.mlp: linear.weight_gradient".
[[nodiscard]] std::string place(Phase phase, std::string_view layer, std::string_view op);

// Returns the name that all points have in common, or how many they are.
[[nodiscard]] std::string title_of(std::span<const PointResult> points);

// Says by how much the step of a planned policy exceeds the budget it was planned for; empty where
// it does not, or where that is said already because no plan fits.
[[nodiscard]] std::string over_budget(const PointResult& point);

// Returns a bar of `share` * `width` characters, down to eighths.
[[nodiscard]] std::string bar(double share, std::size_t width);

}  // namespace tidemark
