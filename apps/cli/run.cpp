// `runmax run`: attention on the user's own arrays, from .npy or .safetensors files and back into them.
#include <fmt/core.h>

#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <tuple>

#include "cli/attention_arrays.hpp"
#include "cli/check_json.hpp"
#include "cli/commands.hpp"
#include "cli/device_choice.hpp"
#include "cli/option_arrays.hpp"
#include "cli/output.hpp"
#include "cli/run_check.hpp"
#include "cli/run_forms.hpp"
#include "cli/run_gradients.hpp"
#include "files/input_file.hpp"
#include "files/npy.hpp"
#include "files/output_files.hpp"
#include "files/safetensors.hpp"
#include "problem/format16.hpp"
#include "runtime/cuda_runtime.hpp"
#include "runtime/device_memory.hpp"

namespace runmax::cli {
namespace {

namespace fs = std::filesystem;

Status usage(const std::string& rule) { return {StatusCode::invalid_argument, rule}; }

// std::from_chars, because the functions that heed the locale read "0.5" as 0 in half of Europe.
template <class Number>
bool parse_number(std::string_view text, Number& value) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

Status parse_real(const char* option, const std::string& text, double& value) {
  if (parse_number(text, value)) return {};
  return usage(std::string(option) + ": must be a number, got '" + text + "'");
}

// The options that are part of the problem; its sizes come from the arrays.
Result<Problem> parse_options(const RunArguments& arguments) {
  Problem problem;
  if (!arguments.softmax_scale.empty()) {
    double scale = 0;
    if (Status status = parse_real("--softmax-scale", arguments.softmax_scale, scale); !status.ok())
      return status;
    problem.softmax_scale = scale;
  }
  if (!arguments.softcap.empty())
    if (Status status = parse_real("--softcap", arguments.softcap, problem.softcap); !status.ok())
      return status;
  if (!arguments.dropout.empty())
    if (Status status = parse_real("--dropout", arguments.dropout, problem.dropout); !status.ok())
      return status;
  if (!arguments.window.empty()) {
    const std::string_view text = arguments.window;
    const std::size_t comma = text.find(',');
    if (comma == std::string_view::npos || !parse_number(text.substr(0, comma), problem.window.left) ||
        !parse_number(text.substr(comma + 1), problem.window.right))
      return usage("--window: must be two integers, LEFT,RIGHT, got '" + arguments.window + "'");
  }
  if (arguments.causal) problem.causal = Causal::bottom_right;
  if (!arguments.causal_align.empty()) {
    if (!arguments.causal) return usage("--causal-align: needs --causal");
    if (arguments.causal_align == "top-left" || arguments.causal_align == "top_left") {
      problem.causal = Causal::top_left;
    } else if (arguments.causal_align != "bottom-right" && arguments.causal_align != "bottom_right") {
      return usage("--causal-align: is bottom-right or top-left, got '" + arguments.causal_align + "'");
    }
  }
  if (arguments.arithmetic == "ieee") {
    problem.arithmetic = Arithmetic::ieee;
  } else if (arguments.arithmetic == "tf32") {
    problem.arithmetic = Arithmetic::tf32;
  } else if (arguments.arithmetic != "fp32-grade") {
    return usage("--arithmetic: is fp32-grade, ieee or tf32, got '" + arguments.arithmetic + "'");
  }
  if (arguments.dtype != "stored" && arguments.dtype != "f32")
    return usage("--dtype: is stored or f32, got '" + arguments.dtype + "'");
  return problem;
}

Result<DropoutState> parse_dropout(const RunArguments& arguments) {
  DropoutState state;
  for (const auto& [option, text, value] :
       {std::tuple("--dropout-seed", &arguments.dropout_seed, &state.seed),
        std::tuple("--dropout-offset", &arguments.dropout_offset, &state.offset)}) {
    if (text->empty()) continue;
    if (arguments.dropout.empty()) return usage(std::string(option) + ": needs --dropout");
    if (!parse_number(*text, *value))
      return usage(std::string(option) + ": must be an integer from 0 to 2^64 - 1, got '" + *text + "'");
  }
  return state;
}

Result<Layout> parse_layout(const std::string& name) {
  if (name == "bshd") return Layout::bshd;
  if (name == "bhsd") return Layout::bhsd;
  return usage("--layout: is bshd or bhsd, got '" + name + "'");
}

bool has_suffix(const std::string& path, std::string_view suffix) {
  return path.size() >= suffix.size() &&
         path.compare(path.size() - suffix.size(), suffix.size(), suffix) == 0;
}

struct NamedPath {
  const char* option;
  const std::string& path;
};

// The files that must be named.
std::vector<NamedPath> operands(const RunArguments& a) {
  if (!a.in.empty()) return {{"--in", a.in}};
  return {{"--q", a.q}, {"--k", a.k}, {"--v", a.v}};
}

// All that are read.
std::vector<NamedPath> inputs(const RunArguments& a) {
  std::vector<NamedPath> paths = operands(a);
  for (const auto& [option, path] : option_paths(a))
    if (!path->empty()) paths.push_back({option, *path});
  // With --in they are names of its tensors.
  for (const auto& [option, path] : form_paths(a))
    if (a.in.empty() && !path->empty()) paths.push_back({option, *path});
  if (!a.dout.empty()) paths.push_back({"--dout", a.dout});
  return paths;
}

std::vector<NamedPath> outputs(const RunArguments& a) {
  std::vector<NamedPath> paths{{"--out", a.out}};
  if (!a.lse.empty()) paths.push_back({"--lse", a.lse});
  for (const auto& [option, path] : gradient_paths(a))
    if (!path->empty()) paths.push_back({option, *path});
  return paths;
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  // Made absolute first: weakly_canonical leaves a relative name of nothing as it is, "o.npy" unlike
  // "./o.npy".
  const auto resolved = [&](const std::string& path) {
    return fs::weakly_canonical(fs::absolute(path, error), error);
  };
  const fs::path resolved_a = resolved(a), resolved_b = resolved(b);
  return !error && resolved_a == resolved_b;
}

// Which files go with which, before anything is read.
Status check_paths(const RunArguments& a) {
  if (a.out.empty()) return usage("--out: is empty; it must name a file");
  if (a.in.empty()) {
    for (const NamedPath& input : operands(a))
      if (input.path.empty())
        return usage(std::string(input.option) + ": is missing; give --q, --k and --v, or --in");
    if (has_suffix(a.out, ".safetensors"))
      return usage("--out: " + a.out + ": inputs in .npy files give .npy outputs; for .safetensors use --in");
  } else {
    for (const std::string* path : {&a.q, &a.k, &a.v})
      if (!path->empty()) return usage("--in: holds q, k and v; leave --q, --k and --v out");
    for (const auto& [option, path] : option_paths(a))
      if (!path->empty())
        return usage(std::string(option) +
                     ": with --in, masks, biases, slopes and sinks are its tensors 'mask', " +
                     "'bias', 'alibi_slopes' and 'sink'; leave " + option + " out");
    if (!a.lse.empty())
      return usage("--lse: with --in, the LSE is the tensor 'lse' of --out; leave --lse out");
    if (has_suffix(a.out, ".npy"))
      return usage("--out: " + a.out + ": --in gives a .safetensors output; for .npy use --q, --k and --v");
  }
  for (const NamedPath& output : outputs(a)) {
    for (const NamedPath& input : inputs(a))
      if (same_file(output.path, input.path))
        return usage(std::string(output.option) + ": " + output.path + " is also the input " + input.option);
    if (Status status = files::check_destination(output.path); !status.ok())
      return Status(status.code(), std::string(output.option) + " " + status.message());
  }
  const std::vector<NamedPath> written = outputs(a);
  for (std::size_t n = 1; n < written.size(); ++n)
    for (std::size_t before = 0; before < n; ++before)
      if (same_file(written[before].path, written[n].path))
        return usage(std::string(written[n].option) + ": " + written[n].path + " is also the output " +
                     written[before].option);
  return check_gradient_paths(a);
}

struct Inputs {
  NamedArray q, k, v;
  OptionArrays options;
  FormArrays forms;
  std::optional<NamedArray> dout;
};

files::Precision precision(const RunArguments& a) {
  return a.dtype == "f32" ? files::Precision::f32 : files::Precision::stored;
}

Result<NamedArray> read_one(const NamedPath& input, files::Precision kept) {
  const std::string source = std::string(input.option) + " " + input.path;
  Result<files::FloatArray> array = files::read_npy(input.path, kept);
  if (!array.ok())
    return Status(array.status().code(), std::string(input.option) + " " + array.status().message());
  return NamedArray{source, std::move(array).value()};
}

Result<Inputs> read_inputs(const RunArguments& a) {
  Inputs result;
  if (a.in.empty()) {
    for (const auto& [input, target] :
         {std::pair(NamedPath{"--q", a.q}, &result.q), std::pair(NamedPath{"--k", a.k}, &result.k),
          std::pair(NamedPath{"--v", a.v}, &result.v)}) {
      Result<NamedArray> array = read_one(input, precision(a));
      if (!array.ok()) return array.status();
      *target = std::move(array).value();
    }
    Result<OptionArrays> options = read_option_files(a);
    if (!options.ok()) return options.status();
    result.options = std::move(options).value();
    Result<FormArrays> forms = read_forms(a, nullptr);
    if (!forms.ok()) return forms.status();
    result.forms = std::move(forms).value();
    if (a.dout.empty()) return result;
    Result<NamedArray> dout = read_one({"--dout", a.dout}, precision(a));
    if (!dout.ok()) return dout.status();
    result.dout = std::move(dout).value();
    return result;
  }
  const std::string source = "--in " + a.in + ": ";
  const auto named = [&](const Status& status) { return Status(status.code(), source + status.message()); };
  Result<files::FileBytes> file = files::read_file(a.in);
  if (!file.ok()) return named(file.status());
  Result<std::vector<files::TensorEntry>> tensors = files::parse_safetensors(file.value().bytes());
  if (!tensors.ok()) return named(tensors.status());
  for (const auto& [name, target] :
       {std::pair("q", &result.q), std::pair("k", &result.k), std::pair("v", &result.v)}) {
    Result<files::FloatArray> array = files::tensor_to_f32(tensors.value(), name, precision(a));
    if (!array.ok()) return named(array.status());
    *target = {source + "tensor '" + name + "'", std::move(array).value()};
  }
  for (const files::TensorEntry& entry : tensors.value()) {
    if (entry.name != "dout") continue;
    Result<files::FloatArray> array = files::tensor_to_f32(tensors.value(), "dout", precision(a));
    if (!array.ok()) return named(array.status());
    result.dout = NamedArray{source + "tensor 'dout'", std::move(array).value()};
  }
  Result<OptionArrays> options = take_option_tensors(tensors.value(), source);
  if (!options.ok()) return options.status();
  result.options = std::move(options).value();
  Result<FormArrays> forms = read_forms(a, &tensors.value());
  if (!forms.ok()) return forms.status();
  result.forms = std::move(forms).value();
  return result;
}

// The type that the arrays are computed in: their own, which must be one, or FP32 if that was asked for.
Result<DType> compute_type(const RunArguments& a, const Inputs& in) {
  if (a.dtype == "f32") {
    for (const NamedArray* array : {&in.q, &in.k, &in.v})
      if (array->array.stored != files::Element::f32)
        notice(array->source + ": " + files::element_name(array->array.stored) + " is computed in f32");
    return DType::f32;
  }
  const files::Element element = in.q.array.stored;
  std::vector<const NamedArray*> others{&in.k, &in.v};
  if (in.dout) others.push_back(&*in.dout);
  for (const NamedArray* array : others)
    if (array->array.stored != element)
      return usage(array->source + ": must have the type of q, got " +
                   files::element_name(array->array.stored) + " and " + files::element_name(element) +
                   "; --dtype f32 computes all of them in FP32");
  switch (element) {
    case files::Element::f16:
      return DType::f16;
    case files::Element::bf16:
      return DType::bf16;
    case files::Element::f64:
      return DType::f64;
    default:
      return DType::f32;
  }
}

// An input's elements in the type they are computed in; `storage` holds them if they have to be made.
std::span<std::byte> input_bytes(NamedArray& array, DType dtype, std::vector<std::byte>& storage) {
  if (dtype == DType::f32) return std::as_writable_bytes(std::span(array.array.values));
  if (dtype == DType::f64) return std::as_writable_bytes(std::span(array.array.wide));
  const Format16 format = dtype == DType::f16 ? format_f16 : format_bf16;
  storage.resize(array.array.values.size() * sizeof(std::uint16_t));
  for (std::size_t i = 0; i < array.array.values.size(); ++i) {
    const std::uint16_t bits = encode16(format, static_cast<double>(array.array.values[i]));
    std::memcpy(storage.data() + i * sizeof bits, &bits, sizeof bits);
  }
  return storage;
}

// Bytes of the host where the plan's device can use them: in place on the CPU, a copy on a GPU.
class Placed {
 public:
  Placed(Device device, std::span<std::byte> host) : device_(device), host_(host) {}

