// Saved activations with fewer bits, as the hooks of ActNN and GACT keep them:
//
//   forward   ... last reader of x | pack x              x is freed
//   backward  unpack for one node | its kernels | ...    each node that reads x gets its own copy
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/operators/family.hpp"
#include "policies/compress/entries.hpp"
#include "policies/compress/packed_size.hpp"

namespace tidemark {
namespace compress_activations_detail {
namespace {

struct CompressOptions {
  PackingOptions packing;
  std::vector<std::string> kinds;  // families whose nodes keep the tensor; "saved": any
};

// The uses of a storage in one micro-batch.
struct Use {
  OperatorId maker;
  OperatorId last_forward;
  int makers = 0;
  bool read_in_backward = false;
  bool changed_in_backward = false;
  bool by_kind = false;
};

class ActivationPacking {
 public:
  ActivationPacking(TrainingGraph& graph, const CompressOptions& options)
      : graph_(graph), options_(options) {
    use_.assign(graph.storages.size(), Use());
    packed_.assign(graph.storages.size(), StorageId());
  }

  void run() {
    for (const StepPart& part : graph_.parts.all())
      scan(part);
    const std::size_t storages = graph_.storages.size();
    for (std::size_t i = 0; i < storages; ++i) {
      if (is_chosen(StorageId(i))) pack(StorageId(i));
    }
    for (const StepPart& part : graph_.parts.all()) {
      std::vector<OperatorId>& operators = graph_.part(part.kind, part.chunk);
      if (is_forward(part.kind)) insert_packs(operators);
      if (is_of_backward(part.kind)) insert_unpacks(operators);
    }
    redirect_holds();
  }

 private:
  static bool is_of_backward(PartKind kind) {
    return is_backward(kind) || is_weight_backward(kind);
  }

  void scan(const StepPart& part) {
    for (OperatorId id : part.operators) {
      const Operator& op = graph_.operators[id];
      for (const Touch& touch : graph_.touches_of(id)) {
        Use& use = use_[touch.storage];
        if (is_forward(part.kind)) {
          use.last_forward = id;
          if (touch.access != Access::kCreate || use.maker == id) continue;
          use.maker = id;
          ++use.makers;
        } else if (is_of_backward(part.kind)) {
          use.read_in_backward |= touch.access == Access::kRead;
          use.changed_in_backward |= touch.access != Access::kRead;
          use.by_kind |= is_kind(op);
        } else {
          use.changed_in_backward = true;  // it lives longer than the micro-batch
        }
      }
    }
  }

  [[nodiscard]] bool is_kind(const Operator& op) const {
    return std::any_of(options_.kinds.begin(), options_.kinds.end(), [&](const std::string& kind) {
      return kind == "saved" || (op.family != nullptr && op.family->name == kind);
    });
  }

  [[nodiscard]] PackedSize size_of(const Storage& storage) const {
    return packed_size(options_.packing, storage.elements, storage.dtype, graph_.samples);
  }

  // Tensors that packing would not make smaller, such as statistics of a few rows, stay.
  [[nodiscard]] bool is_chosen(StorageId id) const {
    const Storage& storage = graph_.storages[id];
    const Use& use = use_[id];
    if (storage.role != Role::kSavedActivation || storage.initial || storage.persistent) {
      return false;
    }
    if (!is_floating(storage.dtype) || storage.elements.count == 0 || use.makers != 1) return false;
    if (!use.read_in_backward || use.changed_in_backward || !use.by_kind) return false;
    return size_of(storage).bytes() < storage.bytes;
  }

  void pack(StorageId id) {
    Storage packed = graph_.storages[id];
    packed.bytes = size_of(packed).bytes();
    packed.dtype = DType::kByte;
    packed.elements = Elements(0);
    packed.name += ".packed";
    packed_[id] = graph_.storages.push_back(std::move(packed));
  }

  // Two passes over the tensor: its extremes, then its values.
  void insert_packs(std::vector<OperatorId>& part) {
    std::multimap<OperatorId, StorageId> after;
    for (StorageId id : ids_of(packed_)) {
      if (packed_[id].valid()) after.emplace(use_[id].last_forward, id);
    }
    std::vector<OperatorId> with_packs;
    for (OperatorId id : part) {
      with_packs.push_back(id);
      const auto [begin, end] = after.equal_range(id);
      for (auto at = begin; at != end; ++at) {
        const Bytes whole = graph_.storages[at->second].bytes;
        const Operator& maker = graph_.operators[use_[at->second].maker];
        Operator op{.name = "pack",
                    .phase = Phase::kForward,
                    .node = maker.node,
                    .layer = maker.layer,
                    .work = {.op_class = OperatorClass::kElementwise,
                             .dtype = graph_.storages[at->second].dtype,
                             .read = whole * 2,
                             .written = graph_.storages[packed_[at->second]].bytes,
                             .launches = 2}};
        const std::array touches = {Touch{at->second, Access::kRead},
                                    Touch{packed_[at->second], Access::kCreate}};
        with_packs.push_back(graph_.add_operator(std::move(op), touches));
      }
    }
    part = std::move(with_packs);
  }

