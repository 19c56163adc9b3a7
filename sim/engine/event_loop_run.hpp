// run() itself. A file that knows a type of allocator includes this and instantiates run() for it
// (sim/allocators); everything else includes engine.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <vector>

#include "graph/core/errors.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/event_loop.hpp"
#include "sim/engine/event_loop_eviction.hpp"
#include "sim/engine/event_loop_host.hpp"
#include "sim/engine/event_loop_streams.hpp"
#include "sim/engine/event_loop_synchronize.hpp"

namespace tidemark {
namespace {

template <class A>
void Engine<A>::begin() {
  if (options_.eviction != nullptr) prepare_eviction();
  schedule_issue();
}

template <class A>
RunResult Engine<A>::run() {
  begin();
  while (!stopped_) {
    const std::int64_t end_time = earliest_end();
    if (end_time == kNever && next_issue_ == kNever) break;
    if (end_time <= next_issue_) {
      for (std::size_t s = 0; s < streams_; ++s) {
        if (queues_[s].ends == end_time) end(s, end_time);
      }
      start_ready(end_time);
    } else {
      // The host goes on until something ends.
      while (!stopped_ && next_issue_ < earliest_end())
        issue();
    }
  }
  return finish();
}

// Advances one of several ranks by one moment: what ends then, or one instruction of the host.
template <class A>
void Engine<A>::step() {
  const std::int64_t end_time = earliest_end();
  if (end_time > next_issue_) {
    issue();
    return;
  }
  for (std::size_t s = 0; s < streams_; ++s) {
    if (queues_[s].ends == end_time) end(s, end_time);
  }
  start_ready(end_time);
  resume_host(end_time);
}

// Called when another rank has sent something at `now`.
template <class A>
void Engine<A>::hear_of_sends(std::int64_t now) {
  if (stopped_) return;
  start_ready(now);
  resume_host(now);
}

// Returns the receive that keeps a queue from going on, or else the queue's current instruction.
template <class A>
void Engine<A>::report_deadlock() {
  fail(RunStatus::kDeadlock);
  for (const Queue& queue : queues_) {
    if (queue.head == kNone) continue;
    const bool receives = program_.opcode[queue.head] == Opcode::kReceive && peers_ != nullptr;
    if (receives && !peers_->has_arrived(queue.head)) {
      result_.failed_instruction = queue.head;
      result_.awaited_rank = peers_->receipt_of(queue.head).from;
      return;
    }
    result_.failed_instruction = queue.head;
  }
}

template <class A>
RunResult Engine<A>::finish() {
  for (const Queue& queue : queues_) {
    if (!stopped_ && queue.head != kNone) report_deadlock();
    result_.total = std::max(result_.total, Duration(queue.free_since));
  }
  for (Duration d : result_.phase)
    result_.step += d;
  result_.between_steps = live_ - workspace_;
  const auto exposed = [&](Stream s) { return result_.exposed[static_cast<std::size_t>(s)]; };
  result_.exposed_transfer = exposed(Stream::kCopyOut) + exposed(Stream::kCopyIn) +
                             exposed(Stream::kNvmeRead) + exposed(Stream::kNvmeWrite);
  for (std::size_t s = 0; s < kStreams; ++s) {
    if (is_communication(static_cast<Stream>(s))) {
      result_.exposed_communication += result_.exposed[s];
    }
  }
  if constexpr (requires { allocator_.segments(); }) result_.segments = allocator_.segments();
  return result_;
}

// Several ranks under one clock: at equal times what ends comes before what a host issues, and low
// ranks come before high ones.
template <class A>
void run_together(std::deque<Engine<A>>& ranks) {
  struct Next {
    std::int64_t end = kNever;
    std::int64_t issue = kNever;
  };
  std::vector<Next> next(ranks.size());  // next event of each rank
  const auto look_at = [&](std::size_t r) {
    next[r] = {.end = ranks[r].next_end(), .issue = ranks[r].next_issue()};
  };
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].begin();
    look_at(r);
  }
  for (;;) {
    std::size_t first = ranks.size();
    std::int64_t time = kNever;
    bool ends = false;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const std::int64_t at = std::min(next[r].end, next[r].issue);
      if (at > time || at == kNever) continue;
      if (at == time && (ends || next[r].end > next[r].issue)) continue;
      first = r;
      time = at;
      ends = next[r].end <= next[r].issue;
    }
    if (first == ranks.size()) return;
    ranks[first].step();
    look_at(first);
    if (!ranks[first].take_sent()) continue;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      if (r == first) continue;
      ranks[r].hear_of_sends(time);
      look_at(r);
    }
  }
}

}  // namespace

template <Allocator A>
std::vector<RunResult> run(std::span<const Rank<A>> ranks) {
  std::vector<const StepProgram*> programs;
  std::vector<const Scratch*> scratch;
  for (const Rank<A>& rank : ranks) {
    if (rank.options.eviction != nullptr) {
      throw InternalError("eviction decides for a rank that runs alone");
    }
    programs.push_back(rank.program);
    scratch.push_back(rank.scratch);
  }
  const std::vector<std::vector<Receipt>> receipts = match_messages(programs);
  std::deque<Peers> peers;
  std::deque<Engine<A>> engines;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const Rank<A>& rank = ranks[r];
    const Peers& own = peers.emplace_back(receipts[r], scratch);
    engines.emplace_back(*rank.program, *rank.costs, *rank.allocator, *rank.scratch, rank.options,
                         &own);
  }
  run_together(engines);
  std::vector<RunResult> results;
  results.reserve(engines.size());
  for (Engine<A>& engine : engines)
    results.push_back(engine.finish());
  tell_deadlock_from_failure(results);
  return results;
}

template <Allocator A>
RunResult run(const StepProgram& program, const CostTable& costs, A& allocator, Scratch& scratch,
              const RunOptions& options) {
  return Engine<A>(program, costs, allocator, scratch, options).run();
}

}  // namespace tidemark
