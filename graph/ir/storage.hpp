// A storage is the memory that the model owns; tensors are views of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "graph/core/ids.hpp"
#include "graph/core/units.hpp"
#include "graph/ir/dtype.hpp"

namespace tidemark {

// The purpose of memory; the roles of `memory.peak.by_role`.
enum class Role : std::uint8_t {
  kParameter,
  kGradient,         // .grad of a parameter
  kOptimizerState,   // moments, master weights
  kBuffer,           // running statistics, masks, tables
  kInput,            // samples and targets
  kSavedActivation,  // kept by autograd from forward to backward
  kActivationGradient,
  kTemporary,           // any other tensor
  kGradientBucket,      // gradients packed for an all-reduce
  kGatheredParameter,   // a parameter brought together from the ranks that hold its parts
  kCommunication,       // buffers that ranks send from and receive into
  kFrozenParameter,     // a parameter that is not trained
  kQuantisedParameter,  // codes, scales and tables of a quantised weight
  kAdapter,             // trained beside a frozen weight
  kTeacher,             // weights and buffers of a model that is distilled from
  kLoader,              // batches that wait on the device
  kKeyValueCache,       // keys and values of earlier tokens, in generation
  kWorkspace,           // memory inside one operator only
};
inline constexpr int kRoles = static_cast<int>(Role::kWorkspace) + 1;

[[nodiscard]] constexpr std::string_view name_of(Role role) {
  constexpr std::string_view kNames[] = {"parameter",
                                         "gradient",
                                         "optimizer_state",
                                         "buffer",
                                         "input",
                                         "saved_activation",
                                         "activation_gradient",
                                         "temporary",
                                         "gradient_bucket",
                                         "gathered_parameter",
                                         "communication",
                                         "frozen_parameter",
                                         "quantised_parameter",
                                         "adapter",
                                         "teacher",
                                         "loader",
                                         "key_value_cache",
                                         "workspace"};
  return kNames[static_cast<int>(role)];
}

// Whether it is a weight of the model that is trained or fine-tuned.
[[nodiscard]] constexpr bool is_parameter(Role role) {
  return role == Role::kParameter || role == Role::kFrozenParameter ||
         role == Role::kQuantisedParameter || role == Role::kAdapter;
}

// The place of memory. A device's operators work on its own memory, those of a host worker on
// page-locked host memory; NVMe is reached through a page-locked buffer.
enum class Tier : std::uint8_t { kDevice, kHost, kNvme };
inline constexpr std::size_t kTiers = 3;
[[nodiscard]] constexpr std::string_view name_of(Tier tier) {
  constexpr std::string_view kNames[] = {"device", "host", "nvme"};
  return kNames[static_cast<int>(tier)];
}

// The processor that runs a kernel.
// kReduction, kReplicas: the device, on the stream of reductions of shard groups or on that of sums
// over their replicas.
enum class Executor : std::uint8_t { kDevice, kHost, kReduction, kReplicas };

struct Storage {
  Bytes bytes;
  // The content: bytes == bytes_of(dtype, elements). kByte stands for memory of which only the
  // size is known; `elements` is 0 then.
  DType dtype = DType::kByte;
  Elements elements;
  Role role = Role::kTemporary;
  LayerId layer;
  // Present from before the first step until after the last: parameters, buffers, inputs, masters.
  bool initial = false;
  // Once written, the content stays until it is dropped explicitly: .grad, optimizer state.
  bool persistent = false;
  // Micro-batches in flight, and the chunks of a rank, use the same memory although nothing of it
  // stays between them: a parameter that is gathered for all of them, a buffer of communication.
  bool one_per_rank = false;
  // Number of a buffer that is there all the time and that every chunk of a rank works in: chunks
  // bring it along, and the rank has it once.
  std::optional<std::uint8_t> rank_buffer;
  // The tier where a value that nobody touches belongs: a content written on another tier is copied
  // back.
  Tier home = Tier::kDevice;
  std::string name;
};

}  // namespace tidemark
