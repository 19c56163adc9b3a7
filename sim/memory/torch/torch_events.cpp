// Frees that wait: a block that other streams have recorded returns to its pool when each of them
// has passed the moment of the free. There is no notification: ended events are found at the next
// allocation.
//
//   allocation stream  ---- free -----------------------------> allocate: looks at the queues
//   recording stream   --------- event recorded ... ended ----
#include "sim/memory/torch/torch_caching_allocator.hpp"

namespace tidemark {

void TorchCachingAllocator::record_stream(TorchBlock& block, TorchStream stream) {
  if (stream == block.stream) return;
  for (std::uint32_t link = block.uses; link != kNoLink; link = links_[link].next) {
    if (links_[link].stream == stream) return;
  }
  block.uses = new_link({.block = &block, .stream = stream, .next = block.uses});
}

// Adds one event per recorded stream, at the end of that stream's queue.
void TorchCachingAllocator::insert_events(TorchBlock& block) {
  std::uint32_t link = block.uses;
  block.uses = kNoLink;
  while (link != kNoLink) {
    const std::uint32_t following = links_[link].next;
    Stream& stream = *streams_[links_[link].stream];
    links_[link].event = stream.timeline.issued;
    links_[link].next = kNoLink;
    if (stream.first_event == kNoLink) {
      stream.first_event = link;
    } else {
      links_[stream.last_event].next = link;
    }
    stream.last_event = link;
    ++block.pending_events;
    ++events_;
    link = following;
  }
}

void TorchCachingAllocator::event_passed(TorchBlock& block) {
  if (--block.pending_events == 0) complete_free(block);
}

// Takes events in the order of the queue, up to the first that has not ended.
void TorchCachingAllocator::process_events() {
  for (TorchStream s : by_handle_) {
    Stream& stream = *streams_[s];
    while (stream.first_event != kNoLink &&
           links_[stream.first_event].event <= stream.timeline.ended) {
      const std::uint32_t link = stream.first_event;
      stream.first_event = links_[link].next;
      event_passed(*links_[link].block);
      unlink(link);
      --events_;
    }
  }
}

// Finishes all events; the caller has waited for them.
void TorchCachingAllocator::finish_all_events() {
  ++statistics_.num_sync_all_streams;
  for (TorchStream s : by_handle_) {
    Stream& stream = *streams_[s];
    while (stream.first_event != kNoLink) {
      const std::uint32_t link = stream.first_event;
      stream.first_event = links_[link].next;
      event_passed(*links_[link].block);
      unlink(link);
    }
  }
  events_ = 0;
}

std::uint32_t TorchCachingAllocator::new_link(const Link& link) {
  if (unused_links_ == kNoLink) {
    links_.push_back(link);
    return static_cast<std::uint32_t>(links_.size() - 1);
  }
  const std::uint32_t id = unused_links_;
  unused_links_ = links_[id].next;
  links_[id] = link;
  return id;
}

void TorchCachingAllocator::unlink(std::uint32_t link) {
  links_[link].next = unused_links_;
  unused_links_ = link;
}

}  // namespace tidemark
