#include "graph/ir/parameter.hpp"

namespace tidemark {

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
