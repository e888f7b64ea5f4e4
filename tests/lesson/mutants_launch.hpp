// Launches the lesson's online kernel with a planted fault (plain C++).
#pragma once

#include <cstdint>

namespace runmax {
namespace lesson {

// `fault` is Mutant::fault of mutants.hpp, 0 the right rule. Returns a cudaError_t value. n is a multiple
// of 64.
int launch_mutant(int fault, const float* q, const float* k, const float* v, float* o, std::int64_t n);

}  // namespace lesson
}  // namespace runmax
