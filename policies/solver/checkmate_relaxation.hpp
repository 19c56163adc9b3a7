// The linear relaxation of Checkmate's integer program (Jain et al. 2020, arXiv 1910.02653, section
// 5).
//
// Stages t = 0 .. N-1 end with the first evaluation of node t. Variables in [0, 1], lower
// triangular:
//   R[t,i]  node i is evaluated in stage t (R[t,t] = 1)     S[t,i]  its value enters stage t
//   F[t,i,k]  i is freed after node k in stage t            U[t,k]  bytes during k, over the budget
// minimise sum cost_i R[t,i] with
//   R[t,v] <= R[t,u] + S[t,u] for u -> v
//   U[t,0] = fixed + sum bytes_i S[t,i] + bytes_0 R[t,0]
//   U[t,k+1] = U[t,k] - sum over i in inputs(k) and k of bytes_i F[t,i,k] + bytes_{k+1} R[t,k+1]
//   U[t,k] + workspace_k R[t,k] <= budget; for a part, with workspace -bytes_k, U may be larger
//   F[t,i,k] <= R[t,k],  F[t,i,k] + S[t+1,i] <= 1,
//   F[t,i,k] + R[t,j] <= 1 for readers j > k of i
// and, which no schedule without useless steps violates and which makes the relaxation tighter,
//   R[t,i] + S[t,i] <= 1,   sum over k of F[t,i,k] + S[t+1,i] <= S[t,i] + R[t,i]
// The latter implies S[t+1,i] <= S[t,i] + R[t,i].
#pragma once

#include <cstdint>
#include <vector>

#include "policies/remat/problem.hpp"
#include "policies/solver/linear_program.hpp"

namespace tidemark {

struct CheckmateRelaxation {
  std::vector<std::vector<double>> resident;  // S*, by stage and node, lower triangular
  // No schedule of class checkmate costs less; proven by the dual iterates whatever the accuracy.
  double lower_bound = 0;
  double objective = 0;  // objective of the relaxation, as far as it converged
  bool converged = false;
};

[[nodiscard]] CheckmateRelaxation relax_checkmate(const RematProblem& problem, std::int64_t budget,
                                                  const LinearOptions& options);

// Returns the schedule that keeps exactly `resident` (stages x nodes) and evaluates what that
// takes: values that enter a stage but not the one before it, and all inputs that are missing.
[[nodiscard]] Schedule complete_stages(const RematProblem& problem,
                                       const std::vector<std::vector<bool>>& resident);

}  // namespace tidemark
