// libFuzzer's entry; RUNMAX_FUZZ_TARGET is the function of targets.hpp that this fuzzer drives.
#include <cstdint>

#include "fuzz/targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  runmax::fuzz::RUNMAX_FUZZ_TARGET({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
