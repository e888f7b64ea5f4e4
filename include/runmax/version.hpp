// Version of the library. CMake reads it from here.
#ifndef RUNMAX_VERSION_HPP
#define RUNMAX_VERSION_HPP

#include "runmax/export.hpp"

#define RUNMAX_VERSION_MAJOR 0
#define RUNMAX_VERSION_MINOR 1
#define RUNMAX_VERSION_PATCH 0

namespace runmax {

// "0.1.0"
RUNMAX_API const char* version();

}  // namespace runmax

#endif  // RUNMAX_VERSION_HPP
