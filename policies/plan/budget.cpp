#include "policies/plan/budget.hpp"

#include <fmt/format.h>

#include "graph/core/value.hpp"

namespace tidemark {

std::optional<Bytes> decode_budget(const Decoder& parameters, Range range) {
  const Value* given = parameters.value().find("budget");
  if (given != nullptr && given->is_scalar() && given->scalar.ends_with('%')) {
    parameters.fail_at(
        "budget",
        fmt::format("expected a size such as 40GiB, found {}: a share of the peak without policies "
                    "is for compare, which simulates that step, too: leave the budget out here and "
                    "write compare: {{policies: [...], budgets: [{}]}}",
                    found(*given), excerpt(given->scalar)));
  }
  return parameters.maybe<Bytes>("budget", range);
}

}  // namespace tidemark
