#include "cli/text/point_summary.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "cli/text/generation_lines.hpp"
#include "cli/text/time_report.hpp"
#include "cli/text/transfer_report.hpp"
#include "graph/core/paths.hpp"
#include "graph/core/piped_files.hpp"
#include "graph/core/printable.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "sim/step/training_warnings.hpp"

namespace tidemark {
namespace point_summary_detail {
namespace {

constexpr std::size_t kLongestBar = 30;

class Summary {
 public:
  Summary(const PointResult& point, const PointDetail& detail, const Scenario& scenario,
          bool colour, std::size_t width)
      : point_(point), detail_(detail), scenario_(scenario), colour_(colour), width_(width) {}
  [[nodiscard]] std::string text() const;

 private:
  // Returns lines that are indented by `indent` blanks.
  [[nodiscard]] std::vector<std::string> wrapped(const std::string& text,
                                                 std::size_t indent) const {
    return width_ > indent ? wrap(text, width_ - indent) : std::vector<std::string>{text};
  }
  [[nodiscard]] std::string line(std::string_view label, const std::string& rest) const {
    constexpr std::size_t kLabels = 17;
    std::string text;
    for (const std::string& words : wrapped(rest, kLabels)) {
      text += text.empty() ? "  " + dim(fmt::format("{:<15}", label), colour_)
                           : std::string(kLabels, ' ');
      text += words + '\n';
    }
    return text;
  }
  [[nodiscard]] std::string memory() const;
  [[nodiscard]] std::string reserved() const;
  [[nodiscard]] std::string roles() const;
  [[nodiscard]] std::string time() const;
  [[nodiscard]] std::string policies() const;
  [[nodiscard]] std::string outcome_of(std::size_t i) const;
  [[nodiscard]] std::string stages() const;
  [[nodiscard]] std::string plan(const PlanFigures& plan) const;

