#include "policies/rewrite/ema.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policies/rewrite/entries.hpp"

namespace tidemark {
namespace ema_detail {
namespace {

constexpr std::array<std::string_view, 2> kKinds{"in_place", "swa_utils"};
constexpr std::array<std::string_view, 2> kHomes{"device", "host"};
constexpr std::array<std::string_view, 3> kTrainingHomes{"none", "device", "host"};
constexpr std::array<std::string_view, 3> kTypes{"fp32", "bf16", "fp16"};
constexpr Bytes kCounter{8};      // AveragedModel.n_averaged, one int64
constexpr Bytes kDivisor{8 + 4};  // n_averaged + 1, and the same in the type of the weights

Tier tier_named(std::string_view word) {
  return word == "host" ? Tier::kHost : Tier::kDevice;
}

class Averages {
 public:
  Averages(TrainingGraph& graph, const EmaOptions& options) : graph_(graph), options_(options) {}
  void build();

 private:
  [[nodiscard]] StorageId add_copy(StorageId weights, bool is_buffer);
  void add_update(StorageId weights, StorageId average);
  void add_counter();
  [[nodiscard]] IdVector<StorageId, char> owned_by_other_turns() const;
  [[nodiscard]] StorageId add_temporary(StorageId average, const char* suffix, Bytes bytes);