  // Returns the copy that the node of an operator of backward reads.
  const std::pair<StorageId, OperatorId>& unpacked(StorageId id, OperatorId reader) {
    const NodeId node = graph_.operators[reader].node;
    const Key key{id, node, node.valid() ? OperatorId() : reader};
    const auto known = unpacked_.find(key);
    if (known != unpacked_.end()) return known->second;
    Storage whole = graph_.storages[id];
    whole.role = Role::kTemporary;
    whole.name += ".unpacked";
    const Bytes bytes = whole.bytes;
    const StorageId copy = graph_.storages.push_back(std::move(whole));
    Operator op{.name = "unpack",
                .part = OperatorPart::kBackward,
                .phase = Phase::kBackward,
                .node = node,
                .layer = graph_.operators[reader].layer,
                .work = {.op_class = OperatorClass::kElementwise,
                         .dtype = graph_.storages[id].dtype,
                         .read = graph_.storages[packed_[id]].bytes,
                         .written = bytes}};
    const std::array touches = {Touch{packed_[id], Access::kRead}, Touch{copy, Access::kCreate}};
    const OperatorId made = graph_.add_operator(std::move(op), touches);
    return unpacked_.emplace(key, std::pair(copy, made)).first->second;
  }

  void insert_unpacks(std::vector<OperatorId>& part) {
    std::vector<OperatorId> with_unpacks;
    std::map<OperatorId, char> issued;
    for (OperatorId id : part) {
      const std::size_t first = graph_.operators[id].first_touch;
      const std::size_t count = graph_.operators[id].touch_count;
      for (std::size_t t = first; t < first + count; ++t) {
        StorageId storage = graph_.touches[t].storage;
        const auto original = original_.find(storage);
        if (original != original_.end()) storage = original->second;  // an operator of two parts
        if (storage.index() >= packed_.size() || !packed_[storage].valid()) continue;
        const auto [copy, unpack] = unpacked(storage, id);
        graph_.touches[t].storage = copy;
        original_[copy] = storage;
        if (issued.emplace(unpack, 1).second) with_unpacks.push_back(unpack);
      }
      with_unpacks.push_back(id);
    }
    part = std::move(with_unpacks);
  }

  // A node of backward holds its own copy; nobody holds the original beyond forward.
  void redirect_holds() {
    std::erase_if(graph_.holds, [&](Hold& hold) {
      const bool is_packed = hold.storage.index() < packed_.size() && packed_[hold.storage].valid();
      if (!is_packed || hold.kind != HoldKind::kSaved) return false;
      const NodeId node = graph_.operators[hold.until].node;
      const auto copy = unpacked_.find({hold.storage, node, OperatorId()});
      if (!node.valid() || copy == unpacked_.end()) return true;
      hold.storage = copy->second.first;
      return false;
    });
  }

  struct Key {
    StorageId storage;
    NodeId node;
    OperatorId alone;  // an operator that belongs to no node
    friend bool operator<(const Key& a, const Key& b) {
      return std::tuple(a.storage.value, a.node.value, a.alone.value) <
             std::tuple(b.storage.value, b.node.value, b.alone.value);
    }
  };

  TrainingGraph& graph_;
  const CompressOptions& options_;
  IdVector<StorageId, Use> use_;
  IdVector<StorageId, StorageId> packed_;  // by storage; invalid where it stays as it is
  std::map<Key, std::pair<StorageId, OperatorId>> unpacked_;
  std::map<StorageId, StorageId> original_;  // by copy
};

class CompressActivations final : public TrainingRewrite {
 public:
  explicit CompressActivations(CompressOptions options) : options_(std::move(options)) {}
  [[nodiscard]] std::string_view name() const override { return "compress_activations"; }
  [[nodiscard]] bool acts_in_evaluation(bool /*computes_loss*/) const override { return false; }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kCompress; }
  void apply(TrainingGraph& graph, const RewriteContext& /*context*/) const override {
    ActivationPacking(graph, options_).run();
  }

 private:
  CompressOptions options_;
};

}  // namespace
}  // namespace compress_activations_detail

const PolicyEntry& compress_activations_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "compress_activations",
      .kind = "training rewrite",
      .summary = "keeps saved activations with fewer bits and restores them in backward",
      .source = "Chen et al. 2021 (ActNN); Liu et al. 2022 (GACT); Xi et al. 2024 (COAT)",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        static constexpr std::array<std::string_view, 4> kSchemes = {"gact", "actnn", "int8",
                                                                     "fp8"};
        compress_activations_detail::CompressOptions options;
        const std::string scheme = d.optional_word("scheme", kSchemes, kSchemes[0]);
        if (scheme == kSchemes[1]) options.packing.scheme = PackingScheme::kActnn;
        if (scheme == kSchemes[3]) options.packing.scheme = PackingScheme::kFp8;
        const bool has_bytes = scheme == kSchemes[2] || scheme == kSchemes[3];
        options.packing.bits = d.optional<int>("bits", has_bytes ? 8 : 4, between(1, 8));
        if (has_bytes && options.packing.bits != 8) {
          d.fail_at("bits", fmt::format("{} has 8 bits; scheme: gact takes 1 to 8", scheme));
        }
        const std::int64_t group = scheme == kSchemes[3] ? 16 : 256;
        options.packing.group = d.optional<std::int64_t>("group", group, between(1, 1 << 20));
        options.kinds = d.list<std::string>("kinds");
        if (options.kinds.empty()) options.kinds = {"saved"};
        for (const std::string& kind : options.kinds) {
          if (kind != "saved" && find_family(kind) == nullptr) {
            d.fail_at("kinds", fmt::format("there is no operator '{}'; write saved for all, or "
                                           "names such as linear",
                                           kind));
          }
        }
        d.finish();
        return std::make_unique<compress_activations_detail::CompressActivations>(
            std::move(options));
      }};
  return kEntry;
}

}  // namespace tidemark
