#include "policies/optimizers/catalogue.hpp"

#include <array>
#include <string>

#include "graph/core/errors.hpp"
#include "policies/optimizers/entries.hpp"

namespace tidemark {
namespace catalogue_detail {
namespace {

// Lists the optimizers in the order in which `tidemark list optimizers` shows them.
std::span<const OptimizerKind> all_optimizers() {
  static const std::array all = {
      &sgd_optimizer(),
      &momentum_optimizer(),
      &nesterov_optimizer(),
      &adam_optimizer(),
      &adamw_optimizer(),
      &adamw_8bit_optimizer(),
      &paged_adamw_8bit_optimizer(),
      &adamw_4bit_optimizer(),
      &adam_mini_optimizer(),
      &adafactor_optimizer(),
      &lamb_optimizer(),
      &lion_optimizer(),
      &muon_optimizer(),
      &galore_optimizer(),
      &apollo_optimizer(),
      &soap_optimizer(),
      &shampoo_optimizer(),
      &adagrad_optimizer(),
      &rmsprop_optimizer(),
  };
  return all;
}

}  // namespace
}  // namespace catalogue_detail

std::span<const std::string_view> optimizer_names() {
  static const std::vector<std::string_view> all_names = [] {
    std::vector<std::string_view> names;
    for (const OptimizerKind kind : catalogue_detail::all_optimizers())
      names.push_back(kind->name);
    return names;
  }();
  return all_names;
}

OptimizerKind find_optimizer(std::string_view name) {
  for (const OptimizerKind kind : catalogue_detail::all_optimizers()) {
    if (kind->name == name) return kind;
  }
  throw InternalError("no optimizer is called " + std::string(name));
}

}  // namespace tidemark
