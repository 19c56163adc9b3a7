// Operators that a profiler recorded, with the times of their kernels, as measured operators.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "hwprofiles/measured/measured_operators.hpp"
#include "scenarios/measured/profiler_events.hpp"

namespace tidemark {

// Collects calls of PyTorch's operators. Equal ones become one row with the median of their times.
class ProfiledOperators {
 public:
  // Adds a call with the kernels that it launched.
  void add(const ProfiledCall& call, const std::vector<ProfiledKernel>& kernels);
  // Counts rows that are none of ours.
  void count_other(const std::string& reason, std::size_t rows = 1) { other_[reason] += rows; }

  // Adds a row that is wrong.
  void refuse(RefusedRow row) { refused_.push_back(std::move(row)); }

  // Returns the rows, in the order of operator, shape and type; `other` counts the operators that
  // have no row, by name. Throws UserError where more than half of the rows are wrong.
  [[nodiscard]] MeasuredTable table(const std::string& file, const std::string& device) const;

 private:
  struct Times {
    std::vector<double> seconds;
    int event = 0;  // number of the first call
  };
  std::map<std::vector<std::string>, Times> rows_;  // by operator, shape and type
  std::map<std::string, std::size_t> other_;
  std::vector<RefusedRow> refused_;
};

}  // namespace tidemark