  const PointResult& point_;
  const PointDetail& detail_;
  const Scenario& scenario_;
  bool colour_;
  std::size_t width_;
};

std::string Summary::memory() const {
  const bool fits = point_.run.status == RunStatus::kCompleted;
  const Bytes used = point_.device_needed();
  const BytesColumn unit(point_.capacity);
  std::string rest = fmt::format("{} of {} ({})", bold(unit.text(used), colour_),
                                 unit.text(point_.capacity), share_of(used, point_.capacity));
  if (fits) {
    rest += fmt::format(", {} free", unit.text(point_.capacity - used));
    if (point_.status == PointStatus::kFits && point_.smallest_capacity.count > 0) {
      rest += fmt::format("; would still fit into {}", format_bytes(point_.smallest_capacity));
    }
  } else {
    rest += " would be used if there were enough";
  }
  std::string text = line("device memory", rest);
  if (used == point_.device_used()) {
    text += line(
        "", fmt::format("= {} reserved by the {} allocator{}",
                        format_bytes(point_.run.reserved.bytes), point_.allocator.name,
                        point_.context.count > 0
                            ? " + " + format_bytes(point_.context) +
                                  (point_.ranks > 1 ? " CUDA context and NCCL" : " CUDA context")
                            : ""));
    text += reserved();
  }
  if (is_close(point_)) {
    text += line(
        "", paint(fmt::format("close: less than {} is free, and {}", kPeakErrorText, kCloseReason),
                  kNote, colour_));
  }
  if (fits && point_.run.retries > 0) {
    text +=
        line("", paint(fmt::format("tight: {} allocation{} succeeded only after cached memory "
                                   "was given back",
                                   grouped(point_.run.retries), point_.run.retries == 1 ? "" : "s"),
                       kNote, colour_));
  }
  text += line(
      "peak", fmt::format("{} live at {} in {}", bold(format_bytes(point_.run.live.bytes), colour_),
                          format_duration(point_.peak.time),
                          place(point_.peak.phase, point_.peak.layer, point_.peak.op)));
  return text + roles();
}

// Says what is reserved beyond the live bytes, and from which step on it stays the same.
std::string Summary::reserved() const {
  const Fragmentation& f = point_.run.fragmentation;
  std::string parts;
  const auto add = [&](Bytes bytes, std::string_view what) {
    if (bytes > Bytes(0)) parts += fmt::format(" + {} {}", format_bytes(bytes), what);
  };
  add(f.rounding, "rounding");
  add(f.pending_events, "waiting for streams");
  add(f.inactive_splits, "in splits");
  add(f.free_segments, "in free segments");
  std::string text;
  if (!parts.empty()) {
    text += line("", fmt::format("= {} live{}", format_bytes(f.live), parts));
  }
  const Convergence& convergence = point_.convergence;
  if (convergence.fails_in) {
    return text + line("", paint(fmt::format("runs out of memory in step {} of a longer run",
                                             *convergence.fails_in),
                                 kBad, colour_));
  }
  if (!convergence.step && point_.generation) return text;
  if (!convergence.step) {
    const std::size_t steps = convergence.steps.size();
    if (steps > static_cast<std::size_t>(scenario_.training.steps)) {
      return text + line("", fmt::format("still changing after {} steps", steps));
    }
    // No longer run was tried.
    return text + line("", fmt::format("not seen to repeat in {} step{}; training.steps: {} runs "
                                       "longer",
                                       steps, steps == 1 ? "" : "s", 2 * steps));
  }
  return text + line("", fmt::format("the same in every step from step {} on ({} were run)",
                                     *convergence.step, convergence.steps.size()));
}

std::string Summary::roles() const {
  const Bytes total = sum_of(point_.peak.by_role);
  const Bytes largest = *std::max_element(point_.peak.by_role.begin(), point_.peak.by_role.end());
  if (total <= Bytes(0)) return {};
  const BytesColumn unit(total);
  // Where there is no room for whole bars, they are shorter.
  constexpr std::size_t kBeforeBars = 17 + 2 + 9 + 2 + 6 + 2 + 20;
  const std::size_t bars =
      width_ > 0 ? std::clamp(width_ - std::min(width_, kBeforeBars), std::size_t{8}, kLongestBar)
                 : kLongestBar;
  Table table({{""}, {"", Align::kRight}, {"", Align::kRight}, {""}}, 17);
  for (const Role role : kStackOrder) {
    const Bytes bytes = point_.peak.by_role[static_cast<std::size_t>(role)];
    if (bytes <= Bytes(0)) continue;
    const RoleStyle& style = style_of(role);
    table.add_row(
        {{std::string(style.label)},
         {bytes * 1000 < total ? format_bytes(bytes) : unit.text(bytes)},
         {bytes * 1000 < total ? "" : share_of(bytes, total)},
         {bar(static_cast<double>(bytes.count) / static_cast<double>(largest.count), bars),
          style.colour}});
  }
  return table.text(colour_);
}

std::string Summary::time() const {
  const RunResult& run = point_.run;
  const auto phase = [&](Phase p) {
    return format_duration(run.phase[static_cast<std::size_t>(p)]);
  };
  const bool trains = scenario_.training.mode == StepMode::kTrain;
  std::string text = line(
      "step", trains ? fmt::format("{}: forward {}, backward {}, optimizer {}",
                                   bold(format_duration(run.step), colour_), phase(Phase::kForward),
                                   phase(Phase::kBackward), phase(Phase::kOptimizer))
                     : fmt::format("{}: {}", bold(format_duration(run.step), colour_),
                                   point_.generation ? "generation" : "forward only"));
  std::string parts;
  const auto add = [&](Duration d, std::string_view what) {
    // Less than a thousandth of the step is not worth a line.
    if (d * 1000 < run.step || d <= Duration(0)) return;
    parts += fmt::format("{}{} {}", parts.empty() ? "of which " : ", ", format_duration(d), what);
  };
  add(run.recompute, "recomputing");
  add(run.exposed_transfer, "waiting for copies");
  add(run.exposed[static_cast<std::size_t>(Stream::kHostWorker)],
      "waiting for the host's optimizer");
  add(run.exposed_communication, "waiting for communication");
  add(run.host_bound, "waiting for the host to launch");
  add(point_.loader_stall, "waiting for data");
  if (!parts.empty()) text += line("", parts);
  if (point_.generation) {
    for (const auto& [label, words] : generation_lines(*point_.generation))
      text += line(label, words);
  }
  if (point_.loader) text += line("loader", loader_text(*point_.loader));
  if (point_.load) text += line("loading", load_text(*point_.load));
  if (point_.breakdown.all.total() > Duration(0)) text += line("bound by", bounds_text(point_));
  const TimeTerms terms = time_terms(point_, detail_);
  if (terms.busy > Duration(0)) {
    text += line("kernels", longest_terms(terms.by_operator, run.step));
    text += line("layers", longest_terms(terms.by_pattern, run.step));
  }
  for (const Communication& used : point_.communication)
    text += line("", communication_text(used, point_.mesh));
  if (point_.status == PointStatus::kFits) {
    text += line("throughput", throughput_text(point_));
    if (const std::string cost = cost_text(point_); !cost.empty()) text += line("cost", cost);
  }
  return text;
}

// Says what the plan predicts for one micro-batch; the step itself takes more.
std::string Summary::plan(const PlanFigures& plan) const {
  std::string text = line("", fmt::format("plans a peak of {} at {} of compute per micro-batch",
                                          format_bytes(plan.peak), format_duration(plan.cost)));
  if (plan.lower_bound && has_schedule(plan.status)) {
    const double over = plan.cost > *plan.lower_bound
                            ? static_cast<double>((plan.cost - *plan.lower_bound).count()) /
                                  static_cast<double>(plan.lower_bound->count())
                            : 0;
    const double percents = std::ceil(1e4 * over) / 100;  // rounded up, so that nothing is hidden
    text +=
        line("", over > 0 ? fmt::format("at most {:.2f} % above the least that is possible "
                                        "within {} (class {})",
                                        percents, format_bytes(plan.budget), plan.schedule_class)
                          : fmt::format("the least that is possible within {} (class {})",
                                        format_bytes(plan.budget), plan.schedule_class));
  }
  const std::string over = over_budget(point_);
  return over.empty() ? text : text + line("", paint(over, kBad, colour_));
}

// Returns "optimal: 12 operators recomputed, 3 refused" of policy `i`.
std::string Summary::outcome_of(std::size_t i) const {
  const PolicyOutcome& outcome = point_.policies[i];
  std::vector<std::string> parts;
  if (outcome.recomputed_operators > 0) {
    parts.push_back(grouped(outcome.recomputed_operators) + " operators recomputed");
  }
  if (outcome.offloaded.count > 0) {
    // The lines below say how much is on each tier of a step that uses two.
    const bool disks = point_.run.nvme.bytes.count > 0;
    parts.push_back(format_bytes(outcome.offloaded) +
                    (disks ? " kept off the device" : " moved to the host"));
  }
  if (outcome.contested > 0) {
    parts.push_back(grouped(outcome.contested) + " decided by an earlier policy");
  }
  if (outcome.refused > 0) parts.push_back(grouped(outcome.refused) + " refused");
  // A policy that makes another model decides nothing about the memory of this one.
  const bool remakes = i < scenario_.policies.size() && rewrites_model(scenario_.policies[i]) &&
                       !is_idle(scenario_, i);
  if (parts.empty()) {
    parts.push_back(outcome.decided > 0 ? grouped(outcome.decided) + " decisions"
                    : remakes           ? "in the model that is simulated"
                                        : "changed nothing");
  }
  return fmt::format("{}: {}", outcome.name, fmt::join(parts, ", "));
}

std::string Summary::policies() const {
  std::string text;
  for (std::size_t i = 0; i < point_.policies.size(); ++i) {
    text += line(text.empty() ? "policies" : "", outcome_of(i));
    if (point_.policies[i].plan) text += plan(*point_.policies[i].plan);
  }
  if (point_.run.evictions > 0) {
    text +=
        line("evictions", fmt::format("{} allocations dropped, {} operators recomputed for them",
                                      grouped(point_.run.evictions), grouped(point_.run.restores)));
  }
  if (point_.run.host.bytes.count > 0) {
    const std::string of =
        point_.loader ? fmt::format(", {} of it the loader's", format_bytes(point_.loader->host()))
                      : " page-locked";
    text += line("host memory", fmt::format("{} of {}{}", format_bytes(point_.run.host_taken.bytes),
                                            format_bytes(point_.host_capacity), of));
  }
  if (point_.run.nvme.bytes.count > 0) {
    text += line("NVMe", fmt::format("{} of {}", format_bytes(point_.run.nvme.bytes),
                                     format_bytes(point_.nvme_capacity)));
  }
  const std::string moved = transfer_verdict(point_);
  if (!moved.empty()) text += line("transfers", moved);
  return text;
}

// Returns a line for each stage of a pipeline. Idle is what it does not compute of the time from
// the pipeline's first forward to its last backward.
std::string Summary::stages() const {
  if (point_.stages.empty()) return {};
  Table table({{"stage", Align::kRight},
               {"layers"},
               {"memory", Align::kRight},
               {"live", Align::kRight},
               {"in flight", Align::kRight},
               {"step", Align::kRight},
               {"idle", Align::kRight}},
              2);
  for (const StageResult& stage : point_.stages) {
    std::string layers;
    for (const StageBlocks& chunk : stage.chunks) {
      if (chunk.count == 0) continue;
      layers += fmt::format("{}{}", layers.empty() ? "" : ", ", chunk.first);
      if (chunk.count > 1) layers += fmt::format("-{}", chunk.first + chunk.count - 1);
    }
    const bool fits = stage.point.status == PointStatus::kFits;
    table.add_row({{fmt::format("{}", stage.stage)},
                   {layers.empty() ? "none" : layers},
                   {format_bytes(stage.point.device_used()), fits ? -1 : kBad},
                   {format_bytes(stage.point.run.live.bytes)},
                   {fmt::format("{}", stage.in_flight)},
                   {format_duration(stage.point.run.step)},
                   {percent(stage.bubble)}});
  }
  return '\n' + table.text(colour_);
}

std::string Summary::text() const {
  const bool fits = point_.status == PointStatus::kFits;
  const bool runs = point_.run.status == RunStatus::kCompleted;
  const bool deadlocks = point_.run.status == RunStatus::kDeadlock;
  const std::string verdict = fits        ? "fits"
                              : runs      ? "not within the budget"
                              : deadlocks ? "cannot run"
                                          : "does not fit";
  std::string text = fmt::format("{}: {}\n", bold(printable(point_.name), colour_),
                                 bold(paint(verdict, fits ? kGood : kBad, colour_), colour_));
  for (const std::string& words : wrapped(setting_line(point_, scenario_, *detail_.model), 2))
    text += "  " + dim(words, colour_) + '\n';
  for (const std::string& warning : point_.warnings)
    text += line("warning", paint(warning, kNote, colour_));
  text += '\n';
  return text + memory() + time() + policies() + stages();
}

}  // namespace
}  // namespace point_summary_detail

// Returns a file's name without folders and ending; for Hugging Face's config.json its folder's.
static std::string model_name(const std::string& name) {
  const std::filesystem::path path(name);
  const std::string ending = path.extension().string();
  const bool file =
      ending == ".json" || ending == ".onnx" || is_yaml_name(name) || is_open_file_of_process(path);
  return file ? title_of_file(path) : name;
}

// Names the optimizer, or those of the turns of a step.
std::string optimizer_words(const Scenario& scenario) {
  if (scenario.turns.empty()) return std::string(name_of(scenario.training.optimizer.kind));
  std::vector<std::string_view> names;
  for (const Turn& turn : scenario.turns)
    names.push_back(name_of(turn.step->training.optimizer.kind));
  return fmt::format("{} in turn", fmt::join(names, " and "));
}

std::string setting_line(const PointResult& point, const Scenario& scenario,
                         const TrainedModel& model) {
  const TrainingGraph& graph = model.training;
  std::string text = scenario.device.name;
  if (const int ranks = scenario.mesh.ranks(); ranks > 1) text += fmt::format(" x {}", ranks);
  if (const int nodes = scenario.mesh.nodes(); nodes > 1)
    text += fmt::format(" on {} hosts", nodes);
  if (scenario.model.kind == ModelKind::kCostGraph) return text + "; cost graph";
  text = fmt::format("{}, {} parameters; {}", printable(model_name(graph.name)),
                     format_count(static_cast<double>(point.parameter_count.count)), text);
  if (graph.tokens > 0 && graph.samples > 0) {
    text += fmt::format("; {} x {} tokens", graph.samples, graph.tokens / graph.samples);
  } else {
    text += fmt::format("; {} sample{}", graph.samples, graph.samples == 1 ? "" : "s");
  }
  if (graph.micro_batches > 1) text += fmt::format(" x {} micro-batches", graph.micro_batches);
  const bool evaluates = scenario.training.mode == StepMode::kForward;
  text += fmt::format("; {}, {}", rules_of(scenario.training.precision).name,
                      scenario.training.model.generation ? "text generation"
                      : evaluates                        ? "forward only"
                                                         : optimizer_words(scenario));
  text += scenario.policy_names.empty()
              ? std::string("; no policy")
              : fmt::format("; {}", fmt::join(scenario.policy_names, " + "));
  // The figures of a pipeline are those of its stage with the most device memory.
  if (!point.stages.empty())
    text += fmt::format("; figures of stage {} of {}", model.stage, point.stages.size());
  return text;
}

std::string point_summary(const PointResult& point, const PointDetail& detail,
                          const Scenario& scenario, bool colour, std::size_t width) {
  return point_summary_detail::Summary(point, detail, scenario, colour, width).text();
}

}  // namespace tidemark
