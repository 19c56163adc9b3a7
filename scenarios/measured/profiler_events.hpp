// The events of a trace of PyTorch's profiler (Kineto's JSON): operators with the shapes of their
// arguments, and the kernels that they launched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/ir/dtype.hpp"
#include "hwprofiles/measured/measured_operators.hpp"

namespace tidemark {

// An operator of the program; the innermost one around a launch owns the kernel.
struct ProfiledCall {
  std::string name;
  // For each argument: the shape, empty for one that is no tensor; the type, if it is one of fp64,
  // fp32, tf32, fp16 and bf16; a number or a list as text, empty where it is not recorded.
  std::vector<std::vector<std::int64_t>> dims;
  std::vector<std::optional<DType>> types;
  std::vector<std::string> concrete;
  int event = 0;  // its number in the trace, from 1
};

struct ProfiledKernel {
  std::string name;  // a copy is "Memcpy HtoD (Pageable -> Device)"
  double seconds = 0;
};

struct ProfilerEvents {
  // By external id; of a kernel it is that of the operator that launched it.
  std::map<std::int64_t, ProfiledCall> calls;
  std::map<std::int64_t, std::vector<ProfiledKernel>> kernels;
  std::size_t kernels_of_none = 0;  // kernels without an external id
  std::vector<RefusedRow> refused;  // kernels without a duration, by the number of their event
  std::string device;               // name of the GPU of the first kernel, without its maker's
  bool has_shapes = false;
};

// Reads a trace, compressed or not. Throws UserError: unreadable, no trace, no kernels, no shapes.
[[nodiscard]] ProfilerEvents read_profiler_events(const std::string& path);

}  // namespace tidemark
