// Operators that others timed, as the work that the cost model prices. The tables are recognised by
// their columns:
//   op,shape,dtype,device,seconds                       our own; op and shape as below
//   device,...,math,M,N,K,...,time_ms                   DeepBench products
//   device,...,math,W,H,C,N,K,S_fw,R_fh,...,fwd_ms,...  DeepBench convolutions, three directions
//   split,device,op,B,M,N,K,H,latency_ms                NeuSight, fp32, forward, host's floor
//   numbers only, the operator in the file's name       LLMCompass on A100, fp16, host's floor
//   device,impl,pass,causal,headdim,seqlen,tflops       fused attention, 16 k tokens, 2048 wide
//   dtype,accelerator,mamf_tflops,...,best_shape_MxNxK  best products of an accelerator
// Our own table has these operators; extents are separated by x:
//   matmul MxNxK[xBATCH], softmax ROWSxCOLUMNS, layer_norm ROWSxCOLUMNS, add|gelu ELEMENTS,
//   attention[_causal][_backward] BATCHxHEADSxLENGTHxWIDTH,
//   conv[_backward_data|_backward_weight] NxCxHxW,KxRxS[,stride][,padding][,groups] in quotes
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/ir/work.hpp"
#include "hwprofiles/measured/csv_table.hpp"

namespace tidemark {

struct MeasuredOperator {
  std::string device;      // device's name in the table
  std::string kind;        // "matmul", "convolution backward data", "softmax", ...
  std::string text;        // the row in words: "matmul 4096x16x2048 fp16"
  std::vector<Work> work;  // kernels, one after the other
  // The number of times that each of them runs; empty: once. Only a whole step has any.
  std::vector<double> repeats;
  double waits = 0;   // seconds of a whole step in which no kernel runs
  std::string model;  // model of a whole step: it is held out instead of the row
  double seconds = 0;
  int line = 0;
  bool host_floor = false;  // timed from the host: small operators show how long that takes
};

struct RefusedRow {
  int line = 0;
  std::string problem;  // "seconds: expected a number above 0, found 'abc'"
};

struct MeasuredTable {
  std::string file;
  std::vector<MeasuredOperator> operators;
  std::vector<RefusedRow> refused;           // rows that are wrong
  std::map<std::string, std::size_t> other;  // rows that are right and not ours, by reason
  std::size_t rows = 0;
};

// Reads the operators of a table. Throws UserError: no table of operators, a missing column, and
// where more than half of the rows are wrong.
[[nodiscard]] MeasuredTable read_measured_operators(const CsvTable& table);

// Throws UserError, with the first of them, where more than half of the table's rows are wrong.
void require_mostly_right(const MeasuredTable& table);

// Whether the columns are those of a table of operators.
[[nodiscard]] bool is_operator_table(const CsvTable& table);

// Returns a number that depends on the operator and on what it ran on, not on its time: a row is
// held out by it, whatever table it stands in. Each seed chooses other rows.
[[nodiscard]] std::uint64_t hash_of(const MeasuredOperator& op, std::uint64_t seed = 0);

}  // namespace tidemark
