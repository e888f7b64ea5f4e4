// The arrays of options that a user brings: mask, bias, slopes and sink.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/attention_arrays.hpp"
#include "cli/commands.hpp"
#include "files/safetensors.hpp"
#include "inputs/draw_options.hpp"

namespace runmax::cli {

struct NamedMask {
  std::string source;
  files::MaskArray array;
};

struct OptionArrays {
  std::optional<NamedMask> mask;
  std::optional<NamedArray> bias, alibi_slopes, sink;
};

// Which option names which .npy file; empty paths were not given.
std::vector<std::pair<const char*, const std::string*>> option_paths(const RunArguments& arguments);

// From the .npy files that the arguments name.
Result<OptionArrays> read_option_files(const RunArguments& arguments);

// The tensors mask, bias, alibi_slopes and sink that a .safetensors file holds.
Result<OptionArrays> take_option_tensors(const std::vector<files::TensorEntry>& tensors,
                                         const std::string& source);

// Sets the problem's options, whose sizes are known, and returns the arrays with their full shapes: mask and
// bias (batch, heads, queries, keys) in both layouts, where a size of 1 is broadcast and leading dimensions
// may be missing; slopes (heads) or (batch, heads); sink (heads). The arrays are left empty. An error is one
// line naming the array, the rule and the values.
Result<inputs::HostOptions> take_options(OptionArrays& arrays, Problem& problem);

}  // namespace runmax::cli
