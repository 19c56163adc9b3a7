#include "cli/commands/run_elastic.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/output/reports.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "scenarios/elastic/elastic_document.hpp"

namespace tidemark {
namespace run_elastic_detail {
namespace {

std::string table_of(const ElasticStudy& study, const Console& console) {
  Table table({{"step", Align::kRight},
               {"length", Align::kRight},
               {"capacity", Align::kRight},
               {"micro_batch", Align::kRight},
               {"accumulate", Align::kRight},
               {"device memory", Align::kRight},
               {"time", Align::kRight},
               {"fixed", Align::kRight}},
              2);
  for (std::size_t i = 0; i < study.steps.size(); ++i) {
    const ElasticStep& step = study.steps[i];
    const PointResult& result = step.chosen.result;
    const bool fits = result.status == PointStatus::kFits;
    table.add_row({{fmt::to_string(i + 1)},
                   {fmt::to_string(step.length)},
                   {format_bytes(step.capacity)},
                   {fmt::to_string(step.chosen.micro_batch)},
                   {fmt::to_string(step.chosen.accumulate)},
                   {format_bytes(result.device_used()), fits ? kGood : kBad},
                   {format_duration(result.run.step)},
                   {study.fixed ? format_duration(study.fixed->steps[i].run.step) : "-"}});
  }
  return table.text(console.colour, console.terminal ? console.width : 0);
}

std::string verdict(const ElasticStudy& study) {
  if (!study.fits)
    return "In the red steps not even the smallest micro-batch fits: that is what it would need.\n";
  std::string text = fmt::format("{} samples a step, chosen step by step: {} for all steps.\n",
                                 study.options.global_batch, format_duration(study.time));
  if (!study.fixed) {
    text += "No fixed micro-batch fits in every step.\n";
  } else {
    const double speedup = static_cast<double>(study.fixed->time.count()) /
                           static_cast<double>(std::max<std::int64_t>(study.time.count(), 1));
    text += fmt::format(
        "The best fixed setting, micro_batch {} and accumulate {}, takes {}: {:.3g} times as "
        "long.\n",
        study.fixed->micro_batch, study.fixed->accumulate, format_duration(study.fixed->time),
        speedup);
  }
  if (study.deepspeed) {
    text += fmt::format("DeepSpeed's elasticity takes micro_batch {} for {} GPUs, which {}.\n",
                        study.deepspeed->micro_batch, study.ranks,
                        study.deepspeed->fits ? "fits: " + format_duration(study.deepspeed->time)
                                              : std::string("does not fit in every step"));
  }
  return text;
}

}  // namespace
}  // namespace run_elastic_detail

int run_elastic(const Value& document, const Environment& environment, const RunCommand& command,
                const Console& console) {
  const ElasticStudy study = [&] {
    const Waiting waiting(console, "simulating", std::chrono::nanoseconds(0));
    return study_elastic(document, environment);
  }();
  const ReportFiles files =
      report_files(document, command.folder, environment, command.input.reproduce(command.kName));
  if (!files.folder.empty()) {
    check_free(files.folder);
    PointsReport(files).write(chosen_points(study));
  }
  if (command.json) {
    print(elastic_document(study).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
          '\n');
  } else {
    print(run_elastic_detail::table_of(study, console) + '\n' +
          wrap_lines(run_elastic_detail::verdict(study), console.terminal ? console.width : 0));
  }
  return study.fits ? kExitFits : kExitDoesNotFit;
}

}  // namespace tidemark
