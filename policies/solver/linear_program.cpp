#include "policies/solver/linear_program.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <Eigen/Core>
#include <Eigen/SparseCore>

namespace tidemark {
namespace linear_program_detail {
namespace {

using Vector = Eigen::VectorXd;
using SparseMatrix = Eigen::SparseMatrix<double, Eigen::RowMajor>;

Vector vector_of(const std::vector<double>& v) {
  return Eigen::Map<const Vector>(v.data(), static_cast<Eigen::Index>(v.size()));
}

class PrimalDual {
 public:
  PrimalDual(const LinearProgram& program, const LinearOptions& options)
      : program_(program),
        options_(options),
        equalities_(static_cast<Eigen::Index>(program.equalities)) {
    load();
    scale();
    at_ = a_.transpose();
    x_ = Vector::Zero(c_.size());
    y_ = Vector::Zero(b_.size());
    if (options.start != nullptr) {
      x_ = vector_of(options.start->x).cwiseQuotient(columns_).cwiseMin(upper_);
      y_ = vector_of(options.start->y).cwiseQuotient(rows_);
    }
    product_ = a_ * x_;
    dual_product_ = at_ * y_;
  }

  LinearResult run() {
    LinearResult best;
    best.lower_bound = std::max(bound(Vector::Zero(b_.size())), bound(y_));
    best.x = original(x_, columns_);
    best.y = original(y_, rows_);
    const double c_norm = c_.norm();
    const double b_norm = b_.norm();
    weight_ = c_norm > 0 && b_norm > 0 ? c_norm / b_norm : 1;
    step_ = 1 / std::max(spectral_norm(), 1e-12);
    restart();
    double best_error = std::numeric_limits<double>::max();
    for (int k = 1; k <= options_.iterations; ++k) {
      iterate();
      best.iterations = k;
      if (k % kCheck != 0) continue;
      const Vector average_x = sum_x_ / averaged_;
      const Vector average_y = sum_y_ / averaged_;
      const double now = error(x_, y_);
      const double average = error(average_x, average_y);
      const bool take_average = average < now;
      const Vector& x = take_average ? average_x : x_;
      const Vector& y = take_average ? average_y : y_;
      best.lower_bound = std::max(best.lower_bound, bound(y));
      const double least = std::min(now, average);
      if (least < best_error) {
        best_error = least;
        best.x = original(x, columns_);
        best.y = original(y, rows_);
      }
      best.converged = least <= options_.tolerance;
      if (best.converged || std::chrono::steady_clock::now() > options_.deadline) break;
      if (least <= kEnough * start_error_ || k - start_ >= 0.36 * k) {
        const Vector to_x = x;
        const Vector to_y = y;
        restart_from(to_x, to_y, k);
      }
    }
    best.objective = vector_of(program_.c).dot(vector_of(best.x));
    best.infeasibility = infeasibility(best.x);
    return best;
  }

 private:
  static constexpr int kCheck = 40;       // iterations between checks of the error
  static constexpr double kEnough = 0.2;  // share of the error at the last restart

  void load() {
    std::vector<Eigen::Triplet<double>> triplets;
    triplets.reserve(program_.a.size());
    for (const LinearProgram::Entry& entry : program_.a)
      triplets.emplace_back(entry.row, entry.column, entry.value);
    a_.resize(static_cast<Eigen::Index>(program_.b.size()),
              static_cast<Eigen::Index>(program_.c.size()));
    a_.setFromTriplets(triplets.begin(), triplets.end());
    b_ = vector_of(program_.b);
    c_ = vector_of(program_.c);
    upper_ = vector_of(program_.upper);
  }

  // Scales rows and columns to a magnitude of about one.
  void scale() {
    rows_ = Vector::Ones(a_.rows());
    columns_ = Vector::Ones(a_.cols());
    for (int pass = 0; pass < 11; ++pass) {
      const bool last = pass == 10;  // Pock-Chambolle: by sums instead of maxima
      auto [row, column] = magnitudes(last);
      row = row.unaryExpr([](double v) { return v > 0 ? 1 / std::sqrt(v) : 1; });
      column = column.unaryExpr([](double v) { return v > 0 ? 1 / std::sqrt(v) : 1; });
      for (Eigen::Index i = 0; i < a_.outerSize(); ++i) {
        for (SparseMatrix::InnerIterator it(a_, i); it; ++it)
          it.valueRef() *= row[i] * column[it.col()];
      }
      rows_ = rows_.cwiseProduct(row);
      columns_ = columns_.cwiseProduct(column);
    }
    b_ = b_.cwiseProduct(rows_).eval();
    c_ = c_.cwiseProduct(columns_).eval();
    upper_ = upper_.cwiseQuotient(columns_).eval();
  }

