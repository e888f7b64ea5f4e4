// What each fuzzer does with one input, shared with the test that replays the kept corpus. A broken promise
// aborts, in every build type.
#pragma once

#include <cstddef>
#include <span>

namespace runmax::fuzz {

using Bytes = std::span<const std::byte>;

// Parses, converts to FP32, and reads back what the writer makes of the same shape.
void npy_target(Bytes input);

// Parses and converts every tensor whose type is readable; tensors must lie in the input and cover its data.
void safetensors_target(Bytes input);

// Parses a problem's text; what is accepted must print and parse to the same problem and the same text.
void problem_target(Bytes input);

}  // namespace runmax::fuzz
