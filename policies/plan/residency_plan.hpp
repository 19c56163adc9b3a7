// Decisions about where a value is while nothing touches it.
//
// Policies have two passes. The first is for recomputation, which adds occurrences to the program
// order; liveness is then analysed again, and in the second pass policies move what is still kept.
// So checkpointing and offloading compose in any order: offloading may move what checkpointing
// keeps.
//   - A gap without a decision is kept; Keep is for what no later policy may move.
//   - The first decision on a gap wins; later ones are counted as contested.
//   - Only lowering frees.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/analysis/liveness.hpp"
#include "graph/core/ids.hpp"
#include "graph/core/units.hpp"
#include "graph/ir/collective.hpp"
#include "graph/ir/tensor.hpp"
#include "policies/plan/plan_status.hpp"

namespace tidemark {

using GroupId = Id<struct GroupTag>;

// Drops the value and recomputes it, together with its group, before the first touch that ends a
// gap of the group.
struct Recompute {
  GroupId group;
  // The group is issued before this operator, if that comes before the first such touch: work on a
  // stream of its own, such as a gather, then overlaps with the operators between. The earliest
  // counts if a group has several gaps. Invalid: right before the touch.
  Position issue_at = {};
};

// Copies the value to page-locked host memory once nothing holds it and fetches it back; to NVMe
// through a page-locked buffer that is freed when the write has ended.
//
// A storage whose home is not the device leaves in every gap without a decision and comes back on
// demand; a decision on it only says when it is fetched, and `tier` is ignored in favour of its
// home.
struct Offload {
  Position fetch_at;    // the copy back is issued before this operator
  Position release_at;  // compute waits for the copy before this operator and the allocation is
                        // freed; invalid: the allocation returns to the pool at the copy's event
  Tier tier = Tier::kHost;
  // The copy out is issued before this operator; invalid: behind the last use, as soon as nothing
  // holds the value.
  Position copy_at = {};
  // Bytes that the copies carry and the tier holds of a value that is compressed on its way; 0: all
  // of it.
  Bytes compressed = {};
};

// Keeps the value where it is, whatever later policies decide: for must-save lists, and for
// offloaded values that are used again soon.
struct Keep {
  std::string_view reason;
};

using Decision = std::variant<std::monostate, Recompute, Offload, Keep>;

// In-order queues of work. Each group of ranks communicates on a queue of its own.
enum class Stream : std::uint8_t {
  kCompute,
  kCopyOut,  // device to host
  kCopyIn,   // host to device
  kDataGroup,
  kHostWorker,
  kNvmeRead,
  kNvmeWrite,
  kShardGroup,
  kTensorGroup,
  kContextGroup,
  kExpertGroup,
  kPipelineGroup,
  kReplicateGroup,
  kShardReduction,  // reduce-scatters, beside the gathers of kShardGroup
};
inline constexpr std::size_t kStreams = 14;
[[nodiscard]] constexpr std::string_view name_of(Stream stream) {
  constexpr std::string_view kNames[] = {"compute",
                                         "d2h",
                                         "h2d",
                                         "communication",
                                         "host",
                                         "nvme_read",
                                         "nvme_write",
                                         "communication_shard",
                                         "communication_tensor",
                                         "communication_context",
                                         "communication_expert",
                                         "communication_pipeline",
                                         "communication_replicate",
                                         "communication_reduction"};
  return kNames[static_cast<int>(stream)];
}
[[nodiscard]] constexpr bool is_communication(Stream stream) {
  return stream == Stream::kDataGroup || stream >= Stream::kShardGroup;
}
// Groups of shards have two queues, as FSDP has two streams: memory is taken and waited for on each
// apart, though the group's communicator runs one collective at a time.
[[nodiscard]] constexpr Stream queue_of(MeshDimension group, CollectiveKind kind) {
  if (group == MeshDimension::kData) return Stream::kDataGroup;
  if (group == MeshDimension::kShard && kind == CollectiveKind::kReduceScatter)
    return Stream::kShardReduction;
  const auto others = static_cast<int>(group) - static_cast<int>(MeshDimension::kShard);
  return static_cast<Stream>(static_cast<int>(Stream::kShardGroup) + others);
}

// Work on `stream` is issued only when at most `in_flight` earlier instructions of it have not
// ended: the host waits (cudaEventSynchronize), or the compute stream (cudaStreamWaitEvent).
struct Throttle {
  enum class Waits : std::uint8_t { kHost, kCompute };
  Stream stream = Stream::kCopyOut;
  int in_flight = 1;  // 0: each waits for all before it
  Waits waits = Waits::kHost;
  // Counts what has been freed and may still be in use, not what is under way: before memory for a
  // gather is taken, the host waits for the oldest of `in_flight` units that compute has not left
  // yet (FSDP's _FreeEventQueue).
  bool counts_freed_units = false;
};

// Operators to recompute, in order. Those that write persistent memory may not be listed.
struct RecomputeGroup {
  std::vector<Position> recipe;
  // Memory that the code around the recipe keeps, in positions of the order that was planned on.
  std::vector<Kept> kept;
  Bytes held;             // memory that this code has while the recipe runs
  bool in_hooks = false;  // see Occurrence
};

// A solver's figures of its plan for checkpoint placement, in the abstract accounting of cost
// graphs.
struct PlanFigures {
  PlanStatus status = PlanStatus::kUnknown;
  std::string_view schedule_class;  // class of schedules that the bound is for
  Bytes budget;
  Bytes peak;
  Duration cost{};                      // nanoseconds of one micro-batch, repeats included
  Duration base_cost{};                 // cost without repeats
  std::optional<Duration> lower_bound;  // bound of the cost; absent where nothing fits
  std::string infeasible;               // why no plan keeps to the budget; empty if one does
  // Schedules of each distinct micro-batch, in the order of their first appearance: nodes of its
  // cost graph.
  std::vector<std::vector<std::uint32_t>> schedules;
};

// The outcome of a policy's decisions; an entry of `policies` in the result document.
struct PolicyOutcome {
  std::string name;
  std::int64_t decided = 0;
  std::int64_t contested = 0;             // gaps that another policy had decided before
  std::int64_t refused = 0;               // decisions that would change results or need no memory
  std::int64_t recomputed_operators = 0;  // operators recomputed in one step
  Bytes offloaded;                        // bytes offloaded in one step
  std::optional<PlanFigures> plan;        // figures of a policy that solves for a budget
};

class ResidencyPlan {
 public:
  explicit ResidencyPlan(const Liveness& live) : live_(live), decisions_(live.gaps.size()) {}