  // Returns, by row and by column, the greatest absolute value, or the sum of absolute values.
  [[nodiscard]] std::pair<Vector, Vector> magnitudes(bool sums) const {
    Vector row = Vector::Zero(a_.rows());
    Vector column = Vector::Zero(a_.cols());
    for (Eigen::Index i = 0; i < a_.outerSize(); ++i) {
      for (SparseMatrix::InnerIterator it(a_, i); it; ++it) {
        const double v = std::abs(it.value());
        row[i] = sums ? row[i] + v : std::max(row[i], v);
        column[it.col()] = sums ? column[it.col()] + v : std::max(column[it.col()], v);
      }
    }
    return {row, column};
  }

  double spectral_norm() const {
    Vector v = Vector::LinSpaced(a_.cols(), 0.5, 1.5).normalized();
    double norm = 0;
    for (int k = 0; k < 30; ++k) {
      const Vector w = at_ * (a_ * v);
      norm = w.norm();
      if (norm == 0) return 0;
      v = w / norm;
    }
    return 1.05 * std::sqrt(norm);
  }

  void iterate() {
    const double tau = step_ / weight_;
    const double sigma = step_ * weight_;
    const Vector next_x = (x_ - tau * (c_ - dual_product_)).cwiseMax(0).cwiseMin(upper_);
    const Vector next_product = a_ * next_x;
    y_ += sigma * (b_ - 2 * next_product + product_);
    y_.tail(y_.size() - equalities_) = y_.tail(y_.size() - equalities_).cwiseMax(0).eval();
    x_ = next_x;
    product_ = next_product;
    dual_product_ = at_ * y_;
    sum_x_ += x_;
    sum_y_ += y_;
    averaged_ += 1;
  }

  void restart() {
    sum_x_ = Vector::Zero(x_.size());
    sum_y_ = Vector::Zero(y_.size());
    averaged_ = 0;
    start_x_ = x_;
    start_y_ = y_;
    start_error_ = error(x_, y_);
  }
  void restart_from(const Vector& x, const Vector& y, int k) {
    x_ = x;
    y_ = y;
    product_ = a_ * x_;
    dual_product_ = at_ * y_;
    const double moved_x = (x_ - start_x_).norm();
    const double moved_y = (y_ - start_y_).norm();
    if (moved_x > 1e-10 && moved_y > 1e-10) {
      weight_ = std::exp(0.5 * std::log(moved_y / moved_x) + 0.5 * std::log(weight_));
    }
    start_ = k;
    restart();
  }

  // Returns the larger of the relative primal infeasibility and the gap between objective and
  // bound.
  double error(const Vector& x, const Vector& y) const {
    Vector violation = b_ - a_ * x;
    violation.tail(violation.size() - equalities_) =
        violation.tail(violation.size() - equalities_).cwiseMax(0).eval();
    const double primal = violation.norm() / (1 + b_.norm());
    const double objective = c_.dot(x);
    const double dual = bound(y);
    return std::max(primal,
                    std::abs(objective - dual) / (1 + std::abs(objective) + std::abs(dual)));
  }

  double bound(const Vector& y) const {
    const Vector reduced = c_ - at_ * y;
    return b_.dot(y) + reduced.cwiseMin(0).dot(upper_);
  }

  double infeasibility(const std::vector<double>& x) const {
    std::vector<double> product(program_.b.size(), 0.0);
    for (const LinearProgram::Entry& e : program_.a)
      product[static_cast<std::size_t>(e.row)] += e.value * x[static_cast<std::size_t>(e.column)];
    double worst = 0;
    for (std::size_t i = 0; i < product.size(); ++i) {
      const double short_of = program_.b[i] - product[i];
      const double violation = i < program_.equalities ? std::abs(short_of) : short_of;
      worst = std::max(worst, violation / (1 + std::abs(program_.b[i])));
    }
    return worst;
  }
  static std::vector<double> original(const Vector& scaled, const Vector& factors) {
    const Vector result = scaled.cwiseProduct(factors);
    return {result.data(), result.data() + result.size()};
  }

  const LinearProgram& program_;
  const LinearOptions& options_;
  Eigen::Index equalities_;
  SparseMatrix a_, at_;
  Vector rows_, columns_, b_, c_, upper_;
  Vector x_, y_, product_, dual_product_;  // A x, A' y
  Vector sum_x_, sum_y_, start_x_, start_y_;
  double averaged_ = 0;
  double weight_ = 1;
  double step_ = 1;
  double start_error_ = 0;
  int start_ = 0;
};

}  // namespace
}  // namespace linear_program_detail

LinearResult solve(const LinearProgram& program, const LinearOptions& options) {
  return linear_program_detail::PrimalDual(program, options).run();
}

}  // namespace tidemark
