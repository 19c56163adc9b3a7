// The policy `distill`: reads the teacher and its options.
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/autodiff/evaluate.hpp"
#include "graph/core/errors.hpp"
#include "graph/import/hf_config.hpp"
#include "graph/models/model_options.hpp"
#include "graph/models/preset.hpp"
#include "policies/adapt/distill.hpp"
#include "policies/adapt/entries.hpp"

namespace tidemark {
namespace distill_entry_detail {
namespace {

// The teacher as the scenario names it.
struct TeacherReference {
  std::string preset;  // or
  std::string config;  // a Hugging Face config.json
  Value sizes;         // overrides of the preset
};

TeacherReference decode_teacher(const Decoder& d) {
  TeacherReference teacher;
  const Value* given = d.value().find("teacher");
  if (given == nullptr || given->is_scalar()) {
    teacher.preset = d.required<std::string>("teacher");
    if (given == nullptr) return teacher;  // the parameters are only described
    teacher.sizes.location = given->location;
  } else {
    const Decoder model = d.optional_child("teacher");
    if (model.has("hf")) {
      teacher.config = model.required<std::string>("hf");
      model.finish();
      return teacher;
    }
    teacher.preset = model.required<std::string>("preset");
    teacher.sizes = model.value();
    std::erase_if(teacher.sizes.entries,
                  [](const Value::Entry& entry) { return entry.key == "preset"; });
  }
  find_preset(teacher.preset, given->location, "policies.distill.teacher")
      .decode(Decoder(teacher.sizes, "policies.distill.teacher"));
  return teacher;
}

std::vector<Hint> decode_hints(const Decoder& d) {
  std::vector<Hint> hints;
  d.mention("hints", "list", "{student: module, teacher: module}; none: blocks by their depth");
  for (const Decoder& item : d.optional_child("hints").items()) {
    hints.push_back({.student = item.required<std::string>("student"),
                     .teacher = item.required<std::string>("teacher"),
                     .location = item.value().location});
    item.finish();
  }
  return hints;
}

Graph build_teacher(const TeacherReference& teacher, const ModelOptions& options) {
  if (!teacher.config.empty()) return import_hf_config(teacher.config, options);
  return find_preset(teacher.preset)
      .build(Decoder(teacher.sizes, "policies.distill.teacher"), options);
}

class Distill final : public ForwardRewrite {
 public:
  Distill(TeacherReference teacher, const DistillOptions& options)
      : teacher_(std::move(teacher)), options_(options) {}
  [[nodiscard]] std::string_view name() const override { return "distill"; }
  [[nodiscard]] bool acts_in_evaluation(bool /*computes_loss*/) const override { return false; }
  [[nodiscard]] ForwardStage stage() const override { return ForwardStage::kAdapt; }
  [[nodiscard]] Graph apply(const Graph& graph, const RewriteContext& context) const override {
    if (!context.computes_loss) return graph;
    for (const MeshDimension cut : {MeshDimension::kTensor, MeshDimension::kContext}) {
      if (context.mesh.size(cut) == 1) continue;
      throw UserError({}, "policies.distill",
                      fmt::format("{}_parallel cuts the student's logits among GPUs, and distill "
                                  "compares whole ones; leave one of the two out",
                                  cut == MeshDimension::kTensor ? "tensor" : "context"));
    }
    ModelOptions options = context.model == nullptr ? ModelOptions() : *context.model;
    if (!graph.parameters.empty()) options.dtype = graph.parameters[ParameterId(0U)].dtype;
    options.loss = LossKind::kCrossEntropy;
    if (options_.cached) return distill(graph, Graph(), options_);
    return distill(graph, evaluation_graph(build_teacher(teacher_, options), false), options_);
  }

 private:
  TeacherReference teacher_;
  DistillOptions options_;
};

}  // namespace
}  // namespace distill_entry_detail

const PolicyEntry& distill_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "distill",
      .kind = "forward rewrite",
      .summary = "a teacher runs beside the model without autograd, and the loss compares them",
      .source =
          "Hinton et al. 2015; Romero et al. 2015 (hints); Jiao et al. 2020 (features); "
          "torchtune's "
          "recipes; TextBrewer (intermediate_matches)",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        static constexpr std::array<std::string_view, 3> kKinds = {"logits", "features", "both"};
        static constexpr std::array<std::string_view, 2> kOrders = {"teacher_first",
                                                                    "student_first"};
        DistillOptions options;
        const std::string kind = d.optional_word("kind", kKinds, kKinds[0]);
        options.logits = kind != "features";
        options.features = kind != "logits";
        options.hints = distill_entry_detail::decode_hints(d);
        if (!options.hints.empty() && !options.features)
          d.fail_at("hints", "compare features; write kind: features or kind: both");
        options.cached = d.optional<bool>("cached", false);
        options.top = d.optional<std::int64_t>("top", 64, between(1, 1 << 20));
        if (d.has("top") && !options.cached)
          d.fail_at("top", "only a cached teacher keeps its largest logits; add cached: true");
        options.student_first = d.optional_word("order", kOrders, kOrders[0]) == kOrders[1];
        // T changes no size; it is read so that a scenario can say it.
        static_cast<void>(d.optional<double>("temperature", 2, between(0.001, 1000)));
        if (options.cached && options.features) {
          d.fail_at("cached",
                    fmt::format("the largest logits are cached, and kind: {} needs hidden "
                                "states; leave one of them out",
                                kind));
        }
        distill_entry_detail::TeacherReference teacher;
        if (!options.cached || d.has("teacher")) teacher = distill_entry_detail::decode_teacher(d);
        d.finish();
        return std::make_unique<distill_entry_detail::Distill>(std::move(teacher), options);
      }};
  return kEntry;
}

}  // namespace tidemark
