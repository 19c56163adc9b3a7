// Checks that PYTORCH_CUDA_ALLOC_CONF and a scenario's allocator share. All throw
// std::invalid_argument.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tidemark {

// roundup_power2_divisions has one entry per power of two: 1 MiB and less, 2 MiB, ..., 32 GiB and
// more.
inline constexpr std::size_t kRoundupIntervals = 16;
using RoundupDivisions = std::array<std::int64_t, kRoundupIntervals>;

// CUDAAllocatorConfig of PyTorch 2.4: max_split_size must be larger than kLargeBuffer.
inline constexpr std::int64_t kSmallestSplitLimitMb = 20;

// The forms of roundup_power2_divisions in a scenario. Keys of the text are in MiB.
inline constexpr std::string_view kRoundupForms =
    R"(4 | "[256:1,512:2,>:4]" | {256MiB: 1, ">": 4})";

[[nodiscard]] bool is_power_of_two(std::int64_t value);
void check_roundup_division(std::int64_t divisions, bool zero_allowed);
// Returns the threshold itself, if it lies between 0 and 1.
double check_collection_threshold(double value);

// Collects intervals in the order in which they are given. The first also sets everything below it;
// ">" sets everything from the last one on, that one included.
class RoundupIntervals {
 public:
  void set(std::int64_t mebibytes, std::int64_t divisions);
  void set_rest(std::int64_t divisions);
  [[nodiscard]] const RoundupDivisions& divisions() const { return divisions_; }

 private:
  RoundupDivisions divisions_{};
  std::size_t last_ = 0;
  bool first_ = true;
};

}  // namespace tidemark
