#include "cli/option_arrays.hpp"

#include "files/npy.hpp"

namespace runmax::cli {
namespace {

using files::Shape;

Status mismatch(const std::string& source, const std::string& rule) {
  return {StatusCode::invalid_argument, source + ": " + rule};
}

// (batch, heads, queries, keys) of a mask or a bias.
Result<std::array<std::int64_t, 4>> score_shape(const std::string& source, const char* name,
                                                const Shape& shape, const Problem& p) {
  const Shape full{p.batch, p.query_heads, p.query_len, p.kv_len};
  std::array<std::int64_t, 4> result{1, 1, 1, 1};
  bool fits = !shape.empty() && shape.size() <= 4;
  for (std::size_t back = 1; fits && back <= shape.size(); ++back) {
    const std::int64_t size = result[4 - back] = shape[shape.size() - back];
    fits = size == 1 || size == full[4 - back];
  }
  if (fits) return result;
  return mismatch(source, std::string(name) +
                              " must be (batch, heads, queries, keys) = " + files::shape_text(full) +
                              ", with 1 for what is broadcast and leading dimensions left out at will, got " +
                              files::shape_text(shape));
}

}  // namespace

std::vector<std::pair<const char*, const std::string*>> option_paths(const RunArguments& a) {
  return {{"--mask", &a.mask}, {"--bias", &a.bias}, {"--alibi-slopes", &a.alibi_slopes}, {"--sink", &a.sink}};
}

Result<OptionArrays> read_option_files(const RunArguments& a) {
  OptionArrays arrays;
  const auto named = [](const char* option, const Status& status) {
    return Status(status.code(), std::string(option) + " " + status.message());
  };
  if (!a.mask.empty()) {
    Result<files::MaskArray> array = files::read_npy_mask(a.mask);
    if (!array.ok()) return named("--mask", array.status());
    arrays.mask = NamedMask{"--mask " + a.mask, std::move(array).value()};
  }
  struct {
    const char* option;
    const std::string& path;
    std::optional<NamedArray>& target;
  } const numbers[] = {{"--bias", a.bias, arrays.bias},
                       {"--alibi-slopes", a.alibi_slopes, arrays.alibi_slopes},
                       {"--sink", a.sink, arrays.sink}};
  for (const auto& [option, path, target] : numbers) {
    if (path.empty()) continue;
    Result<files::FloatArray> array = files::read_npy(path);
    if (!array.ok()) return named(option, array.status());
    target = NamedArray{std::string(option) + " " + path, std::move(array).value()};
  }
  return arrays;
}

Result<OptionArrays> take_option_tensors(const std::vector<files::TensorEntry>& tensors,
                                         const std::string& source) {
  OptionArrays arrays;
  const auto named = [&](const Status& status) { return Status(status.code(), source + status.message()); };
  const auto source_of = [&](const char* name) { return source + "tensor '" + name + "'"; };
  if (files::has_tensor(tensors, "mask")) {
    Result<files::MaskArray> array = files::tensor_to_mask(tensors, "mask");
    if (!array.ok()) return named(array.status());
    arrays.mask = NamedMask{source_of("mask"), std::move(array).value()};
  }
  for (const auto& [name, target] :
       {std::pair("bias", &arrays.bias), std::pair("alibi_slopes", &arrays.alibi_slopes),
        std::pair("sink", &arrays.sink)}) {
    if (!files::has_tensor(tensors, name)) continue;
    Result<files::FloatArray> array = files::tensor_to_f32(tensors, name);
    if (!array.ok()) return named(array.status());
    *target = NamedArray{source_of(name), std::move(array).value()};
  }
  return arrays;
}

Result<inputs::HostOptions> take_options(OptionArrays& arrays, Problem& p) {
  inputs::HostOptions options;
  if (arrays.mask) {
    const auto shape = score_shape(arrays.mask->source, "the mask", arrays.mask->array.shape, p);
    if (!shape.ok()) return shape.status();
    p.mask = true;
    options.mask_shape = shape.value();
    options.mask = std::move(arrays.mask->array.values);
  }
  if (arrays.bias) {
    const auto shape = score_shape(arrays.bias->source, "the bias", arrays.bias->array.shape, p);
    if (!shape.ok()) return shape.status();
    p.bias = true;
    options.bias_shape = shape.value();
    options.bias = std::move(arrays.bias->array.values);
  }
  if (arrays.alibi_slopes) {
    const Shape& shape = arrays.alibi_slopes->array.shape;
    const Shape heads{p.query_heads}, one{1, p.query_heads}, all{p.batch, p.query_heads};
    if (shape != heads && shape != one && shape != all)
      return mismatch(arrays.alibi_slopes->source, "slopes must be (heads) = " + files::shape_text(heads) +
                                                       " or (batch, heads) = " + files::shape_text(all) +
                                                       ", got " + files::shape_text(shape));
    p.alibi = true;
    options.alibi_slopes = std::move(arrays.alibi_slopes->array.values);
  }
  if (arrays.sink) {
    const Shape& shape = arrays.sink->array.shape;
    if (shape != Shape{p.query_heads})
      return mismatch(arrays.sink->source,
                      "the sink must be (heads) = " + files::shape_text({p.query_heads}) + ", got " +
                          files::shape_text(shape));
    p.sink = true;
    options.sink = std::move(arrays.sink->array.values);
  }
  return options;
}

}  // namespace runmax::cli
