#include "graph/analysis/same_structure.hpp"

#include <bit>
#include <initializer_list>

namespace tidemark {
namespace same_structure_detail {
namespace {

// Two hashes of 64 bits over the same words, by different mixing.
class Digest {
 public:
  void add(std::uint64_t word) {
    digest_.low = (digest_.low ^ word) * kLowFactor;
    digest_.low ^= digest_.low >> 32;
    digest_.high = (std::rotl(digest_.high, 29) + word) * kHighFactor;
    digest_.high ^= digest_.high >> 29;
  }
  // Adds two numbers of 32 bits.
  void add(std::uint32_t first, std::uint32_t second) { add(std::uint64_t{first} << 32 | second); }
  // Adds numbers below 256.
  void add_bytes(std::initializer_list<unsigned> bytes) {
    std::uint64_t word = 0;
    for (const unsigned byte : bytes)
      word = word << 8 | byte;
    add(word);
  }
  // Adds the length of a table, which tells where it ends, and its items.
  template <class Table, class AddItem>
  void add_all(const Table& table, const AddItem& add_item) {
    add(table.size());
    for (const auto& item : table)
      add_item(*this, item);
  }
  [[nodiscard]] const StructureDigest& value() const { return digest_; }

 private:
  // Odd, with as many ones as zeros: the fractions of the golden ratio and of the root of 3.
  static constexpr std::uint64_t kLowFactor = 0x9E3779B97F4A7C15;
  static constexpr std::uint64_t kHighFactor = 0xBB67AE8584CAA73B;

  StructureDigest digest_{.low = kHighFactor, .high = kLowFactor};
};

template <class Enum>
unsigned byte_of(Enum value) {
  return static_cast<unsigned>(value);
}

std::uint32_t word_of(int value) {
  return static_cast<std::uint32_t>(value);
}

template <class Tag>
void add_id(Digest& digest, Id<Tag> id) {
  digest.add(id.value);
}

void add_touch(Digest& digest, const Touch& touch) {
  digest.add(touch.storage.value, byte_of(touch.access));
}

void add_storage(Digest& digest, const Storage& storage) {
  const unsigned flags = (storage.initial ? 1U : 0U) | (storage.persistent ? 2U : 0U) |
                         (storage.one_per_rank ? 4U : 0U) | (storage.rank_buffer ? 8U : 0U);
  digest.add_bytes({byte_of(storage.dtype), byte_of(storage.role), byte_of(storage.home), flags,
                    storage.rank_buffer.value_or(0)});
  digest.add(storage.layer.value);
}

void add_operator(Digest& digest, const Operator& op) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): there is one of each family
  digest.add(reinterpret_cast<std::uintptr_t>(op.family));
  digest.add_bytes({byte_of(op.part), byte_of(op.phase), byte_of(op.executor),
                    byte_of(op.work.op_class), byte_of(op.work.dtype),
                    (op.blocks_host ? 1U : 0U) | (op.workspace > Bytes(0) ? 2U : 0U)});
  digest.add(op.node.value, op.layer.value);
  digest.add(op.recomputed_by.value);
  digest.add(op.first_touch, op.touch_count);
  const Collective& collective = op.work.collective;
  digest.add_bytes({byte_of(collective.kind), byte_of(collective.group),
                    (collective.blocks_compute ? 1U : 0U) | (collective.neighbours ? 2U : 0U)});
  digest.add(word_of(collective.peer), word_of(collective.tag));
  digest.add(word_of(collective.ranks));
}

void add_layer(Digest& digest, const Layer& layer) {
  digest.add(word_of(layer.block));
}

void add_hold(Digest& digest, const Hold& hold) {
  digest.add(hold.storage.value, byte_of(hold.kind));
  digest.add(hold.since.value, hold.until.value);
}

void add_part(Digest& digest, const StepPart& part) {
  digest.add(byte_of(part.kind), part.chunk);
  digest.add_all(part.operators, add_id<OperatorTag>);
}

void add_rules(Digest& digest, const TrainingGraph& graph) {
  digest.add(graph.loss.value);
  digest.add_all(graph.leaves, add_id<StorageTag>);
  digest.add_all(graph.module_state, add_id<StorageTag>);
  digest.add(word_of(graph.blocks), word_of(graph.turns));
  digest.add_bytes({graph.has_frames ? 1U : 0U, graph.compiled ? 1U : 0U,
                    graph.checkpoint_stops_early ? 1U : 0U, graph.gradients_persist ? 1U : 0U,
                    graph.updates_in_backward ? 1U : 0U});
  digest.add(static_cast<std::uint64_t>(graph.checkpoint_random_state.count));
  digest.add(word_of(graph.micro_batches), word_of(graph.skipped_updates));
}

}  // namespace
}  // namespace same_structure_detail

StructureDigest structure_digest(const TrainingGraph& graph) {
  namespace detail = same_structure_detail;
  detail::Digest digest;
  detail::add_rules(digest, graph);
  digest.add_all(graph.touches, detail::add_touch);
  digest.add_all(graph.storages, detail::add_storage);
  digest.add_all(graph.operators, detail::add_operator);
  digest.add_all(graph.layers, detail::add_layer);
  digest.add_all(graph.holds, detail::add_hold);
  digest.add_all(graph.parts.all(), detail::add_part);
  return digest.value();
}

}  // namespace tidemark
