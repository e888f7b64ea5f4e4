// Packed sequences, pages and lengths of `runmax run`: which arrays say so, and the problem and tensors that
// they make.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/attention_arrays.hpp"
#include "cli/commands.hpp"
#include "files/safetensors.hpp"
#include "inputs/draw.hpp"
#include "runmax/runmax.hpp"

namespace runmax::cli {

struct NamedIntegers {
  std::string source;
  files::IntegerArray array;
};

// The integer arrays that were given.
struct FormArrays {
  std::optional<NamedIntegers> cu_seqlens_q, cu_seqlens_k, page_table, seqused;
};

// Which option names which of them; empty: not given.
std::vector<std::pair<const char*, const std::string*>> form_paths(const RunArguments& arguments);

// From .npy files, or for --in from the tensors of these names.
Result<FormArrays> read_forms(const RunArguments& arguments, const std::vector<files::TensorEntry>* tensors);

// Sizes and form of the problem whose inputs these are, put into `problem`: take_shapes, and
//   cu_seqlens_q, cu_seqlens_k  (sequences + 1): q, and k and v, hold sequence behind sequence, cut at these
//   rows page_table                  (batch, columns): k and v are (pages, page size, heads, dim), or with
//   bhsd
//                               (pages, heads, page size, dim)
//   seqused                     (batch,): how many keys each batch element uses
Status take_forms(const FormArrays& forms, const NamedArray& q, const NamedArray& k, const NamedArray& v,
                  Layout layout, Problem& problem);

// The tables as tensors; `storage` holds their elements.
struct FormTensors {
  std::vector<std::int32_t> page_table, seqused;
};
Result<FormTensors> form_tensors(const FormArrays& forms);
void set_form_views(const Problem& problem, const FormTensors& storage, void* page_table, void* seqused,
                    Device device, Tensors& tensors);

// Data of a user as the checker takes it: (batch, heads, longest, dim), each element's rows at the beginning.
template <class Number>
struct Gathered {
  std::vector<Number> q, k, v;
  std::vector<SequenceLengths> lengths;  // empty: all are the problem's
};
Gathered<float> gather(const Problem& problem, Layout layout, const NamedArray& q, const NamedArray& k,
                       const NamedArray& v, const FormTensors& forms);
Gathered<double> gather_wide(const Problem& problem, Layout layout, const NamedArray& q, const NamedArray& k,
                             const NamedArray& v, const FormTensors& forms);

}  // namespace runmax::cli
