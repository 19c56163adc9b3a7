// PyTorch's views of its allocator: the segments of torch.cuda.memory_snapshot() and the text of
// the out-of-memory error.
#include <algorithm>

#include <fmt/format.h>

#include "sim/memory/torch/torch_caching_allocator.hpp"

namespace tidemark {

std::string_view name_of(SegmentAction action) {
  constexpr std::string_view kNames[] = {"segment_alloc", "segment_free", "segment_map",
                                         "segment_unmap", "oom"};
  return kNames[static_cast<int>(action)];
}

// A mapped run of an expandable range is a segment of its own.
std::vector<TorchSegment> TorchCachingAllocator::segments() const {
  std::vector<TorchSegment> segments;
  arena_.for_each([&](const TorchBlock& head) {
    const bool inside = head.previous != nullptr && head.previous->mapped;
    if (!head.mapped || inside) return;
    TorchSegment segment{.address = head.address,
                         .stream = head.stream,
                         .large = head.large,
                         .expandable = head.is_expandable()};
    for (const TorchBlock* block = &head; block != nullptr && block->mapped; block = block->next) {
      segment.size += block->size;
      if (block->allocated) segment.allocated += block->size;
      if (!block->is_idle()) segment.active += block->size;
      segment.blocks.push_back(block);
    }
    segments.push_back(std::move(segment));
  });
  std::sort(segments.begin(), segments.end(),
            [](const TorchSegment& a, const TorchSegment& b) { return a.address < b.address; });
  return segments;
}

Bytes TorchCachingAllocator::largest_free(Bytes bytes, TorchStream stream) const {
  const Pool& pool = streams_[stream]->pools[request_for(bytes, stream).large ? 1 : 0];
  const TorchBlock* largest = pool.free.largest();
  return largest == nullptr ? Bytes(0) : largest->size;
}

void TorchCachingAllocator::note_out_of_memory(Bytes bytes, TorchStream stream) {
  const Request request = request_for(bytes, stream);
  ++statistics_.num_ooms;
  const Bytes device_free = device_.available();
  note(SegmentAction::kOutOfMemory, device_free, request.size, stream);
  out_of_memory_ = {.segment = request.segment,
                    .capacity = device_.capacity(),
                    .device_free = device_free,
                    .allowed = std::nullopt,
                    .allocated = statistics_.allocated_bytes.all.current,
                    .reserved = statistics_.reserved_bytes.all.current};
  for (const std::unique_ptr<Stream>& pools : streams_) {
    if (!pools->is_private) continue;
    for (const Pool& pool : pools->pools) {
      for (const TorchBlock* b = pool.free.smallest(); b != nullptr; b = b->larger)
        out_of_memory_.private_pools += b->size;
    }
  }
  if (options_.memory_fraction) out_of_memory_.allowed = allowed_;
}

std::string torch_size(Bytes bytes) {
  const auto value = static_cast<double>(bytes.count);
  if (bytes <= kKiB) return fmt::format("{} bytes", bytes.count);
  if (bytes <= kMiB) return fmt::format("{:.2f} KiB", value / 1024.0);
  if (bytes <= kGiB) return fmt::format("{:.2f} MiB", value / 1048576.0);
  return fmt::format("{:.2f} GiB", value / 1073741824.0);
}

std::string message_of(const TorchOutOfMemory& failure) {
  const std::string allowed =
      failure.allowed ? torch_size(*failure.allowed) + " allowed; " : std::string();
  const std::string private_pools = failure.private_pools == Bytes(0)
                                        ? std::string()
                                        : fmt::format(
                                              "with {} allocated in private pools (e.g., CUDA "
                                              "Graphs), ",
                                              torch_size(failure.private_pools));
  return fmt::format(
      "CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of {} of which {} is "
      "free. {}Of the allocated memory {} is allocated by PyTorch, {}and {} is reserved by PyTorch "
      "but unallocated. If reserved but unallocated memory is large try setting "
      "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation "
      "for Memory Management  "
      "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)",
      torch_size(failure.segment), torch_size(failure.capacity), torch_size(failure.device_free),
      allowed, torch_size(failure.allocated), private_pools,
      torch_size(failure.reserved - failure.allocated - failure.private_pools));
}

}  // namespace tidemark
