#include "hwprofiles/calibrate/bounded_fit.hpp"

#include <algorithm>
#include <cmath>

#include <Eigen/Dense>

namespace tidemark {
namespace bounded_fit_detail {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kHuber = 0.1;       // relative error from which on the loss is linear
constexpr double kPriorScale = 0.1;  // scatter of a row, which a prior's spread is weighed against
constexpr double kStep = 0.01;       // of the derivatives, in the logarithm
constexpr int kIterations = 15;
constexpr int kSearches = 6;
constexpr double kFirstStep = 0.2;  // of the search along the axes
constexpr double kInterval = 1.96;  // standard deviations of 95 %
constexpr double kEnough = 1e-5;    // relative gain below which the fit ends

double huber(double residual) {
  const double size = std::abs(residual);
  return size < kHuber ? residual * residual : kHuber * (2 * size - kHuber);
}

class Fit {
 public:
  Fit(const std::vector<FitVariable>& variables, std::size_t count, const Residuals& residuals)
      : variables_(variables), residuals_(residuals), r_(count) {
    x_.resize(static_cast<Eigen::Index>(variables.size()));
    for (std::size_t i = 0; i < variables.size(); ++i)
      x_[index(i)] = std::log(variables[i].start);
    prior_ = x_;
  }

  std::vector<FittedVariable> run() {
    loss_ = loss_at(x_);
    for (int search = 0; search < 2; ++search) {
      descend();
      search_axes();
    }
    return result();
  }

 private:
  static Eigen::Index index(std::size_t i) { return static_cast<Eigen::Index>(i); }

  // Keeps values that are at their bound exactly there.
  std::vector<double> values_of(const VectorXd& x) const {
    std::vector<double> values;
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      values.push_back(std::clamp(std::exp(x[index(i)]), variables_[i].lower, variables_[i].upper));
    }
    return values;
  }
  VectorXd clamped(VectorXd x) const {
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      x[index(i)] =
          std::clamp(x[index(i)], std::log(variables_[i].lower), std::log(variables_[i].upper));
    }
    return x;
  }
  double weight_of(std::size_t i) const { return kPriorScale / variables_[i].spread; }

  double loss_at(const VectorXd& x) {
    residuals_(values_of(x), r_);
    double loss = 0;
    for (const double r : r_)
      loss += huber(r);
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      const double off = weight_of(i) * (x[index(i)] - prior_[index(i)]);
      loss += off * off;
    }
    return loss;
  }

  // Fills the normal equations at x: the curvature and the gradient of half the loss.
  void linearise(MatrixXd& curvature, VectorXd& gradient) {
    const auto count = static_cast<Eigen::Index>(r_.size());
    loss_at(x_);
    const std::vector<double> at = r_;
    MatrixXd jacobian(count, x_.size());
    for (Eigen::Index j = 0; j < x_.size(); ++j) {
      VectorXd moved = x_;
      // Towards the inside, where a value is at its upper bound.
      const bool inside = std::exp(x_[j] + kStep) <= variables_[static_cast<std::size_t>(j)].upper;
      moved[j] += inside ? kStep : -kStep;
      loss_at(moved);
      for (Eigen::Index i = 0; i < count; ++i) {
        const auto row = static_cast<std::size_t>(i);
        jacobian(i, j) = (r_[row] - at[row]) / (inside ? kStep : -kStep);
      }
    }
    VectorXd weight(count);
    VectorXd residual(count);
    for (Eigen::Index i = 0; i < count; ++i) {
      residual[i] = at[static_cast<std::size_t>(i)];
      weight[i] = std::min(1.0, kHuber / std::max(std::abs(residual[i]), 1e-12));
    }
    curvature = jacobian.transpose() * weight.asDiagonal() * jacobian;
    gradient = jacobian.transpose() * (weight.cwiseProduct(residual));
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      const double squared = weight_of(i) * weight_of(i);
      curvature(index(i), index(i)) += squared;
      gradient[index(i)] += squared * (x_[index(i)] - prior_[index(i)]);
    }
  }

  void descend() {
    double damping = 1e-2;
    MatrixXd curvature;
    VectorXd gradient;
    for (int iteration = 0; iteration < kIterations; ++iteration) {
      linearise(curvature, gradient);
      const double before = loss_;
      for (int attempt = 0; attempt < 5; ++attempt) {
        MatrixXd damped = curvature;
        damped.diagonal() *= 1 + damping;
        damped.diagonal().array() += 1e-9;
        const VectorXd moved = clamped(x_ - damped.ldlt().solve(gradient));
        const double loss = loss_at(moved);
        if (loss < loss_) {
          x_ = moved;
          loss_ = loss;
          damping = std::max(damping / 5, 1e-6);
          break;
        }
        damping *= 8;
      }
      if (before - loss_ < kEnough * before) return;
    }
  }

  void search_axes() {
    std::vector<double> step(variables_.size(), kFirstStep);
    for (int search = 0; search < kSearches; ++search) {
      for (std::size_t i = 0; i < variables_.size(); ++i) {
        bool better = false;
        for (const double sign : {1.0, -1.0}) {
          VectorXd moved = x_;
          moved[index(i)] += sign * step[i];
          moved = clamped(moved);
          const double loss = loss_at(moved);
          if (loss >= loss_) continue;
          x_ = moved;
          loss_ = loss;
          better = true;
          break;
        }
        if (!better) step[i] /= 2;
      }
    }
  }

  std::vector<FittedVariable> result() {
    MatrixXd curvature;
    VectorXd gradient;
    linearise(curvature, gradient);
    loss_at(x_);
    double squares = 0;
    for (const double r : r_)
      squares += huber(r);
    const double freedom =
        std::max(1.0, static_cast<double>(r_.size()) - static_cast<double>(variables_.size()));
    curvature.diagonal().array() += 1e-12;
    const MatrixXd covariance =
        curvature.ldlt().solve(MatrixXd::Identity(x_.size(), x_.size())) * (squares / freedom);
    const std::vector<double> values = values_of(x_);
    std::vector<FittedVariable> fitted;
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      const FitVariable& variable = variables_[i];
      const double off = kInterval * std::sqrt(std::max(0.0, covariance(index(i), index(i))));
      const double value = values[i];
      fitted.push_back(
          {.value = value,
           .low = std::max(variable.lower, value * std::exp(-off)),
           .high = std::min(variable.upper, value * std::exp(off)),
           .at_bound = value <= variable.lower * 1.0001 || value >= variable.upper / 1.0001});
    }
    return fitted;
  }

  const std::vector<FitVariable>& variables_;
  const Residuals& residuals_;
  std::vector<double> r_;
  VectorXd x_;
  VectorXd prior_;
  double loss_ = 0;
};

}  // namespace
}  // namespace bounded_fit_detail

std::vector<FittedVariable> fit_bounded(const std::vector<FitVariable>& variables,
                                        std::size_t residual_count, const Residuals& residuals) {
  if (variables.empty() || residual_count == 0) {
    std::vector<FittedVariable> starts;
    starts.reserve(variables.size());
    for (const FitVariable& variable : variables)
      starts.push_back({variable.start, variable.lower, variable.upper, false});
    return starts;
  }
  return bounded_fit_detail::Fit(variables, residual_count, residuals).run();
}

}  // namespace tidemark
