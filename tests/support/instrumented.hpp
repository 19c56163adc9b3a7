// Whether a sanitizer is compiled in: the program then takes several times the time and the memory:
// limits of either are not checked, and it needs /proc to end.
#pragma once

namespace tidemark::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kInstrumented = true;
#else
inline constexpr bool kInstrumented = false;
#endif

}  // namespace tidemark::test
