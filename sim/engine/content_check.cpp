#include "sim/engine/content_check.hpp"

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace content_check_detail {
namespace {

// SplitMix64 (Steele et al. 2014) of both; never 0, which stands for no content.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a * 0x9E3779B97F4A7C15U + b + 0x632BE59BD9B4E019U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  z ^= z >> 31U;
  return z == 0 ? 1 : z;
}

bool is_read(Access access) {
  return access == Access::kRead || access == Access::kMutate;
}

}  // namespace
}  // namespace content_check_detail

ContentCheck::ContentCheck(const StepProgram& program)
    : program_(program), expected_(program.allocations.size()) {
  for (std::size_t b = 0; b < expected_.size(); ++b)
    expected_[b] = content_check_detail::mix(1, b);  // content of memory that exists from the start
  held_ = expected_;
}

void ContentCheck::fail(std::uint32_t instruction, AllocationId allocation,
                        const char* what) const {
  throw InternalError(fmt::format("eviction: instruction {} (operator {}) {} allocation {}",
                                  instruction, program_.subject[instruction], what,
                                  allocation.value));
}

// Returns the content that the instruction writes, from the contents that it reads.
std::uint64_t ContentCheck::read(std::uint32_t instruction,
                                 const std::vector<std::uint64_t>& contents) const {
  const bool launch = program_.opcode[instruction] == Opcode::kLaunch;
  std::uint64_t content = launch ? content_check_detail::mix(2, program_.subject[instruction])
                                 : 3;  // a copy adds nothing
  for (AllocationUse use : program_.uses_of(instruction)) {
    if (content_check_detail::is_read(use.access()))
      content = content_check_detail::mix(content, contents[use.allocation().index()]);
  }
  return content;
}

void ContentCheck::execute(std::uint32_t instruction) {
  for (AllocationUse use : program_.uses_of(instruction)) {
    const std::size_t b = use.allocation().index();
    if (content_check_detail::is_read(use.access()) && held_[b] != expected_[b]) {
      fail(instruction, use.allocation(),
           held_[b] == kNothing ? "reads the dropped" : "reads other content than expected in");
    }
  }
  const std::uint64_t content = read(instruction, expected_);
  std::uint64_t output = 0;
  for (AllocationUse use : program_.uses_of(instruction)) {
    if (use.access() == Access::kRead) continue;
    const std::size_t b = use.allocation().index();
    held_[b] = expected_[b] = content_check_detail::mix(content, ++output);
    const StorageId storage = program_.allocations[use.allocation()].storage;
    if (!storage.valid()) continue;
    if (!latest_.contains(storage)) latest_.resize(storage.index() + 1);
    latest_[storage] = use.allocation();
  }
}

// Returns what a recomputation reads: the allocation, or that which holds its storage now.
std::uint64_t ContentCheck::content_of(AllocationId allocation) const {
  const std::uint64_t held = held_[allocation.index()];
  const StorageId storage = program_.allocations[allocation].storage;
  if (held != kNothing || !storage.valid() || !latest_.contains(storage)) return held;
  const AllocationId latest = latest_[storage];
  return latest.valid() ? held_[latest.index()] : held;
}

void ContentCheck::repeat(std::uint32_t launch) {
  for (AllocationUse use : program_.uses_of(launch)) {
    if (!content_check_detail::is_read(use.access())) continue;
    if (content_of(use.allocation()) == kNothing)
      fail(launch, use.allocation(), "is repeated without");
  }
  std::uint64_t content = content_check_detail::mix(2, program_.subject[launch]);
  for (AllocationUse use : program_.uses_of(launch)) {
    if (content_check_detail::is_read(use.access()))
      content = content_check_detail::mix(content, content_of(use.allocation()));
  }
  std::uint64_t output = 0;
  for (AllocationUse use : program_.uses_of(launch)) {
    if (use.access() == Access::kRead) continue;
    const std::size_t b = use.allocation().index();
    held_[b] = content_check_detail::mix(content, ++output);
    if (held_[b] != expected_[b]) fail(launch, use.allocation(), "is repeated and changes");
  }
}

}  // namespace tidemark
