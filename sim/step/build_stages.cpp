#include "sim/step/build_stages.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "graph/autodiff/differentiate.hpp"
#include "graph/core/errors.hpp"
#include "graph/rewrite/merge_chunks.hpp"
#include "graph/rewrite/split_backward.hpp"
#include "graph/rewrite/split_pipeline.hpp"
#include "sim/step/flat_parts.hpp"
#include "sim/step/training_rewrites.hpp"

namespace tidemark {
namespace build_stages_detail {
namespace {

constexpr int kTags = 2;  // of a boundary: activations and gradients

class StageBuilder {
 public:
  StageBuilder(const StepSpec& spec, const PipelineOptions& pipeline, const Graph& graph,
               std::vector<PassTime>& passes)
      : spec_(spec),
        pipeline_(pipeline),
        graph_(graph),
        passes_(passes),
        places_(chunk_places(pipeline.size, pipeline.chunks, pipeline.in_v())) {}

  std::vector<TrainedModel> run();

 private:
  void split();
  void differentiate_pieces();
  [[nodiscard]] StageBoundary boundary_of(std::size_t piece,
                                          const std::vector<char>& returns) const;
  void find_tied();
  [[nodiscard]] TrainedModel stage(int rank);
  void reduce_tied(int rank, TrainingGraph& training) const;

  const StepSpec& spec_;
  const PipelineOptions& pipeline_;
  const Graph& graph_;
  std::vector<PassTime>& passes_;
  std::vector<ChunkPlace> places_;                // by piece
  std::vector<PipelineChunk> pieces_;             // forward graphs
  std::vector<ChunkGraph> chunks_;                // by piece: its training graph
  std::map<ParameterId, std::set<int>> holders_;  // ranks that hold a parameter of the whole model
};

void StageBuilder::split() {
  pieces_ = run_pass(
      passes_, "split_pipeline",
      [&] { return split_pipeline(graph_, blocks_by_piece(pipeline_, graph_.blocks)); },
      [](const std::vector<PipelineChunk>& pieces) {
        for (const PipelineChunk& piece : pieces)
          check_invariants(piece.graph);
      });
}

// Returns the neighbours of a piece. A neighbour on the same rank is named like any other; what
// they would send each other is dropped when the rank's chunks are put together.
StageBoundary StageBuilder::boundary_of(std::size_t piece, const std::vector<char>& returns) const {
  StageBoundary boundary{.before = {},
                         .after = {},
                         .received = pieces_[piece].received,
                         .sent = pieces_[piece].sent,
                         .returns = returns,
                         .frees_outputs = pipeline_.frees_outputs};
  const int tag = static_cast<int>(piece) * kTags;
  if (piece > 0) boundary.before = {.rank = places_[piece - 1].rank, .tag = tag - kTags};
  if (piece + 1 < pieces_.size()) boundary.after = {.rank = places_[piece + 1].rank, .tag = tag};
  return boundary;
}

// Goes from the last piece to the first: a piece waits for the gradients that the next one makes.
void StageBuilder::differentiate_pieces() {
  chunks_.resize(pieces_.size());
  std::vector<char> returns;
  for (std::size_t p = pieces_.size(); p-- > 0;) {
    ChunkGraph& chunk = chunks_[p];
    const StageBoundary boundary = boundary_of(p, returns);
    DifferentiateOptions options = differentiate_options(spec_);
    options.boundary = &boundary;
    chunk.training = run_pass(
        passes_, "differentiate",
        [&] {
          return differentiate(pieces_[p].graph, *spec_.training.framework, options,
                               chunk.transfers);
        },
        [](const TrainingGraph& made) { check_invariants(made); });
    // A step that only evaluates reduces no gradients and updates nothing, though a piece is
    // differentiated in any case.
    if (spec_.training.mode != StepMode::kTrain) chunk.training.trained.clear();
    for (const ParameterId id : ids_of(pieces_[p].held)) {
      chunk.training.parameters[id].on_other_stages = holders_.at(pieces_[p].held[id]).size() > 1;
    }
    rewrite_training(spec_, RewriteScope::kChunk, chunk.training, passes_, static_cast<int>(p));
    chunk.hands_on = p + 1 < pieces_.size() && places_[p].rank == places_[p + 1].rank;
    returns.clear();
    for (const StorageId gradient : chunk.transfers.sent_gradients)
      returns.push_back(gradient.valid() ? 1 : 0);
    if (p == 0 && !returns.empty()) throw InternalError("the first stage sends gradients back");
  }
}

void StageBuilder::find_tied() {
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    for (const ParameterId id : ids_of(pieces_[p].held)) {
      std::set<int>& ranks = holders_[pieces_[p].held[id]];
      if (ranks.insert(places_[p].rank).second) continue;
      throw UserError(
          {}, "policies.pipeline",
          fmt::format("'{}' is used by two chunks of one stage, which '{}' cannot share; untie it, "
                      "or take a schedule with one chunk",
                      graph_.parameters[pieces_[p].held[id]].name, pipeline_.schedule_name()));
    }
  }
}

// Ranks that hold copies of a parameter add up its gradients before the optimizer runs
// (finalize_model_grads of Megatron).
void StageBuilder::reduce_tied(int rank, TrainingGraph& training) const {
  std::vector<OperatorId> sums;
  std::uint32_t first = 0;  // of a chunk's parameters among those of the rank
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    if (places_[p].rank != rank) continue;
    for (const ParameterId id : ids_of(pieces_[p].held)) {
      const ParameterId own(first + id.value);
      const Parameter& parameter = training.parameters[own];
      const std::size_t ranks = holders_.at(pieces_[p].held[id]).size();
      if (!parameter.on_other_stages || !parameter.gradient.valid()) continue;
      const RemainingGradient gradient = remaining_gradient(parameter);
      if (!gradient.storage.valid()) continue;
      const Bytes bytes = bytes_of(gradient.dtype, gradient.elements);
      Operator op{.name = "all_reduce_tied_gradient",
                  .phase = Phase::kOptimizer,
                  .layer = parameter.layer,
                  .work = {.op_class = OperatorClass::kCollective,
                           .dtype = gradient.dtype,
                           .read = bytes,
                           .written = bytes,
                           .collective = {.kind = CollectiveKind::kAllReduce,
                                          .group = MeshDimension::kPipeline,
                                          .bytes = bytes,
                                          .ranks = static_cast<int>(ranks)}}};
      sums.push_back(training.add_operator(std::move(op),
                                           std::array{Touch{gradient.storage, Access::kMutate}}));
    }
    first += static_cast<std::uint32_t>(pieces_[p].held.size());
  }
  // A policy that shards the optimizer may have begun the part with copies of the gradients.
  std::vector<OperatorId>& step = training.part(PartKind::kOptimizer);
  step.insert(step.begin(), sums.begin(), sums.end());
}

TrainedModel StageBuilder::stage(int rank) {
  TrainedModel model;
  model.stage = rank;
  std::vector<ChunkGraph> own;
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    if (places_[p].rank != rank) continue;
    own.push_back(std::move(chunks_[p]));
    model.chunks.push_back({pieces_[p].first_block, pieces_[p].blocks});
  }
  const bool trains = spec_.training.mode == StepMode::kTrain;
  model.training = merge_chunks(std::move(own), rank);
  check_invariants(model.training);
  if (trains) reduce_tied(rank, model.training);
  rewrite_training(spec_, RewriteScope::kRank, model.training, passes_);
  if (trains && splits_backward(pipeline_)) {
    run_pass(
        passes_, "split_backward", [&] { split_backward(model.training); },
        [&] { check_invariants(model.training); });
  }
  model.work = stage_work(pipeline_, rank, static_cast<int>(spec_.training.accumulate));
  if (!trains) {
    std::erase_if(model.work,
                  [](const ScheduledPart& part) { return part.part != PartKind::kForward; });
  }
  warn_of_flat_parts(spec_, model.training, model.warnings);
  sum_figures(model);
  return model;
}

