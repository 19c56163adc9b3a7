// The streams: queues that run in order, edges, copies and collectives that share their links.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "sim/engine/event_loop.hpp"
#include "sim/engine/link_load.hpp"
#include "sim/engine/waits.hpp"

namespace tidemark {
namespace {

template <class A>
void Engine<A>::enqueue(std::uint32_t i) {
  Queue& queue = queues_[program_.stream[i]];
  scratch_.enqueued[i] = host_;
  scratch_.finished[i] = -1;
  scratch_.next[i] = kNone;
  scratch_.previous[i] = queue.issued;
  if (queue.head == kNone) {
    queue.head = i;
  } else {
    scratch_.next[queue.tail] = i;
  }
  queue.tail = i;
  queue.issued = i;
  ++queue.waiting;
  if (options_.eviction != nullptr && program_.stream[i] == kCompute &&
      program_.opcode[i] == Opcode::kLaunch) {
    scratch_.restored[i] = std::exchange(injected_, 0);
  }
  if (queue.running == kNone && queue.head == i && host_ < earliest_end() && edges_ended(i)) {
    start(program_.stream[i], host_);
  }
}

template <class A>
bool Engine<A>::edges_ended(std::uint32_t i) const {
  for (std::uint32_t edge : program_.edges_of(i)) {
    if (scratch_.finished[edge] < 0) return false;
  }
  if (program_.opcode[i] != Opcode::kReceive) return true;
  if (peers_ != nullptr) return peers_->has_arrived(i);
  return arrival_of(i) != kNever;
}

// Returns when what a rank receives arrives, for a rank that runs alone; kNever where nothing does.
template <class A>
std::int64_t Engine<A>::arrival_of(std::uint32_t receive) const {
  const auto found =
      std::lower_bound(options_.arrivals.begin(), options_.arrivals.end(), receive,
                       [](const Arrival& arrival, std::uint32_t i) { return arrival.receive < i; });
  return found != options_.arrivals.end() && found->receive == receive ? found->at.count() : kNever;
}

template <class A>
void Engine<A>::start_ready(std::int64_t now) {
  for (std::size_t s = 0; s < streams_; ++s) {
    Queue& queue = queues_[s];
    while (queue.running == kNone && queue.head != kNone && edges_ended(queue.head)) {
      start(s, now);
      // A wait of compute takes no time. Other work that ends at once may be waited for by a stream
      // that this loop has passed, so it ends in the next batch of events.
      if (queue.ends != now || s != kCompute) break;
      end(s, now);
    }
  }
}

// Adds up the time that the compute stream stood still before an instruction, by cause.
template <class A>
void Engine<A>::account_wait(std::uint32_t i, std::int64_t now) {
  const std::int64_t free_since = queues_[kCompute].free_since;
  const std::int64_t idle = now - free_since;
  if (idle <= 0) return;
  const std::int64_t host = std::clamp<std::int64_t>(scratch_.enqueued[i] - free_since, 0, idle);
  result_.host_bound += Duration(host - std::min(host, blocked_total_));
  for (std::size_t s = 0; s < streams_ && blocked_total_ > 0; ++s)
    result_.exposed[s] += Duration(blocked_[s]);
  if (idle == host) return;
  trace_wait(program_, scratch_, i, free_since + host, now,
             [&](std::uint32_t cause, std::int64_t lost) {
               result_.exposed[program_.stream[cause]] += Duration(lost);
             });
}

// Notes that the host stood still from `from` to `until`, when `cause` ended, and could not issue.
template <class A>
void Engine<A>::account_block(std::uint32_t cause, std::int64_t from, std::int64_t until) {
  const Queue& compute = queues_[kCompute];
  if (cause == kNone || compute.running != kNone || compute.head != kNone) return;
  from = std::max(from, compute.free_since);
  if (from >= until) return;
  trace_back(program_, scratch_, cause, from, until,
             [&](std::uint32_t at, std::int64_t lost) { blocked_[program_.stream[at]] += lost; });
  blocked_total_ += until - from;
}

template <class A>
void Engine<A>::start(std::size_t s, std::int64_t now) {
  Queue& queue = queues_[s];
  const std::uint32_t i = queue.head;
  queue.head = scratch_.next[i];
  queue.running = i;
  // Restored operators run right before the launch that needs them.
  const std::int64_t restored =
      options_.eviction != nullptr && s == kCompute ? scratch_.restored[i] : 0;
  if (slot(i).last_step && !slot(i).recompute) result_.recompute += Duration(restored);
  now = std::max(now, scratch_.enqueued[i]);
  const bool counts = s == kCompute && slot(i).last_step;
  if (counts) account_wait(i, now);
  if (s == kCompute && blocked_total_ > 0) {
    blocked_.fill(0);
    blocked_total_ = 0;
  }
  scratch_.started[i] = now;
  switch (program_.opcode[i]) {
    case Opcode::kLaunch: {
      const std::int64_t duration = costs_.device[OperatorId(program_.subject[i])].count();
      queue.slowdown = 1;
      queue.ends = now + restored + duration;
      if (s == kCompute) {
        retime_kernel(now);
      } else if (runs_collective(s)) {
        queue.left = static_cast<double>(duration);
        queue.ns_per_unit = 1;
        queue.updated = now;
        retime_links(now, false);
      }
      return;
    }
    case Opcode::kCopyOut:
    case Opcode::kCopyIn: {
      queue.left = static_cast<double>(program_.copied_bytes(i).count);
      queue.ns_per_unit = 0;
      queue.updated = now + (s == kOut ? costs_.copy_out : costs_.copy_in).latency.count();
      retime_links(now, true);
      return;
    }
    case Opcode::kNvmeWrite:
    case Opcode::kNvmeRead: {
      const CostTable::Link& link =
          program_.opcode[i] == Opcode::kNvmeRead ? costs_.nvme_read : costs_.nvme_write;
      const auto bytes = static_cast<double>(program_.copied_bytes(i).count);
      queue.ends = now + link.latency.count() + std::llround(bytes * link.ns_per_byte_alone);
      return;
    }
    case Opcode::kReceive:
      queue.ends = peers_ != nullptr ? now : std::max(now, arrival_of(i));
      return;
    default:
      queue.ends = now;
      return;
  }
}

// From now on what a queue has left goes on at another rate.
inline void set_rate(Queue& queue, double ns_per_unit, std::int64_t now) {
  if (now > queue.updated && queue.ns_per_unit > 0) {
    queue.left -= static_cast<double>(now - queue.updated) / queue.ns_per_unit;
    queue.updated = now;
  }
  queue.ns_per_unit = ns_per_unit;
  const double left = std::max(queue.left, 0.0) * ns_per_unit;
  queue.ends = std::max(now, queue.updated) + std::llround(left);
}

template <class A>
bool Engine<A>::copies() const {
  return queues_[kOut].running != kNone || queues_[kIn].running != kNone;
}

// Both directions of the link share it, and with collectives on it, too: the rest of a copy goes on
// at the rate of the moment.
template <class A>
void Engine<A>::retime_copies(std::int64_t now) {
  const bool both = queues_[kOut].running != kNone && queues_[kIn].running != kNone;
  for (std::size_t s : {kOut, kIn}) {
    Queue& queue = queues_[s];
    if (queue.running == kNone) continue;
    const CostTable::Link& link = s == kOut ? costs_.copy_out : costs_.copy_in;
    double rate = both ? link.ns_per_byte_duplex : link.ns_per_byte_alone;
    if (costs_.copies_share_inside) rate *= stretch_.inside;
    if (rate != queue.ns_per_unit) set_rate(queue, rate, now);
  }
}

// Whether the queue runs something on links between GPUs: a collective or a send.
template <class A>
bool Engine<A>::runs_collective(std::size_t s) const {
  const std::uint32_t i = queues_[s].running;
  if (group_count_ == 0 || !is_communication(static_cast<Stream>(s)) || i == kNone ||
      program_.opcode[i] != Opcode::kLaunch)
    return false;
  const OperatorId op(program_.subject[i]);
  const LinkUse use = costs_.link_use[op];
  return costs_.tax_collective[op] > 0 || use.inside > 0 || use.network > 0;
}

// The rest of each collective that runs goes on with its part of the links of the moment.
template <class A>
void Engine<A>::retime_collectives(std::int64_t now) {
  std::array<std::size_t, kStreams> running{};
  std::size_t count = 0;
  LinkLoad inside;
  LinkLoad network;
  for (std::size_t g = 0; g < group_count_; ++g) {
    if (!runs_collective(groups_[g])) continue;
    running[count++] = groups_[g];
    const LinkUse use = costs_.link_use[OperatorId(program_.subject[queues_[groups_[g]].running])];
    inside.add(use.inside);
    network.add(use.network);
  }
  if (costs_.copies_share_inside && copies()) inside.add(1);
  stretch_ = {.inside = inside.stretch(), .network = network.stretch()};
  collectives_ = 0;
  tax_collectives_ = 0;
  for (std::size_t k = 0; k < count; ++k) {
    Queue& queue = queues_[running[k]];
    const OperatorId op(program_.subject[queue.running]);
    const LinkUse use = costs_.link_use[op];
    const double slower =
        std::max(1 + use.inside * (stretch_.inside - 1), 1 + use.network * (stretch_.network - 1));
    if (slower != queue.ns_per_unit) set_rate(queue, slower, now);
    if (costs_.tax_collective[op] <= 0) continue;
    ++collectives_;
    tax_collectives_ += costs_.tax_collective[op] / slower;
  }
}

// A copy, or a collective, has started or ended: what runs on its link goes on with its part of it,
// and the running kernel with what they leave.
template <class A>
void Engine<A>::retime_links(std::int64_t now, bool copy) {
  if (group_count_ > 0 && (!copy || costs_.copies_share_inside)) retime_collectives(now);
  if (copy || costs_.copies_share_inside) retime_copies(now);
  retime_kernel(now);
}

// Returns how much longer a kernel takes beside the copies and collectives of the moment: its
// memory traffic has less bandwidth, and its arithmetic fewer multiprocessors.
template <class A>
double Engine<A>::slowdown(std::uint32_t i) const {
  double tax = (queues_[kOut].running != kNone ? costs_.tax_copy_out : 0) +
               (queues_[kIn].running != kNone ? costs_.tax_copy_in : 0);
  if (costs_.copies_share_inside) tax /= stretch_.inside;
  tax += tax_collectives_;
  if (tax <= 0) return 1;
  if (costs_.memory.empty()) return 1 + tax;
  const OperatorId op(program_.subject[i]);
  const auto duration = static_cast<double>(costs_.device[op].count());
  const auto memory = static_cast<double>(costs_.memory[op].count());
  const auto slack = static_cast<double>(costs_.slack[op].count());
  const double taken = std::min(collectives_ * costs_.collective_multiprocessors, kMostTaken);
  const double arithmetic = slack > 0 ? (memory + slack) * taken / (1 - taken) : 0;
  const double longer = std::max(memory * tax - slack, arithmetic);
  return longer > 0 && duration > 0 ? 1 + longer / duration : 1;
}

// The rest of a kernel goes on at the rate of the moment.
template <class A>
void Engine<A>::retime_kernel(std::int64_t now) {
  Queue& queue = queues_[kCompute];
  if (queue.running == kNone || program_.opcode[queue.running] != Opcode::kLaunch) return;
  const double slower = slowdown(queue.running);
  if (slower == queue.slowdown) return;
  queue.ends = now + std::llround(static_cast<double>(queue.ends - now) * slower / queue.slowdown);
  queue.slowdown = slower;
}

template <class A>
void Engine<A>::end(std::size_t s, std::int64_t now) {
  Queue& queue = queues_[s];
  const std::uint32_t i = queue.running;
  const bool was_collective = runs_collective(s);
  scratch_.finished[i] = now;
  // A receive takes no time of its own: until the other rank has sent, it waits.
  if (program_.opcode[i] == Opcode::kReceive) scratch_.started[i] = now;
  const Slot& at = slot(i);
  if (at.last_step) {
    const Duration busy(now - scratch_.started[i]);
    result_.busy[s] += busy;
    if (s == kCompute) {
      result_.phase[static_cast<std::size_t>(at.phase)] += Duration(now - queue.free_since);
      if (at.recompute) result_.recompute += busy;
    }
  }
  queue.free_since = now;
  queue.running = kNone;
  queue.ends = kNever;
  if (peers_ != nullptr && is_communication(static_cast<Stream>(s)) &&
      program_.opcode[i] == Opcode::kLaunch) {
    has_sent_ = true;
  }
  if (queue.waiting-- == kLaunchQueue && next_issue_ == kNever &&
      host_wait_ == HostWait::kNothing) {
    host_ = std::max(host_, now);
    schedule_issue();
  }
  const bool was_copy = s == kOut || s == kIn;
  if (was_copy || was_collective) retime_links(now, was_copy);
  if (!scratch_.deferred.empty()) events_ended_ = true;
}

template <class A>
std::int64_t Engine<A>::earliest_end() const {
  std::int64_t earliest = queues_[0].ends;
  for (std::size_t s = 1; s < streams_; ++s)
    earliest = std::min(earliest, queues_[s].ends);
  return earliest;
}

}  // namespace
}  // namespace tidemark
