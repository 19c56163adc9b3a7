// Large linear programs to moderate accuracy, with a bound that holds at any accuracy.
//
//   minimise c x   with  A x = b in the first rows, A x >= b in the others,  0 <= x <= upper
//
// Primal-dual hybrid gradient with the enhancements of PDLP (Applegate et al. 2021): Ruiz and
// Pock-Chambolle scaling, averages with restarts, a primal weight that follows the iterates.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace tidemark {

struct LinearProgram {
  struct Entry {
    int row = 0;
    int column = 0;
    double value = 0;
  };
  std::vector<Entry> a;
  std::vector<double> b;       // right side of each row
  std::vector<double> c;       // cost of each column
  std::vector<double> upper;   // finite upper bound of each column
  std::size_t equalities = 0;  // the first rows
};

struct LinearResult;

struct LinearOptions {
  double tolerance = 1e-6;  // relative, of infeasibility and of the gap
  int iterations = 100'000;
  // The result of a program of the same shape, as a start; none: zeros.
  const LinearResult* start = nullptr;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

struct LinearResult {
  std::vector<double> x;
  std::vector<double> y;  // duals that x was found with
  double objective = 0;
  // b y + sum over j of min(0, (c - A' y)_j) upper_j for the best y >= 0 (free in equalities) seen:
  // no x has less.
  double lower_bound = 0;
  double infeasibility = 0;  // greatest violation of a row by x, relative to 1 + |b|
  int iterations = 0;
  bool converged = false;
};

[[nodiscard]] LinearResult solve(const LinearProgram& program, const LinearOptions& options);

}  // namespace tidemark
