// A linear program written row by row.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "policies/solver/linear_program.hpp"

namespace tidemark {

// Collects equalities and inequalities (>=) in any order; LinearProgram has the former first.
class LinearBuilder {
 public:
  using Variable = int;
  static constexpr Variable kNone = -1;  // adds nothing to a row

  class Row {
   public:
    void add(Variable variable, double factor) const {
      if (variable >= 0 && factor != 0) into_->push_back({row_, variable, factor});
    }

   private:
    friend class LinearBuilder;
    Row(std::vector<LinearProgram::Entry>& into, std::size_t row)
        : into_(&into), row_(static_cast<int>(row)) {}
    std::vector<LinearProgram::Entry>* into_;
    int row_;
  };

  Variable variable(double cost, double upper = 1) {
    program_.c.push_back(cost);
    program_.upper.push_back(upper);
    return static_cast<Variable>(program_.c.size()) - 1;
  }
  Row equality(double right) {
    program_.b.push_back(right);
    return {program_.a, program_.b.size() - 1};
  }
  Row at_least(double right) {
    greater_right_.push_back(right);
    return {greater_, greater_right_.size() - 1};
  }

  LinearProgram finish() {
    program_.equalities = program_.b.size();
    program_.a.reserve(program_.a.size() + greater_.size());
    for (LinearProgram::Entry entry : greater_) {
      entry.row += static_cast<int>(program_.equalities);
      program_.a.push_back(entry);
    }
    program_.b.insert(program_.b.end(), greater_right_.begin(), greater_right_.end());
    return std::move(program_);
  }

 private:
  LinearProgram program_;
  std::vector<LinearProgram::Entry> greater_;
  std::vector<double> greater_right_;
};

}  // namespace tidemark
