// Tensors are typed, strided views of storages; a storage is the memory that the model owns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "graph/core/ids.hpp"
#include "graph/core/units.hpp"
#include "graph/ir/dtype.hpp"

namespace tidemark {

inline constexpr int kMaxRank = 8;

// Up to kMaxRank extents (or strides), outermost first. Kept inline: shapes are copied a lot.
class Extents {
 public:
  constexpr Extents() = default;
  constexpr Extents(std::initializer_list<std::int64_t> values) {
    for (std::int64_t v : values)
      push_back(v);
  }
  constexpr void push_back(std::int64_t v) { values_.at(static_cast<std::size_t>(rank_++)) = v; }
  [[nodiscard]] constexpr int rank() const { return rank_; }
  [[nodiscard]] constexpr std::int64_t operator[](int axis) const {
    return values_[static_cast<std::size_t>(axis < 0 ? axis + rank_ : axis)];
  }
  [[nodiscard]] constexpr std::int64_t& operator[](int axis) {
    return values_[static_cast<std::size_t>(axis < 0 ? axis + rank_ : axis)];
  }
  [[nodiscard]] constexpr const std::int64_t* begin() const { return values_.data(); }
  [[nodiscard]] constexpr const std::int64_t* end() const { return values_.data() + rank_; }
  friend constexpr bool operator==(const Extents& a, const Extents& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i) {
      if (a[i] != b[i]) return false;
    }
    return true;
  }

 private:
  std::array<std::int64_t, kMaxRank> values_{};
  int rank_ = 0;
};

using Shape = Extents;
using Strides = Extents;  // in elements; 0 where an axis is expanded

// Number of elements; throws UserError when it does not fit into 62 bits.
[[nodiscard]] std::int64_t element_count(const Shape& shape);
[[nodiscard]] Strides contiguous_strides(const Shape& shape);
[[nodiscard]] std::string to_string(const Shape& shape);  // "[2, 128, 768]"

// A value type: views of gradients come and go without a table.
struct Tensor {
  StorageId storage;
  DType dtype = DType::kFloat32;
  Shape shape;
  Strides strides;
  bool requires_grad = false;

  [[nodiscard]] std::int64_t elements() const { return element_count(shape); }
  [[nodiscard]] Bytes bytes() const { return Bytes(elements() * size_of(dtype)); }
  // Row-major without gaps, as torch.Tensor.is_contiguous() (axes of extent 1 do not count).
  [[nodiscard]] bool is_contiguous() const;
};

// The strides under which a tensor of `shape` and `strides` can be seen as `target` without a copy
// (torch's computeStride). False when a copy is needed.
[[nodiscard]] bool view_strides(const Shape& shape, const Strides& strides, const Shape& target,
                                Strides& result);

// What memory is for; the roles of `memory.peak.by_role`.
enum class Role : std::uint8_t {
  kParameter,
  kGradient,         // .grad of a parameter
  kOptimizerState,   // moments, master weights
  kBuffer,           // running statistics, masks, tables
  kInput,            // samples and targets
  kSavedActivation,  // kept by autograd from forward to backward
  kActivationGradient,
  kTemporary,  // any other tensor
  kWorkspace,  // inside one operator only
};
inline constexpr int kRoles = static_cast<int>(Role::kWorkspace) + 1;

[[nodiscard]] constexpr std::string_view name_of(Role role) {
  constexpr std::string_view kNames[] = {
      "parameter",           "gradient",  "optimizer_state", "buffer", "input", "saved_activation",
      "activation_gradient", "temporary", "workspace"};
  return kNames[static_cast<int>(role)];
}

// Where memory is. A device's operators work on its own memory, those of a host worker on pinned
// host memory; NVMe is reached through a pinned buffer.
enum class Tier : std::uint8_t { kDevice, kHost, kNvme };
inline constexpr std::size_t kTiers = 3;
[[nodiscard]] constexpr std::string_view name_of(Tier tier) {
  constexpr std::string_view kNames[] = {"device", "host", "nvme"};
  return kNames[static_cast<int>(tier)];
}

struct Storage {
  Bytes bytes;
  Role role = Role::kTemporary;
  LayerId layer;
  // Present from before the first step until after the last: parameters, buffers, inputs, masters.
  bool initial = false;
  // Once written it stays until something drops it explicitly: .grad, optimizer state.
  bool persistent = false;
  // Where a value that nobody touches belongs: what is written elsewhere is copied back.
  Tier home = Tier::kDevice;
  std::string name;
};

}  // namespace tidemark
