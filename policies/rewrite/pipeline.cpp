#include "policies/rewrite/pipeline.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/piped_files.hpp"
#include "graph/rewrite/partition/partition_errors.hpp"
#include "policies/plan/other_sizes.hpp"
#include "policies/rewrite/entries.hpp"
#include "policies/rewrite/pipeline_table.hpp"

namespace tidemark {
namespace pipeline_detail {
namespace {

constexpr int kMostStages = 4096;
constexpr int kMostChunks = 64;

std::string pieces_text(const PipelineOptions& options) {
  return options.chunks == 1 ? fmt::format("{} stages", options.size)
                             : fmt::format("{} stages x {} chunks = {} pieces", options.size,
                                           options.chunks, options.pieces());
}

std::vector<int> uniform(const PipelineOptions& options, int blocks) {
  const int pieces = options.pieces();
  if (blocks % pieces != 0) {
    const std::string sizes =
        blocks % options.chunks == 0
            ? fmt::format("write a size of {}, ",
                          nearest_divisors(blocks / options.chunks, options.divides, options.size))
            : "write ";
    throw UserError({}, "policies.pipeline",
                    fmt::format("{} layers cannot be shared evenly among {}; {}split: balanced or "
                                "the number of layers of each: split: [...]",
                                blocks, pieces_text(options), sizes));
  }
  return std::vector<int>(static_cast<std::size_t>(pieces), blocks / pieces);
}

constexpr int kEnds = 2;  // embedding and head

// Embedding and head count as a block each; the first pieces take what is left over.
std::vector<int> balanced(const PipelineOptions& options, int blocks) {
  const int pieces = options.pieces();
  std::vector<int> shared(static_cast<std::size_t>(pieces), (blocks + kEnds) / pieces);
  for (int i = 0; i < (blocks + kEnds) % pieces; ++i)
    ++shared[static_cast<std::size_t>(i)];
  --shared.front();
  --shared.back();
  if (*std::min_element(shared.begin(), shared.end()) < 0) {
    throw UserError({}, "policies.pipeline",
                    fmt::format("{} layers, an embedding and a head are too few for {}; at most {} "
                                "pieces have something to do",
                                blocks, pieces_text(options), blocks + kEnds));
  }
  return shared;
}

std::vector<int> listed(const PipelineOptions& options, int blocks) {
  const int sum = std::accumulate(options.layers.begin(), options.layers.end(), 0);
  if (sum == blocks) return options.layers;
  throw UserError(
      {}, "policies.pipeline.split",
      fmt::format("the layers of the {} sum to {}, and the model has {} repeated blocks",
                  pieces_text(options), sum, blocks));
}

// Returns the numbers of micro-batches next to `wanted` that interleaving can run.
std::string nearest_micro_batches(int stages, int wanted, int group) {
  const auto can = [&](int m) { return m >= 1 && can_interleave(stages, m, group); };
  int below = wanted - 1;
  while (below >= 1 && !can(below))
    --below;
  int above = wanted + 1;
  while (!can(above))
    ++above;
  return below >= 1 ? fmt::format("{} or {}", below, above) : fmt::format("{}", above);
}

PipelineSplit decode_split(const Decoder& d, PipelineOptions& options) {
  const Value* given = d.value().find("split");
  if (given != nullptr && given->is_sequence()) {
    options.layers = d.list<int>("split", at_least(0));
    if (static_cast<int>(options.layers.size()) != options.pieces()) {
      d.fail_at("split", fmt::format("expected the layers of each of {}, found {} numbers",
                                     pieces_text(options), options.layers.size()));
    }
    return PipelineSplit::kListed;
  }
  constexpr std::array<std::string_view, 3> kWords{"even", "uniform", "balanced"};
  const std::string word = d.optional_word("split", kWords, kWords[0]);
  return static_cast<PipelineSplit>(std::find(kWords.begin(), kWords.end(), word) - kWords.begin());
}

// Returns the file of a table, which is relative to the file that names it.
std::string table_file(const Decoder& schedule) {
  const std::filesystem::path named = schedule.required<std::string>("table");
  return (named.is_absolute() ? named : folder_of_file(schedule.location().file) / named).string();
}

void decode_schedule(const Decoder& d, PipelineOptions& options) {
  const std::optional<int> chunks = d.maybe<int>("chunks", between(1, kMostChunks));
  const Value* given = d.value().find("schedule");
  if (given != nullptr && given->is_mapping()) {
    const Decoder schedule = d.required_child("schedule");
    options.table_name = table_file(schedule);
    schedule.finish();
    PipelineTable table = read_pipeline_table(options.table_name, options.size, given->location,
                                              "policies.pipeline.schedule.table");
    if (chunks && *chunks != table.chunks) {
      d.fail_at("chunks", fmt::format("the table has {} chunks, not {}", table.chunks, *chunks));
    }
    options.chunks = table.chunks;
    options.table = std::move(table.by_rank);
    return;
  }
  constexpr std::array<std::string_view, 6> kWords{"gpipe", "1f1b", "interleaved",
                                                   "zb-h1", "zbv",  "zb_h1"};
  const std::string word = d.optional_word("schedule", kWords, "1f1b");
  const auto at =
      static_cast<std::size_t>(std::find(kWords.begin(), kWords.end(), word) - kWords.begin());
  options.order = at == 5 ? PipelineOrder::kZeroBubbleH1 : static_cast<PipelineOrder>(at);
  const bool interleaved = options.order == PipelineOrder::kInterleaved;
  const int standard = interleaved || options.in_v() ? 2 : 1;
  options.chunks = chunks.value_or(standard);
  if (interleaved && options.chunks < 2) {
    d.fail_at("chunks",
              "'interleaved' needs at least 2 chunks on each stage; 1f1b is the schedule "
              "of one");
  }
  if (!interleaved && options.chunks != standard) {
    d.fail_at("chunks", fmt::format("'{}' has {} chunk{} on each stage, not {}; 'interleaved' "
                                    "takes any number",
                                    word, standard, standard == 1 ? "" : "s", options.chunks));
  }
}

PipelineOptions decode(const Decoder& d) {
  PipelineOptions options;
  options.size = d.required<int>("size", between(1, kMostStages));
  decode_schedule(d, options);
  options.split = decode_split(d, options);
  options.group = d.optional<int>("group", 0, between(0, kMostStages * kMostChunks));
  if (options.group != 0 && options.order != PipelineOrder::kInterleaved) {
    d.fail_at("group", "only 'interleaved' takes micro-batches through a chunk in groups");
  }
  if (options.group != 0 && options.group < options.size) {
    d.fail_at("group", fmt::format("a group is at least as many micro-batches as there are "
                                   "stages, {}",
                                   options.size));
  }
  options.frees_outputs = d.optional<bool>("deallocate_outputs", true);
  d.finish();
  return options;
}

}  // namespace
}  // namespace pipeline_detail

std::vector<int> blocks_by_piece(const PipelineOptions& options, int blocks) {
  if (blocks == 0) {
    throw UserError({}, "policies.pipeline",
                    "the model has no repeated blocks, at which a pipeline cuts it into stages");
  }
  switch (options.split) {
    case PipelineSplit::kEven:
      if (blocks % options.pieces() != 0 &&
          (blocks + pipeline_detail::kEnds) % options.pieces() == 0)
        return pipeline_detail::balanced(options, blocks);
      return pipeline_detail::uniform(options, blocks);
    case PipelineSplit::kUniform:
      return pipeline_detail::uniform(options, blocks);
    case PipelineSplit::kBalanced:
      return pipeline_detail::balanced(options, blocks);
    case PipelineSplit::kListed:
      return pipeline_detail::listed(options, blocks);
  }
  throw InternalError("a split of a pipeline that is not known");
}

std::vector<ScheduledPart> stage_work(const PipelineOptions& options, int stage,
                                      int micro_batches) {
  if (!options.table.empty()) {
    const std::vector<ScheduledPart>& work = options.table[static_cast<std::size_t>(stage)];
    int last = 0;
    for (const ScheduledPart& part : work)
      last = std::max<int>(last, part.micro_batch);
    if (last + 1 == micro_batches) return work;
    throw UserError({}, "training.accumulate",
                    fmt::format("the table of policies.pipeline runs {} micro-batches and "
                                "training.accumulate is {}; write {}",
                                last + 1, micro_batches, last + 1));
  }
  const int group = options.group == 0 ? options.size : options.group;
  const bool interleaved = options.order == PipelineOrder::kInterleaved;
  if (interleaved && !can_interleave(options.size, micro_batches, group)) {
    throw UserError(
        {}, "training.accumulate",
        fmt::format("'interleaved' on {} stages runs micro-batches in groups of {}, of which the "
                    "last is whole or has at least {}; {} cannot be divided so, write {}",
                    options.size, group, options.size, micro_batches,
                    pipeline_detail::nearest_micro_batches(options.size, micro_batches, group)));
  }
  return pipeline_schedule(options.order, options.size, options.chunks, stage, micro_batches,
                           group);
}

bool splits_backward(const PipelineOptions& options) {
  if (options.table.empty()) {
    return options.order == PipelineOrder::kZeroBubbleH1 ||
           options.order == PipelineOrder::kZeroBubbleV;
  }
  return std::any_of(options.table.begin(), options.table.end(), [](const auto& work) {
    return std::any_of(work.begin(), work.end(), [](const ScheduledPart& part) {
      return part.part == PartKind::kBackwardWeight;
    });
  });
}

const PolicyEntry& pipeline_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "pipeline",
      .kind = "forward rewrite",
      .summary =
          "cut the model into stages at its repeated blocks, one per GPU, which work on "
          "training.accumulate micro-batches in the order of a schedule; every stage is simulated",
      .source =
          "Huang et al. 2019 (GPipe), Narayanan et al. 2019 and 2021 (1F1B, interleaved), Qi et "
          "al. 2023 (zero bubble); Megatron-LM, torchtitan",
      .decode = [](const Decoder& d, const RewriteContext& context) -> AnyPolicy {
        PipelineOptions options = pipeline_detail::decode(d);
        options.divides = ranks_to_divide(context, MeshDimension::kPipeline, options.size);
        return std::make_unique<Pipeline>(std::move(options));
      },
      .mesh =
          [](const Decoder& d, MeshRequest& request) {
            request.ask(MeshDimension::kPipeline, d, between(1, pipeline_detail::kMostStages));
          }};
  return kEntry;
}

}  // namespace tidemark