std::vector<TrainedModel> StageBuilder::run() {
  split();
  find_tied();
  differentiate_pieces();
  std::vector<TrainedModel> stages;
  stages.reserve(static_cast<std::size_t>(pipeline_.size));
  for (int rank = 0; rank < pipeline_.size; ++rank)
    stages.push_back(stage(rank));
  return stages;
}

}  // namespace
}  // namespace build_stages_detail

const PipelineOptions* pipeline_of(const StepSpec& spec) {
  for (const ForwardRewrite* rewrite : policies_of<ForwardRewrite>(spec)) {
    const PipelineOptions* pipeline = rewrite->pipeline();
    if (pipeline != nullptr && pipeline->size > 1) return pipeline;
  }
  return nullptr;
}

TrainedModel build_stages(const StepSpec& spec, const PipelineOptions& pipeline, const Graph& graph,
                          TrainedModel model) {
  std::vector<TrainedModel> stages =
      build_stages_detail::StageBuilder(spec, pipeline, graph, model.passes).run();
  for (TrainedModel& stage : stages) {
    stage.parameter_count = model.parameter_count;
    stage.trainable_parameter_count = model.trainable_parameter_count;
  }
  TrainedModel first = stages.front();
  first.passes = std::move(model.passes);
  for (TrainedModel& stage : stages)
    first.stages.push_back(std::make_shared<const TrainedModel>(std::move(stage)));
  return first;
}

}  // namespace tidemark
