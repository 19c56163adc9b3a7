#include "policies/solver/plan_cache.hpp"

#include <fmt/format.h>

namespace tidemark {
namespace plan_cache_detail {
namespace {

// Writes numbers one after the other, lists with their length in front.
class Content {
 public:
  void add(std::int64_t number) {
    text_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  template <class List>
  void add_all(const List& list) {
    add(static_cast<std::int64_t>(list.size()));
    for (const auto& item : list)
      add(static_cast<std::int64_t>(item));
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string content_of(const RematProblem& problem) {
  Content content;
  content.add(problem.fixed);
  content.add_all(problem.cost);
  content.add_all(problem.bytes);
  content.add_all(problem.workspace);
  content.add_all(problem.backward);
  content.add_all(problem.once);
  content.add_all(problem.block);
  for (const std::vector<NodeIndex>& deps : problem.deps)
    content.add_all(deps);
  for (const std::string& layer : problem.layer)
    content.add_all(layer);
  for (const std::string& kind : problem.operator_kind)
    content.add_all(kind);
  return content.take();
}

std::string content_of(std::string_view policy, const PlanRequest& request) {
  Content content;
  content.add(request.known != nullptr);
  if (request.known != nullptr) content.add_all(*request.known);
  return fmt::format("{}\n{} {} {} {} {} {}\n{}", policy, request.budget.count,
                     name_of(request.schedule_class), request.time_limit.count(),
                     request.iterations, request.seed, request.saved_share.value_or(-1),
                     content.take());
}

}  // namespace
}  // namespace plan_cache_detail

PlanResult PlanCache::plan(std::string_view policy, const RematProblem& problem,
                           const PlanRequest& request, const std::function<PlanResult()>& make) {
  Plan* plan = nullptr;
  {
    const std::lock_guard lock(mutex_);
    plan = &plans_[plan_cache_detail::content_of(problem)]
                  [plan_cache_detail::content_of(policy, request)];
  }
  std::call_once(plan->once, [&] {
    plan->result = make();
    const std::lock_guard lock(mutex_);
    ++made_;
  });
  return plan->result;
}

std::int64_t PlanCache::made() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

}  // namespace tidemark
