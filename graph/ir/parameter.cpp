#include "graph/ir/parameter.hpp"

namespace tidemark {

std::int64_t parameter_elements(const IdVector<ParameterId, Parameter>& parameters) {
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters)
    count += parameter.elements.count;
  return count;
}

std::int64_t trained_elements(const IdVector<ParameterId, Parameter>& parameters) {
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters)
    count += parameter.trained ? parameter.elements.count : 0;
  return count;
}

}  // namespace tidemark
