#include "scenarios/studies/more_gpus.hpp"

#include <cstddef>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/core/errors.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/short_form.hpp"
#include "scenarios/studies/simulate_points.hpp"

namespace tidemark {

namespace more_gpus_detail {
namespace {

// Returns the point of a document; nothing where its step cannot be built, since it is another that
// is explained.
std::optional<PointResult> simulated(const Value& document, const Environment& environment) {
  try {
    return simulate_points(document, environment, 1, {.smallest_capacity = false}).front();
  } catch (const UserError&) {
    return std::nullopt;
  }
}

}  // namespace
}  // namespace more_gpus_detail

std::optional<MoreGpus> on_twice_the_gpus(const DetailedPoint& point,
                                          const Environment& environment) {
  const int ranks = point.result.ranks;
  if (ranks < 2 || ranks > std::numeric_limits<int>::max() / 2) return std::nullopt;
  Value document = point.document;
  apply_override(document, {"hardware.count", text_value(fmt::to_string(2 * ranks), Location{})});
  const std::optional<PointResult> there = more_gpus_detail::simulated(document, environment);
  if (!there || there->status == PointStatus::kError) return std::nullopt;
  MoreGpus more{.count = 2 * ranks, .peak = there->run.live.bytes, .terms = {}, .unchanged = {}};
  for (std::size_t role = 0; role < static_cast<std::size_t>(kRoles); ++role) {
    const SharedTerm term{.role = static_cast<Role>(role),
                          .here = point.result.peak.by_role[role],
                          .there = there->peak.by_role[role]};
    if (term.there != term.here) {
      more.terms.push_back(term);
    } else if (term.here > Bytes(0)) {
      more.unchanged.push_back(term);
    }
  }
  return more;
}

nlohmann::ordered_json more_gpus_json(const std::optional<MoreGpus>& more) {
  if (!more) return nullptr;
  nlohmann::ordered_json terms = nlohmann::ordered_json::array();
  for (const SharedTerm& term : more->terms) {
    terms.push_back({{"role", name_of(term.role)},
                     {"bytes", term.here.count},
                     {"bytes_there", term.there.count}});
  }
  nlohmann::ordered_json unchanged = nlohmann::ordered_json::array();
  for (const SharedTerm& term : more->unchanged)
    unchanged.push_back({{"role", name_of(term.role)}, {"bytes", term.here.count}});
  return {{"count", more->count},
          {"peak_live", more->peak.count},
          {"terms", std::move(terms)},
          {"unchanged", std::move(unchanged)}};
}

}  // namespace tidemark