  Status allocate() {
    if (device_.kind == DeviceKind::cpu) return {};
    Result<DeviceMemory> memory = DeviceMemory::allocate(device_, host_.size());
    if (!memory.ok()) return memory.status();
    memory_ = std::move(memory).value();
    return {};
  }
  Status to_device() {
    if (device_.kind == DeviceKind::cpu || host_.empty()) return {};
    return cuda_copy_to_device(device_.index, memory_.data(), host_.data(), host_.size());
  }
  Status to_host() {
    if (device_.kind == DeviceKind::cpu || host_.empty()) return {};
    return cuda_copy_to_host(device_.index, host_.data(), memory_.data(), host_.size());
  }
  void* data() const { return device_.kind == DeviceKind::cpu ? host_.data() : memory_.data(); }

 private:
  Device device_;
  std::span<std::byte> host_;
  DeviceMemory memory_;
};

struct Answer {
  std::vector<std::byte> o, lse;
  std::optional<GradientArrays> gradients;
  double time_ms = 0;  // the call and the wait for it; copies to and from a GPU are outside
};

Result<Answer> compute(const Plan& plan, const DeviceFacts& facts, const RunArguments& arguments, Inputs& in,
                       inputs::HostOptions& options, FormTensors& forms, Layout layout, bool want_lse) {
  const Problem& p = plan.problem;
  Answer answer;
  const files::Shape o_shape = output_shape(in.q.array.shape, p);
  const auto [batch, heads, length, value_dim] = canonical_shape(o_shape, layout);
  // The element counts fit: validate bounds every tensor, take_forms bounded them by files in memory.
  const double rows = static_cast<double>(batch) * static_cast<double>(heads) * static_cast<double>(length);
  const auto size = static_cast<double>(dtype_bytes(p.dtype));
  const double output_bytes = rows * (size * static_cast<double>(value_dim) + 4);
  if (output_bytes > static_cast<double>(files::physical_memory_bytes()))
    return usage(in.q.source + ": the output " + files::shape_text(o_shape) + " is larger (" +
                 fmt::format("{:.0f}", output_bytes) + " bytes) than this machine's memory (" +
                 std::to_string(files::physical_memory_bytes()) + " bytes)");
  const std::int64_t lse_count = batch * heads * length;
  answer.o.resize(static_cast<std::size_t>(lse_count * value_dim * dtype_bytes(p.dtype)));
  if (want_lse) answer.lse.resize(static_cast<std::size_t>(lse_count * dtype_bytes(lse_type(p.dtype))));

  std::vector<std::byte> storage[3];
  Placed q(plan.device, input_bytes(in.q, p.dtype, storage[0])),
      k(plan.device, input_bytes(in.k, p.dtype, storage[1])),
      v(plan.device, input_bytes(in.v, p.dtype, storage[2])), o(plan.device, answer.o),
      lse(plan.device, answer.lse),
      page_table(plan.device, std::as_writable_bytes(std::span(forms.page_table))),
      seqused(plan.device, std::as_writable_bytes(std::span(forms.seqused)));
  const auto bytes = [](auto& values) { return std::as_writable_bytes(std::span(values)); };
  Placed mask(plan.device, bytes(options.mask)), bias(plan.device, bytes(options.bias)),
      slopes(plan.device, bytes(options.alibi_slopes)), sink(plan.device, bytes(options.sink));
  for (Placed* array : {&q, &k, &v, &o, &lse, &page_table, &seqused, &mask, &bias, &slopes, &sink})
    if (Status status = array->allocate(); !status.ok()) return status;
  for (Placed* array : {&q, &k, &v, &page_table, &seqused, &mask, &bias, &slopes, &sink})
    if (Status status = array->to_device(); !status.ok()) return status;
  Result<DeviceMemory> workspace = DeviceMemory::allocate(plan.device, plan.workspace_bytes);
  if (!workspace.ok()) return workspace.status();

  const auto view = [&](const Placed& array, const files::Shape& shape) {
    return packed_view(array.data(), p.dtype, canonical_shape(shape, layout), layout, plan.device);
  };
  Tensors tensors;
  tensors.q = view(q, in.q.array.shape);
  tensors.k = view(k, in.k.array.shape);
  tensors.v = view(v, in.v.array.shape);
  tensors.o = view(o, o_shape);
  if (want_lse)
    tensors.lse =
        packed_view(lse.data(), lse_type(p.dtype), {batch, heads, length, 1}, Layout::bhsd, plan.device);
  set_form_views(p, forms, page_table.data(), seqused.data(), plan.device, tensors);
  const auto option = [&](const Placed& array, DType dtype, std::array<std::int64_t, 4> shape) {
    return packed_view(array.data(), dtype, shape, Layout::bhsd, plan.device);
  };
  if (p.mask) tensors.mask = option(mask, DType::boolean, options.mask_shape);
  if (p.bias) tensors.bias = option(bias, DType::f32, options.bias_shape);
  const auto query_heads = static_cast<std::size_t>(p.query_heads);
  if (p.alibi)
    tensors.alibi_slopes = option(
        slopes, DType::f32, {options.alibi_slopes.size() == query_heads ? 1 : p.batch, p.query_heads, 1, 1});
  if (p.sink) tensors.sink = option(sink, DType::f32, {1, p.query_heads, 1, 1});
  tensors.dropout = {options.dropout_seed, options.dropout_offset};
  const auto begin = std::chrono::steady_clock::now();
  Status status = run(plan, tensors, {workspace.value().data(), workspace.value().bytes()});
  if (status.ok()) status = synchronize(plan.device, nullptr);
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - begin;
  if (!status.ok()) return status;
  answer.time_ms = elapsed.count();
  for (Placed* array : {&o, &lse})
    if (Status copied = array->to_host(); !copied.ok()) return copied;
  if (!in.dout) return answer;
  std::vector<std::byte> dout_storage;
  Result<GradientArrays> gradients =
      compute_gradients(p, facts, arguments, tensors, *in.dout, input_bytes(*in.dout, p.dtype, dout_storage),
                        layout, in.q.array.shape, in.k.array.shape, in.v.array.shape);
  if (!gradients.ok()) return gradients.status();
  answer.gradients = std::move(gradients).value();
  return answer;
}

files::Bytes bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

struct OutputShapes {
  files::Shape o, lse;
  files::Element o_element = files::Element::f32, lse_element = files::Element::f32;
};

Status write_outputs(const RunArguments& a, const Answer& answer, const OutputShapes& shapes) {
  files::OutputFiles out;
  const std::vector<NamedGradient> gradients =
      answer.gradients ? named_gradients(a, *answer.gradients) : std::vector<NamedGradient>{};
  if (!a.in.empty()) {
    std::vector<files::TensorHeader> tensors{{"o", shapes.o, shapes.o_element},
                                             {"lse", shapes.lse, shapes.lse_element}};
    for (const NamedGradient& gradient : gradients)
      tensors.push_back({gradient.name, gradient.shape, gradient.element});
    const std::string header = files::safetensors_header(tensors);
    std::vector<files::Bytes> pieces{bytes_of(header), answer.o, answer.lse};
    for (const NamedGradient& gradient : gradients) pieces.push_back(gradient.values);
    if (Status status = out.add(a.out, pieces); !status.ok()) return status;
    return out.commit();
  }
  const std::string o_header = files::npy_header(shapes.o, shapes.o_element);
  if (Status status = out.add(a.out, {bytes_of(o_header), answer.o}); !status.ok()) return status;
  if (!a.lse.empty()) {
    const std::string lse_header = files::npy_header(shapes.lse, shapes.lse_element);
    if (Status status = out.add(a.lse, {bytes_of(lse_header), answer.lse}); !status.ok()) return status;
  }
  for (const NamedGradient& gradient : gradients) {
    if (gradient.path.empty()) continue;
    const std::string header = files::npy_header(gradient.shape, gradient.element);
    if (Status status = out.add(gradient.path, {bytes_of(header), gradient.values}); !status.ok())
      return status;
  }
  return out.commit();
}

// As a POSIX shell reads it back.
std::string shell_word(const std::string& text) {
  const bool plain = !text.empty() && text.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                          "_-./,:=+") == std::string::npos;
  if (plain) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

// The command that repeats this run.
std::string repeat_command(const RunArguments& a) {
  std::string command = "runmax run";
  const auto add = [&](const char* option, const std::string& value, const std::string& default_value = "") {
    if (value == default_value) return;
    command += std::string(" ") + option + " " + shell_word(value);
  };
  for (const NamedPath& path : inputs(a)) add(path.option, path.path);
  for (const auto& [option, name] : form_paths(a))
    if (!a.in.empty()) add(option, *name);
  for (const NamedPath& path : outputs(a)) add(path.option, path.path);
  add("--dtype", a.dtype, "stored");
  add("--layout", a.layout, "bshd");
  add("--softmax-scale", a.softmax_scale);
  if (a.causal) command += " --causal";
  add("--causal-align", a.causal_align);
  add("--window", a.window);
  add("--softcap", a.softcap);
  add("--dropout", a.dropout);
  add("--dropout-seed", a.dropout_seed);
  add("--dropout-offset", a.dropout_offset);
  add("--arithmetic", a.arithmetic, "fp32-grade");
  add("--device", a.device, "auto");
  add("--kernel", a.kernel);
  add("--threads", std::to_string(a.threads), "0");
  add("--num-splits", std::to_string(a.num_splits), "0");
  return command + " --check";
}

nlohmann::ordered_json report(const RunArguments& a, const Inputs& in, const Plan& plan,
                              const DeviceFacts& facts, const std::optional<OutputShapes>& shapes,
                              const Answer& answer, const std::optional<RunVerdict>& verdict) {
  nlohmann::ordered_json json;
  json["schema"] = "runmax.run";
  json["version"] = 1;
  json["problem"] = to_text(plan.problem);
  json["layout"] = a.layout;
  json["device"] = facts.name;
  json["device_kind"] = device_kind_name(plan.device.kind);
  json["kernel"] = plan.kernel;
  json["computed_as"] = plan.computed_as;
  json["num_splits"] = plan.num_splits;
  json["threads"] = plan.threads;
  json["workspace_bytes"] = plan.workspace_bytes;
  json["time_ms"] = answer.time_ms;
  json["inputs"] = nlohmann::ordered_json::array();
  const auto input = [&](const char* name, const NamedArray& array, const std::string& path) {
    json["inputs"].push_back({{"name", name},
                              {"file", a.in.empty() ? path : a.in},
                              {"shape", array.array.shape},
                              {"dtype", files::element_name(array.array.stored)}});
  };
  input("q", in.q, a.q);
  input("k", in.k, a.k);
  input("v", in.v, a.v);
  const auto option = [&](const char* name, const std::optional<NamedArray>& array, const std::string& path) {
    if (array) input(name, *array, path);
  };
  if (in.options.mask)
    json["inputs"].push_back({{"name", "mask"},
                              {"file", a.in.empty() ? a.mask : a.in},
                              {"shape", in.options.mask->array.shape},
                              {"dtype", "bool"}});
  option("bias", in.options.bias, a.bias);
  option("alibi_slopes", in.options.alibi_slopes, a.alibi_slopes);
  option("sink", in.options.sink, a.sink);
  option("dout", in.dout, a.dout);
  if (answer.gradients)
    json["backward"] = {{"kernel", answer.gradients->kernel}, {"time_ms", answer.gradients->time_ms}};
  json["outputs"] = nlohmann::ordered_json::array();
  if (shapes) {
    json["outputs"].push_back({{"name", "o"},
                               {"file", a.out},
                               {"shape", shapes->o},
                               {"dtype", files::element_name(shapes->o_element)}});
    if (!a.in.empty() || !a.lse.empty())
      json["outputs"].push_back({{"name", "lse"},
                                 {"file", a.in.empty() ? a.lse : a.out},
                                 {"shape", shapes->lse},
                                 {"dtype", files::element_name(shapes->lse_element)}});
    if (answer.gradients)
      for (const NamedGradient& gradient : named_gradients(a, *answer.gradients))
        if (!a.in.empty() || !gradient.path.empty())
          json["outputs"].push_back({{"name", gradient.name},
                                     {"file", a.in.empty() ? gradient.path : a.out},
                                     {"shape", gradient.shape},
                                     {"dtype", files::element_name(gradient.element)}});
  }
  if (verdict) {
    json["check"] = to_json(verdict->kernel);
    json["check"].erase("memory");  // the guard bytes of `check` do not lie round the user's arrays
    json["check"]["rows"] = {{"per_head", verdict->rows}, {"compared", verdict->rows_compared}};
    json["accepted"] = verdict->accepted();
  }
  return json;
}

void print_json(const nlohmann::ordered_json& json) {
  // A file name need not be UTF-8.
  print_result(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

std::string summary(const RunArguments& a, const Plan& plan, const DeviceFacts& facts,
                    const OutputShapes& shapes, const Answer& answer) {
  std::string files = a.out + ": o " + files::shape_text(shapes.o);
  if (!a.lse.empty()) files += ", " + a.lse + ": lse " + files::shape_text(shapes.lse);
  if (!a.in.empty()) files += ", lse " + files::shape_text(shapes.lse);
  if (answer.gradients)
    for (const NamedGradient& gradient : named_gradients(a, *answer.gradients))
      if (!a.in.empty() || !gradient.path.empty())
        files += ", " + (a.in.empty() ? gradient.path + ": " : std::string()) + gradient.name + " " +
                 files::shape_text(gradient.shape);
  if (answer.gradients)
    return fmt::format("{}; {} by {} and {} on {}, {:.3f} and {:.3f} ms (one call each, cold)", files,
                       to_text(plan.problem), plan.kernel, answer.gradients->kernel, facts.name,
                       answer.time_ms, answer.gradients->time_ms);
  return fmt::format("{}; {} by {} on {}, {:.3f} ms (one call, cold)", files, to_text(plan.problem),
                     plan.kernel, facts.name, answer.time_ms);
}

}  // namespace

ExitCode run_command(const RunArguments& arguments) {
  Result<Problem> options = parse_options(arguments);
  if (!options.ok()) return complain(options.status());
  Result<Layout> layout = parse_layout(arguments.layout);
  if (!layout.ok()) return complain(layout.status());
  const Result<DropoutState> dropout = parse_dropout(arguments);
  if (!dropout.ok()) return complain(dropout.status());
  if (Status status = check_paths(arguments); !status.ok()) return complain(status);
  const bool gradients_asked = !arguments.dout.empty();
  // Gradients are computed on the CPU.
  Result<DeviceChoice> device =
      choose_device(gradients_asked && arguments.device == "auto" ? "cpu" : arguments.device);
  if (!device.ok()) return complain(device.status());

  Result<Inputs> read = read_inputs(arguments);
  if (!read.ok()) return complain(read.status());
  Inputs& in = read.value();
  if (in.dout && arguments.check)
    return complain(
        usage("--check: judges o and lse alone; `runmax check PROBLEM --backward` judges gradients"));
  Problem problem = options.value();
  if (Status status = take_forms(in.forms, in.q, in.k, in.v, layout.value(), problem); !status.ok())
    return complain(status);
  Result<inputs::HostOptions> taken = take_options(in.options, problem);
  if (!taken.ok()) return complain(taken.status());
  inputs::HostOptions& option_arrays = taken.value();
  option_arrays.dropout_seed = dropout.value().seed;
  option_arrays.dropout_offset = dropout.value().offset;
  Result<FormTensors> forms = form_tensors(in.forms);
  if (!forms.ok()) return complain(forms.status());
  Result<DType> dtype = compute_type(arguments, in);
  if (!dtype.ok()) return complain(dtype.status());
  problem.dtype = dtype.value();

  Result<Plan> planned =
      plan(problem, device.value().facts,
           {.kernel = arguments.kernel, .threads = arguments.threads, .num_splits = arguments.num_splits});
  if (!planned.ok() && planned.status().code() == StatusCode::unsupported && problem.dtype != DType::f32)
    return complain(Status(StatusCode::unsupported,
                           planned.status().message() + "; --dtype f32 computes the arrays in FP32"));
  if (!planned.ok()) return complain(planned.status());
  const bool want_lse = !arguments.in.empty() || !arguments.lse.empty() || arguments.check || in.dout;
  Result<Answer> answer = compute(planned.value(), device.value().facts, arguments, in, option_arrays,
                                  forms.value(), layout.value(), want_lse);
  if (!answer.ok()) return complain(answer.status());

  const OutputShapes shapes{output_shape(in.q.array.shape, problem),
                            lse_shape(in.q.array.shape, layout.value()), element_of(problem.dtype),
                            element_of(lse_type(problem.dtype))};
  std::optional<RunVerdict> verdict;
  if (arguments.check)
    verdict =
        judge_run(planned.value(), device.value().facts, layout.value(), in.q, in.k, in.v, option_arrays,
                  forms.value(), answer.value().o, answer.value().lse, repeat_command(arguments));
  if (verdict && !verdict->accepted()) {
    if (arguments.json) {
      print_json(report(arguments, in, planned.value(), device.value().facts, std::nullopt, answer.value(),
                        verdict));
    } else {
      print_result(verdict->text());
    }
    return complain(ExitCode::rejected, "the answer is rejected; nothing is written");
  }
  if (Status status = write_outputs(arguments, answer.value(), shapes); !status.ok())
    return complain_unwritten(status);
  if (arguments.json) {
    print_json(report(arguments, in, planned.value(), device.value().facts, shapes, answer.value(), verdict));
  } else {
    print_result(summary(arguments, planned.value(), device.value().facts, shapes, answer.value()) + "\n");
    if (verdict) print_result(verdict->text());
  }
  return ExitCode::done;
}

}  // namespace runmax::cli
