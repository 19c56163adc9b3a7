// The times at which parts of other nodes' outputs are made: see CostNode::part.
#pragma once

#include "policies/remat/problem.hpp"

namespace tidemark {

// Returns a schedule in which, when a node is recomputed, the parts of its output that are still
// wanted are recomputed from it, as soon as no other node reads it: the part that was kept until
// then is freed before. Programs do so, as they recompute all results of an operator together.
//
//   dropout mask ........ dropout' add' ........ dropout.backward
//           |---------------------------------------|                kept
//           |                        mask' |--------|                recomputed
//
// Parts cost nothing: neither the schedule's cost nor its class changes, and its peak is no
// greater. First evaluations stay where they are.
[[nodiscard]] Schedule with_parts_again(const RematProblem& problem, Schedule schedule,
                                        ScheduleClass schedule_class);

}  // namespace tidemark
