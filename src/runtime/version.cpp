#include "runmax/version.hpp"

#define RUNMAX_TEXT_OF(x) #x
#define RUNMAX_TEXT(x) RUNMAX_TEXT_OF(x)

namespace runmax {

const char* version() {
  return RUNMAX_TEXT(RUNMAX_VERSION_MAJOR) "." RUNMAX_TEXT(RUNMAX_VERSION_MINOR) "." RUNMAX_TEXT(
      RUNMAX_VERSION_PATCH);
}

}  // namespace runmax
