#include "bench/simd.hpp"

#include <hwy/highway.h>
#include <hwy/targets.h>

namespace runmax::bench {

Status force_simd(const std::string& name) {
  std::string known;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name == hwy::TargetName(target)) {
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      return {};
    }
    known += (known.empty() ? "" : ", ") + std::string(hwy::TargetName(target));
  }
  return {StatusCode::invalid_argument,
          "--simd: this processor and build have " + known + ", got '" + name + "'"};
}

}  // namespace runmax::bench
