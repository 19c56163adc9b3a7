#include "graph/ir/parameter.hpp"

namespace tidemark {

RemainingGradient remaining_gradient(const Parameter& parameter) {
  if (parameter.remaining) return *parameter.remaining;
  return {.storage = parameter.gradient,
          .elements = parameter.elements,
          .dtype = parameter.gradient_dtype};
}

Elements parameter_elements(const IdVector<ParameterId, Parameter>& parameters) {
  Elements sum;
  for (const Parameter& parameter : parameters)
    sum += parameter.elements;
  return sum;
}

Elements trained_elements(const IdVector<ParameterId, Parameter>& parameters) {
  Elements sum;
  for (const Parameter& parameter : parameters) {
    if (parameter.trained) sum += parameter.elements;
  }
  return sum;
}

}  // namespace tidemark
