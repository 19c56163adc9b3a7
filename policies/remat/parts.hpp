// When parts of other nodes' outputs are made: see CostNode::part.
#pragma once

#include "policies/remat/problem.hpp"

namespace tidemark {

// The same schedule, but where a node runs again, what is part of its output and still wanted is
// recomputed of it, as soon as nobody else reads the node: the part that was kept until then goes
// before. It is what the program does, which makes all results of an operator again.
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
