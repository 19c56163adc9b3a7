#include "scenarios/elastic/elastic_document.hpp"

#include <nlohmann/json.hpp>

#include "scenarios/results/result_document.hpp"

namespace tidemark {
namespace elastic_document_detail {
namespace {

using Json = nlohmann::ordered_json;

Json step_json(std::size_t index, const ElasticStep& step, std::int64_t micro_batch,
               std::int64_t accumulate, const PointResult& result) {
  return {{"step", index + 1},
          {"length", step.length},
          {"capacity", step.capacity.count},
          {"micro_batch", micro_batch},
          {"accumulate", accumulate},
          {"fits", result.status == PointStatus::kFits},
          {"peak_live", result.run.live.bytes.count},
          {"device_used", result.device_used().count},
          {"time", seconds(result.run.step)}};
}

Json fixed_json(const std::optional<FixedSetting>& fixed, const ElasticStudy& study) {
  if (!fixed) return nullptr;
  Json steps = Json::array();
  for (std::size_t i = 0; i < study.steps.size(); ++i) {
    steps.push_back(
        step_json(i, study.steps[i], fixed->micro_batch, fixed->accumulate, fixed->steps[i]));
  }
  return {{"micro_batch", fixed->micro_batch},
          {"accumulate", fixed->accumulate},
          {"fits", fixed->fits},
          {"time", seconds(fixed->time)},
          {"steps", std::move(steps)}};
}

}  // namespace
}  // namespace elastic_document_detail

std::vector<PointResult> chosen_points(const ElasticStudy& study) {
  std::vector<PointResult> points;
  for (const ElasticStep& step : study.steps)
    points.push_back(step.chosen.result);
  return points;
}

nlohmann::ordered_json elastic_document(const ElasticStudy& study) {
  using elastic_document_detail::Json;
  Json document = result_document(chosen_points(study));
  Json steps = Json::array();
  for (std::size_t i = 0; i < study.steps.size(); ++i) {
    const ElasticSetting& chosen = study.steps[i].chosen;
    steps.push_back(elastic_document_detail::step_json(i, study.steps[i], chosen.micro_batch,
                                                       chosen.accumulate, chosen.result));
  }
  Json deepspeed = elastic_document_detail::fixed_json(study.deepspeed, study);
  if (study.deepspeed) deepspeed["valid_gpus"] = study.valid_gpus;
  const bool compared = study.fits && study.fixed && study.time.count() > 0;
  document["elastic"] = {
      {"global_batch", study.options.global_batch},
      {"ranks", study.ranks},
      {"fits", study.fits},
      {"time", seconds(study.time)},
      {"steps", std::move(steps)},
      {"fixed", elastic_document_detail::fixed_json(study.fixed, study)},
      {"deepspeed", std::move(deepspeed)},
      {"speedup",
       compared ? Json(seconds(study.fixed->time) / seconds(study.time)) : Json(nullptr)}};
  return document;
}

}  // namespace tidemark