  TrainingGraph& graph_;
  const EmaOptions& options_;
  StorageId counter_;
};

StorageId Averages::add_copy(StorageId weights, bool is_buffer) {
  Storage copy = graph_.storages[weights];
  if (options_.dtype && !is_buffer && is_floating(copy.dtype)) {
    copy.dtype = *options_.dtype;
    copy.bytes = bytes_of(copy.dtype, copy.elements);
  }
  copy.role = Role::kOptimizerState;
  copy.initial = copy.persistent = true;
  copy.home = options_.home;
  copy.name += ".ema";
  return graph_.storages.push_back(std::move(copy));
}

StorageId Averages::add_temporary(StorageId average, const char* suffix, Bytes bytes) {
  Storage made{.bytes = bytes,
               .role = Role::kTemporary,
               .layer = graph_.storages[average].layer,
               .name = graph_.storages[average].name + suffix};
  return graph_.storages.push_back(std::move(made));
}

// Two kernels in place; swa_utils computes the difference, its share and the sum, of which two are
// alive at once, and copies the sum.
void Averages::add_update(StorageId weights, StorageId average) {
  const Bytes read = graph_.storages[weights].bytes;
  const Bytes kept = graph_.storages[average].bytes;
  const bool swa = options_.kind == EmaKind::kSwaUtils;
  Work work{.op_class = OperatorClass::kOptimizer,
            .dtype = graph_.storages[average].dtype,
            .flops = Flops(3 * static_cast<double>(graph_.storages[average].elements.count)),
            .read = read + kept * (swa ? 5 : 2),
            .written = kept * (swa ? 4 : 2),
            .launches = swa ? 4 : 2};
  std::vector<Touch> touches{{weights, Access::kRead}, {average, Access::kMutate}};
  if (swa) {
    touches.push_back({counter_, Access::kRead});
    for (const char* suffix : {".difference", ".share"})
      touches.push_back({add_temporary(average, suffix, kept), Access::kCreate});
    touches.push_back({add_temporary(average, ".divisor", kDivisor), Access::kCreate});
  }
  const Executor executor = options_.home == Tier::kHost ? Executor::kHost : Executor::kDevice;
  Operator op{.name = "ema.update",
              .part = OperatorPart::kUpdate,
              .phase = Phase::kOptimizer,
              .executor = executor,
              .layer = graph_.storages[average].layer,
              .work = work};
  graph_.part(PartKind::kAfterOptimizer).push_back(graph_.add_operator(std::move(op), touches));
}

// self.n_averaged += 1
void Averages::add_counter() {
  Operator op{
      .name = "ema.count",
      .part = OperatorPart::kUpdate,
      .phase = Phase::kOptimizer,
      .work = {.op_class = OperatorClass::kElementwise, .read = kCounter, .written = kCounter}};
  const std::array touches{Touch{counter_, Access::kMutate}};
  graph_.part(PartKind::kAfterOptimizer).push_back(graph_.add_operator(std::move(op), touches));
}

// Returns which storages a turn leaves to others (Parameter::updated_elsewhere): parameters that
// its optimizer does not update, and the buffers of modules of which it updates none. A step
// without turns leaves none.
IdVector<StorageId, char> Averages::owned_by_other_turns() const {
  IdVector<StorageId, char> result(graph_.storages.size(), 0);
  const bool turn = std::any_of(graph_.parameters.begin(), graph_.parameters.end(),
                                [](const Parameter& p) { return p.updated_elsewhere; });
  if (!turn) return result;
  std::set<LayerId> own;
  std::set<LayerId> others;
  for (const Parameter& parameter : graph_.parameters) {
    const bool updated = parameter.gradient.valid() && !parameter.updated_elsewhere;
    (updated ? own : others).insert(parameter.layer);
    result[parameter.storage] = updated ? 0 : 1;
  }
  for (const StorageId id : ids_of(graph_.storages)) {
    const Storage& storage = graph_.storages[id];
    if (storage.role == Role::kBuffer && others.contains(storage.layer) &&
        !own.contains(storage.layer)) {
      result[id] = 1;
    }
  }
  return result;
}

void Averages::build() {
  if (options_.kind == EmaKind::kSwaUtils) {
    counter_ = graph_.storages.push_back({.bytes = kCounter,
                                          .dtype = DType::kInt64,
                                          .elements = Elements(1),
                                          .role = Role::kOptimizerState,
                                          .initial = true,
                                          .persistent = true,
                                          .name = "ema.n_averaged"});
  }
  const IdVector<StorageId, char> of_others = owned_by_other_turns();
  std::vector<StorageId> weights;
  for (const StorageId id : ids_of(graph_.storages)) {
    const Storage& storage = graph_.storages[id];
    const bool copied =
        is_parameter(storage.role) || (options_.buffers && storage.role == Role::kBuffer);
    if (storage.initial && copied && of_others[id] == 0) weights.push_back(id);
  }
  // Buffers are copied with the module and then left alone.
  for (const StorageId id : weights) {
    const bool is_buffer = graph_.storages[id].role == Role::kBuffer;
    const StorageId average = add_copy(id, is_buffer);
    if (!is_buffer) add_update(id, average);
  }
  if (counter_.valid()) add_counter();
}

}  // namespace
}  // namespace ema_detail

EmaOptions decode_ema(const Decoder& d) {
  EmaOptions options;
  options.decay = d.optional<double>("decay", options.decay, between(0, 1));
  if (d.optional_word("kind", ema_detail::kKinds, "in_place") == "swa_utils")
    options.kind = EmaKind::kSwaUtils;
  options.home = ema_detail::tier_named(d.optional_word("home", ema_detail::kHomes, "device"));
  options.buffers = d.optional<bool>("buffers", true);
  if (const std::optional<std::string> word = d.maybe_word("dtype", ema_detail::kTypes)) {
    options.dtype = *word == "fp32"   ? DType::kFloat32
                    : *word == "bf16" ? DType::kBFloat16
                                      : DType::kFloat16;
  }
  d.finish();
  return options;
}

std::optional<EmaOptions> decode_training_ema(const Decoder& training) {
  const std::string word = training.optional_word("ema", ema_detail::kTrainingHomes, "none");
  if (word == "none") return std::nullopt;
  EmaOptions options;
  options.home = ema_detail::tier_named(word);
  return options;
}

void Ema::apply(TrainingGraph& graph, const RewriteContext& /*context*/) const {
  if (graph.trained.empty()) return;
  ema_detail::Averages(graph, options_).build();
}

const PolicyEntry& ema_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "ema",
      .kind = "training rewrite",
      .summary =
          "keeps a moving average of all weights, in their type or another, on the device or the "
          "host, and updates it behind each step of the optimizer",
      .source = "Polyak and Juditsky 1992; torch.optim.swa_utils",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        return std::make_unique<Ema>(decode_ema(d));
      },
      .once = true};
  return kEntry;
}

}  // namespace tidemark
