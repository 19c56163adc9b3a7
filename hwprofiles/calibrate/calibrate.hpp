// Fits the figures of a profile to operators that were measured on its chip.
//
// The rows are halved by a hash of the operator (hash_of()): one part is fitted to, the other is
// held out and only tells the error. Each class of operators is fitted by itself, matrix products
// first, because convolutions share their tiles. What a profile says already is the prior, which is
// kept where a fit does not predict rows better that it has not seen (cross_validation.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "hwprofiles/calibrate/parameters.hpp"
#include "hwprofiles/calibrate/validated.hpp"

namespace tidemark {

struct FittedFigure {
  std::string path;
  std::string before;  // value as written in a profile, with the unit
  std::string after;
  std::string low;  // 95 % interval
  std::string high;
  bool at_bound = false;
};

struct CalibratedClass {
  FitClass fit_class = FitClass::kOther;
  std::size_t rows = 0;  // fitted to
  double followed = 1;   // share of the way from the profile's figures to the fit; 0: kept
  std::vector<FittedFigure> figures;
  ErrorSummary fit;     // errors after the fit, of the rows it was fitted to
  ErrorSummary before;  // errors of the rows held out, with the profile as it was
  ErrorSummary after;
};

struct CalibratedGroup {
  std::string group;  // "v100-sxm-32gb softmax fp32"; rows held out
  ErrorSummary before;
  ErrorSummary after;
};

struct Calibration {
  std::vector<CalibratedClass> classes;
  std::vector<CalibratedGroup> groups;
  std::vector<RefusedLine> refused;
  std::map<std::string, std::size_t> other;  // rows that are not used, by reason
  std::vector<std::string> files;            // files that rows came from
  std::size_t rows = 0;                      // rows of the chip that were used
};

struct CalibrationOptions {
  double held_out = 0.5;   // share of the rows, 0 to 0.9
  std::uint64_t seed = 0;  // of the choice of those rows
};

// Throws UserError: no row is of the profile's chip, or more than half of those are wrong.
[[nodiscard]] Calibration calibrate(const DeviceProfile& profile,
                                    std::span<const MeasuredTable> tables,
                                    std::span<const std::string> profiles,
                                    const CalibrationOptions& options = {});

// Returns the YAML of a profile that lays the fitted figures over `base`, a name or a path.
[[nodiscard]] std::string calibrated_profile(const Calibration& calibration,
                                             const std::string& base);

}  // namespace tidemark
