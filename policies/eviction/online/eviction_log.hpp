// A log of the operators that a framework executed, as online rematerialization (DTR, Kirisame et
// al. 2021) sees them: which tensors each reads and produces, and when references to them end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/core/units.hpp"
#include "policies/eviction/online/storage_edges.hpp"

namespace tidemark {

// One instruction of the schedule. `id` is an operator for kConstant and kCompute, else a tensor.
enum class LogStepKind : std::uint8_t { kConstant, kCompute, kRetain, kRelease, kKeep };
struct LogStep {
  LogStepKind kind = LogStepKind::kCompute;
  std::uint32_t id = 0;
};

// Ids are dense and in the order of definition: an operator's outputs are neighbours.
struct EvictionLog {
  struct Operator {
    std::int64_t cost = 0;  // one execution, in the log's unit of time
    Bytes bytes;            // all outputs that are no views
    std::uint32_t first_output = 0;
    std::uint32_t outputs = 0;
  };
  struct Tensor {
    Bytes bytes;  // 0 for a view
    std::uint32_t op = 0;
    std::uint32_t storage = 0;
  };
  struct Storage {
    Bytes bytes;
    std::uint32_t root = 0;  // the tensor that owns it
    std::uint32_t name_begin = 0;
    std::uint32_t name_end = 0;
  };

  std::vector<Operator> operators;
  std::vector<Tensor> tensors;
  std::vector<Storage> storages;
  Rows<std::uint32_t> inputs;           // tensors read, by operator, in order, with duplicates
  Rows<std::uint32_t> storage_tensors;  // root and views of each storage
  StorageEdges edges;                   // edges between storages that operators read and produce
  std::vector<LogStep> steps;
  std::string names;  // names of the storages' roots, one after the other

  [[nodiscard]] std::string_view name(std::uint32_t storage) const {
    const Storage& s = storages[storage];
    return std::string_view(names).substr(s.name_begin, s.name_end - s.name_begin);
  }
};

// Fills storage_tensors and edges from the other tables.
void connect_storages(EvictionLog& log);

}  // namespace tidemark
