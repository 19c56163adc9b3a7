// Expandable segments: address ranges larger than the device, into which pages are mapped as they
// are needed.
//
//   range  | a | free | unmapped      | b | unmapped ...
//                       ^ pages are mapped here and join the free block before them
#include <algorithm>

#include "sim/memory/torch/torch_caching_allocator.hpp"

namespace tidemark {
namespace torch_expandable_detail {
namespace {

// Sizes from c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.4.
constexpr Bytes kSmallPage = 2 * kMiB;
constexpr Bytes kLargePage = 20 * kMiB;
constexpr std::int64_t kSpareShare = 8;  // a range is the device's memory and an eighth more

constexpr Bytes page_size(bool large) {
  return large ? kLargePage : kSmallPage;
}

// The addresses of the whole pages inside a block; none if first >= last.
struct PageRun {
  Bytes first;
  Bytes last;
};
PageRun whole_pages(const TorchBlock& block) {
  const Bytes page = page_size(block.large);
  return {.first = block.range + round_up(block.address - block.range, page),
          .last = block.range + (block.end() - block.range) / page * page};
}

}  // namespace
}  // namespace torch_expandable_detail

// Returns a free block of at least the size asked for, taken out of its pool. Pages that were
// mapped for a request that fails later stay mapped.
TorchBlock* TorchCachingAllocator::expand(const Request& request) {
  TorchBlock* block = find_expandable(request);
  if (block == nullptr) return nullptr;
  if (!block->mapped && !map(*block, std::min(block->size, request.size))) return nullptr;
  while (block->size < request.size) {
    TorchBlock* rest = block->next;  // unmapped; mapping joins it with the free block before it
    if (!map(*rest, std::min(request.size - block->size, rest->size))) return nullptr;
    block = rest;
  }
  take_from_pool(*block);
  return block;
}

// Returns the first chain of free and unmapped blocks, by address, with enough address space; else
// a new range. Null when no addresses are left.
TorchBlock* TorchCachingAllocator::find_expandable(const Request& request) {
  Pool& pool = streams_[request.stream]->pools[request.large ? 1 : 0];
  for (TorchBlock& unmapped : pool.unmapped) {
    TorchBlock* first = &unmapped;
    if (first->previous != nullptr && first->previous->is_idle()) first = first->previous;
    Bytes room;
    for (const TorchBlock* b = first; b != nullptr && b->is_idle() && room < request.size;
         b = b->next) {
      room += b->size;
    }
    if (room >= request.size) return first;
  }
  const Bytes space =
      device_.capacity() + device_.capacity() / torch_expandable_detail::kSpareShare;
  const Bytes size = round_up(space, torch_expandable_detail::page_size(request.large));
  const Bytes address = device_.reserve_addresses(size);
  if (address == FakeDevice::kFailed) return nullptr;
  TorchBlock* block = arena_.take();
  block->size = size;
  block->address = address;
  block->range = address;
  block->stream = request.stream;
  block->large = request.large;
  block->mapped = false;
  pool.unmapped.insert(*block);
  return block;
}

// Maps whole pages for the first `bytes` of an unmapped block. It joins its free neighbours and
// becomes a free block.
bool TorchCachingAllocator::map(TorchBlock& block, Bytes bytes) {
  const Bytes mapped = round_up(bytes, torch_expandable_detail::page_size(block.large));
  const Bytes address = block.address;
  if (!device_.map(mapped)) return false;
  Pool& pool = pool_of(block);
  pool.unmapped.erase(pool.unmapped.iterator_to(block));
  block.mapped = true;
  if (mapped < block.size) {
    TorchBlock* rest = new_block_between(&block, block.next, block);
    rest->mapped = false;
    rest->size = block.size - mapped;
    rest->address = address + mapped;
    pool.unmapped.insert(*rest);
    block.size = mapped;
  }
  merge(block, block.previous);
  merge(block, block.next);
  insert_free(block);
  statistics_.reserved_bytes.add(block.large, mapped);
  ++statistics_.num_device_alloc;
  note(SegmentAction::kMap, address, mapped, block.stream);
  return true;
}

Bytes TorchCachingAllocator::inactive_bytes() const {
  Bytes bytes = statistics_.inactive_split_bytes.all.current;
  if (!options_.expandable_segments) return bytes;
  for (const std::unique_ptr<Stream>& stream : streams_) {
    for (const Pool& pool : stream->pools) {
      for (const TorchBlock* b = pool.free.smallest(); b != nullptr; b = b->larger) {
        if (!b->is_expandable()) continue;
        const torch_expandable_detail::PageRun pages = torch_expandable_detail::whole_pages(*b);
        bytes += b->size - std::max(pages.last - pages.first, Bytes(0));
      }
    }
  }
  return bytes;
}

// Unmaps the whole pages inside a free block; the parts before and after stay free.
void TorchCachingAllocator::unmap(TorchBlock& block) {
  const auto [first, last] = torch_expandable_detail::whole_pages(block);
  if (first >= last) return;
  Pool& pool = pool_of(block);
  take_from_pool(block);
  if (first > block.address) {
    TorchBlock* before = new_block_between(block.previous, &block, block);
    before->address = block.address;
    before->size = first - block.address;
    insert_free(*before);
  }
  if (last < block.end()) {
    TorchBlock* after = new_block_between(&block, block.next, block);
    after->address = last;
    after->size = block.end() - last;
    insert_free(*after);
  }
  block.address = first;
  block.size = last - first;
  block.mapped = false;
  merge(block, block.previous);
  merge(block, block.next);
  pool.unmapped.insert(block);
  const Bytes unmapped = last - first;
  device_.unmap(unmapped);
  statistics_.reserved_bytes.add(block.large, -unmapped);
  ++statistics_.num_device_free;
  note(SegmentAction::kUnmap, first, unmapped, block.stream);
}

// Gives back a range without any page.
void TorchCachingAllocator::release_range(TorchBlock& block) {
  Pool& pool = pool_of(block);
  pool.unmapped.erase(pool.unmapped.iterator_to(block));
  arena_.give_back(&block);
}

}  // namespace tidemark