  // Names the policy that decides from here on; its outcome has this index.
  void begin_policy(std::size_t index, std::string_view name);

  // Adds a group to recompute; decide() refers to it.
  GroupId add_group(RecomputeGroup group);
  // Decides a gap. True when the decision stands; gaps that are dead or held by a variable refuse.
  bool decide(GapId gap, Decision decision);

  // Adds a throttle; if there are several for one stream, the tightest counts.
  void throttle(Throttle limit) { throttles_.push_back(limit); }
  [[nodiscard]] const std::vector<Throttle>& throttles() const { return throttles_; }

  [[nodiscard]] const Decision& decision(GapId gap) const { return decisions_[gap]; }
  [[nodiscard]] bool decided(GapId gap) const {
    return !std::holds_alternative<std::monostate>(decisions_[gap]);
  }
  [[nodiscard]] const IdVector<GapId, Decision>& decisions() const { return decisions_; }
  [[nodiscard]] const IdVector<GroupId, RecomputeGroup>& groups() const { return groups_; }
  [[nodiscard]] std::size_t policy_of(GroupId group) const { return group_policy_[group]; }
  [[nodiscard]] std::vector<PolicyOutcome>& outcomes() { return outcomes_; }
  // Returns the outcome of the policy that decides.
  [[nodiscard]] PolicyOutcome& outcome() { return outcomes_[current_]; }
  [[nodiscard]] const std::vector<PolicyOutcome>& outcomes() const { return outcomes_; }

 private:
  const Liveness& live_;
  IdVector<GapId, Decision> decisions_;
  IdVector<GroupId, RecomputeGroup> groups_;
  IdVector<GroupId, std::size_t> group_policy_;
  std::vector<Throttle> throttles_;
  std::vector<PolicyOutcome> outcomes_;
  std::size_t current_ = 0;
};

}  // namespace tidemark
