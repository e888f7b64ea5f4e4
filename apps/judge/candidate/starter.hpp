// `runmax judge new`: a file to begin with.
#pragma once

#include <string>

#include "judge/candidate/manifest.hpp"

namespace runmax::judge {

// A source of the tier, for CUDA or plain C++: signature, a comment for every argument, a slow and right
// body.
std::string starter(Tier tier);

}  // namespace runmax::judge
