// Operators in place, for a run that may drop and recompute what they change.
#pragma once

#include "sim/program/step_program.hpp"

namespace tidemark {

// Returns the program with every change in place of a value replaced by a new allocation of the
// same size, which is made before the operator and holds what it writes; what held the value until
// then is freed behind it. An operator that is repeated finds what it read the first time, so that
// online eviction can drop and recompute both. DTR does the same (Kirisame et al. 2021: MUTATE in
// the logs of its simulator makes new storages); its prototype copies the argument first, which
// takes time that is not counted here, as if the operator were not in place.
//
// Only values that one stream, compute, makes, changes and reads, and that the program frees, are
// renewed: activations and temporaries. Gradients, states and buffers are changed in place, and so
// is what copies or other streams touch. Activations' gradients do not wait for backward: copies of
// them take room where it is scarcest, and what evicts the least recently used would thrash.
[[nodiscard]] StepProgram copy_on_write(const StepProgram& program);

}  // namespace tidemark
