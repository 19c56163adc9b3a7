#include "scenarios/studies/search/search_document.hpp"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "scenarios/results/document_json.hpp"
#include "scenarios/results/result_document.hpp"

namespace tidemark {
namespace search_document_detail {
namespace {

using Json = nlohmann::ordered_json;

// Returns a figure as JSON: null where a point has none.
Json number_or_null(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

// Returns one value for one objective, and a list for a list of them.
template <typename Values, typename AsJson>
Json as_given(const Goal& goal, const Values& values, const AsJson& as_json) {
  Json list = Json::array();
  for (const auto& value : values)
    list.push_back(as_json(value));
  if (goal.objectives.size() > 1) return list;
  return list.empty() ? Json(nullptr) : list.front();
}

// Returns what keeps each point from being an answer, one entry for each thing that it breaks.
Json left_out_of(const SearchResult& found) {
  Json list = Json::array();
  for (std::size_t i = 0; i < found.points.size(); ++i) {
    for (const Breach& breach : found.points[i].breaks) {
      list.push_back(
          {{"point", i},
           {"constraint",
            breach.constraint ? found.goal.subject_to[*breach.constraint].text() : "fits"},
           {"by", number_or_null(breach.by)}});
    }
  }
  return list;
}

// Returns the points that were not simulated, each with the reason why it is no answer: another is
// better than the best that its kernels allow, or what it breaks, and by how much at least.
Json excluded_of(const SearchResult& found) {
  Json list = Json::array();
  for (const ExcludedPoint& point : found.excluded) {
    Json overrides = Json::object();
    for (const Override& change : point.overrides)
      overrides[change.key] = to_json(change.value);
    const Breach* breaks = point.breaks ? &*point.breaks : nullptr;
    std::string because = "objective";
    if (breaks != nullptr) {
      because = breaks->constraint ? found.goal.subject_to[*breaks->constraint].text() : "fits";
    }
    list.push_back({{"overrides", std::move(overrides)},
                    {"because", because},
                    {"by_at_least", breaks != nullptr ? number_or_null(breaks->by) : Json(nullptr)},
                    {"objective_at_best", as_given(found.goal, point.objectives, number_or_null)},
                    {"by_smaller", point.by_smaller}});
  }
  return list;
}

}  // namespace
}  // namespace search_document_detail

nlohmann::ordered_json search_document(const SearchResult& found) {
  using search_document_detail::Json;
  std::vector<PointResult> points;
  for (const SearchPoint& point : found.points)
    points.push_back(point.result);
  Json document = result_document(points);
  Json constraints = Json::array();
  for (const Expression& expression : found.goal.subject_to)
    constraints.push_back(expression.text());
  Json objectives = Json::array();
  for (const SearchPoint& point : found.points) {
    objectives.push_back(search_document_detail::as_given(found.goal, point.objectives,
                                                          search_document_detail::number_or_null));
  }
  const Proof proof = proof_of(found);
  document["search"] = {
      {"space", found.space()},
      {found.goal.maximize ? "maximize" : "minimize",
       search_document_detail::as_given(
           found.goal, found.goal.objectives,
           [](const Expression& objective) { return Json(objective.text()); })},
      {"subject_to", std::move(constraints)},
      {"best", found.ranking.empty() ? Json(nullptr) : Json(found.ranking.front())},
      {"proven", proof.assumed == 0},
      {"bound", proof.bound ? Json(*proof.bound) : Json(nullptr)},
      {"ranking", found.ranking},
      {"front", found.front},
      {"left_out", search_document_detail::left_out_of(found)},
      {"objective", std::move(objectives)},
      {"not_simulated", search_document_detail::excluded_of(found)}};
  return document;
}

}  // namespace tidemark
