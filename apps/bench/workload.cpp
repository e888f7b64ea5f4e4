#include "bench/workload.hpp"

#include <algorithm>
#include <thread>
#include <tuple>

#include "check/check.hpp"
#include "check/forms.hpp"
#include "check/reference_options.hpp"
#include "inputs/draw_dout.hpp"
#include "problem/format16.hpp"
#include "runmax/backward.hpp"

namespace runmax::bench {

namespace {

// Encodings of the values, which become what those hold. A large problem has 10^8 of them, so all threads
// help.
std::vector<std::uint16_t> round_and_encode(DType dtype, std::vector<float>& values) {
  const Format16 format = dtype == DType::f16 ? format_f16 : format_bf16;
  std::vector<std::uint16_t> encoded(values.size());
  const std::size_t threads = std::max(1u, std::thread::hardware_concurrency());
  const std::size_t piece = (values.size() + threads - 1) / threads;
  std::vector<std::thread> pool;
  for (std::size_t begin = 0; begin < values.size(); begin += piece)
    pool.emplace_back([&, begin, end = std::min(begin + piece, values.size())] {
      for (std::size_t i = begin; i < end; ++i) {
        encoded[i] = encode16(format, static_cast<double>(values[i]));
        values[i] = decode16(format, encoded[i]);
      }
    });
  for (std::thread& thread : pool) thread.join();
  return encoded;
}

}  // namespace

bool is_sixteen_bit(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

std::string_view pass_name(Pass pass) { return pass == Pass::forward ? "forward" : "backward"; }

double pass_flops(const Problem& problem, Pass pass) {
  return pass == Pass::forward ? forward_flops(problem) : backward_flops(problem);
}

double pass_bytes(const Problem& problem, Pass pass) {
  const double forward = minimum_bytes(problem);
  if (pass == Pass::forward) return forward;
  // All but LSE doubles.
  double query_rows = static_cast<double>(problem.batch) * static_cast<double>(problem.query_len);
  if (!problem.varlen.empty()) {
    query_rows = 0;
    for (const SequenceLengths& s : problem.varlen) query_rows += static_cast<double>(s.query_len);
  }
  return 2 * forward - 4 * query_rows * static_cast<double>(problem.query_heads);
}

std::string_view flops_formula(Pass pass) {
  return pass == Pass::forward ? forward_flops_formula() : backward_flops_formula();
}

std::string bytes_formula(Pass pass) {
  const std::string forward(minimum_bytes_formula());
  return pass == Pass::forward
             ? forward
             : "2 * forward's - 4 * query_heads * query_len * batch; forward's = " + forward;
}

bool is_plain(const Problem& p) {
  return p.dtype == DType::f32 && !p.mask && !p.bias && !p.alibi && !p.sink && p.dropout == 0 &&
         p.page_size == 0 && !p.seqused && p.varlen.empty();
}

namespace {

// The part of a head's pairs that mask and bias leave visible.
double visible_part(const Problem& own, const inputs::HostOptions& options, std::int64_t b, std::int64_t h) {
  const reference::ScoreOptions score = check::reference_options(own, options, b, h, 0);
  double all = 0, visible = 0;
  for (std::int64_t i = 0; i < own.query_len; ++i) {
    const KeyRange keys = visible_keys(own.causal, own.window, own.query_len, own.kv_len, i);
    for (std::int64_t j = keys.begin; j < keys.end; ++j) visible += score.sees(i, j) ? 1 : 0;
    all += static_cast<double>(std::max<std::int64_t>(keys.end - keys.begin, 0));
  }
  return all == 0 ? 1 : visible / all;
}

Work count_work(const Problem& p, Pass pass, const inputs::HostInputs& drawn) {
  if (is_plain(p)) return {pass_flops(p, pass), pass_bytes(p, pass)};
  Work work;
  const std::vector<check::SequencePlace> places = check::places_of(p, drawn);
  const auto per_head = [](const std::array<std::int64_t, 4>& shape) { return shape[1] > 1; };
  const bool heads_differ =
      (p.mask && per_head(drawn.options.mask_shape)) || (p.bias && per_head(drawn.options.bias_shape));
  for (std::int64_t b = 0; b < p.batch; ++b) {
    Problem own = check::element_problem(p, places[static_cast<std::size_t>(b)].lengths);
    own.batch = 1;
    double part = 1;
    if (p.mask || p.bias) {
      const std::int64_t heads = heads_differ ? p.query_heads : 1;
      part = 0;
      for (std::int64_t h = 0; h < heads; ++h)
        part += visible_part(own, drawn.options, b, h) / static_cast<double>(heads);
    }
    work.flops += part * pass_flops(own, pass);
    work.bytes += pass_bytes(own, pass);
  }
  return work;
}

// A buffer of the CPU with a tensor's elements, and its view.
Status place(const check::HostTensor& tensor, measure::Buffer& buffer, TensorView& view,
             measure::MemoryLedger& ledger) {
  const std::vector<unsigned char> bytes = check::encode(tensor);
  Result<measure::Buffer> made = measure::Buffer::allocate({}, bytes.size(), ledger);
  if (!made.ok()) return made.status();
  buffer = std::move(made.value());
  view = tensor.view(buffer.data(), {});
  return bytes.empty() ? Status() : buffer.from_host(bytes.data(), bytes.size());
}

// Every tensor of a problem with options, a form or another type, as the CPU reads it.
Status place_all(Workload& workload, measure::MemoryLedger& ledger) {
  const Problem& p = workload.problem;
  check::round_to(p.dtype, workload.drawn);
  check::round_to(p.dtype, workload.drawn_dout);
  check::HostOperands in = check::form_operands(p, workload.drawn);
  Tensors& t = workload.tensors;
  for (const auto& [tensor, buffer, view] :
       {std::tuple{&in.q, &workload.q, &t.q}, {&in.k, &workload.k, &t.k}, {&in.v, &workload.v, &t.v}}) {
    tensor->dtype = p.dtype;
    if (Status status = place(*tensor, *buffer, *view, ledger); !status.ok()) return status;
  }
  if (workload.pass == Pass::backward) {
    check::HostTensor dout = check::form_dout(p, workload.drawn_dout);
    dout.dtype = p.dtype;
    if (Status status = place(dout, workload.dout, workload.dout_view, ledger); !status.ok()) return status;
  }
  for (const auto& [asked, tensor, view] : {std::tuple{p.mask, &in.mask, &t.mask},
                                            {p.bias, &in.bias, &t.bias},
                                            {p.alibi, &in.alibi_slopes, &t.alibi_slopes},
                                            {p.sink, &in.sink, &t.sink},
                                            {p.page_size > 0, &in.page_table, &t.page_table},
                                            {p.seqused, &in.kv_lengths, &t.kv_lengths}}) {
    if (!asked) continue;
    measure::Buffer buffer;
    if (Status status = place(*tensor, buffer, *view, ledger); !status.ok()) return status;
    workload.options.push_back(std::move(buffer));
  }
  t.dropout = in.dropout;
  return {};
}

}  // namespace

Result<Workload> make_workload(const Problem& problem, Pass pass, Device device,
                               measure::MemoryLedger& ledger) {
  const bool gpu = device.kind == DeviceKind::cuda, sixteen = is_sixteen_bit(problem.dtype);
  Problem dense = problem;
  if (sixteen) dense.dtype = DType::f32;
  if (gpu && !is_plain(dense))
    return Status(
        StatusCode::unsupported,
        "bench: times f32, f16 and bf16 without mask, bias, alibi, sink, dropout, paged, seqused or "
        "varlen on a GPU so far, got " +
            to_text(problem));
  if (problem.dtype != DType::f32 && !sixteen && problem.dtype != DType::f64)
    return Status(StatusCode::unsupported, "bench: times f32, f16, bf16 and f64, got " + to_text(problem));
  Workload workload;
  workload.problem = problem;
  workload.pass = pass;
  workload.drawn = inputs::draw(problem);
  if (pass == Pass::backward) workload.drawn_dout = inputs::draw_dout(problem);
  workload.work = count_work(problem, pass, workload.drawn);
  if (!gpu && !is_plain(problem)) {
    if (Status status = place_all(workload, ledger); !status.ok()) return status;
    return workload;
  }
  struct Operand {
    measure::Buffer* buffer;
    std::vector<float>* values;
  };
  for (const Operand& operand :
       {Operand{&workload.q, &workload.drawn.q}, Operand{&workload.k, &workload.drawn.k},
        Operand{&workload.v, &workload.drawn.v}, Operand{&workload.dout, &workload.drawn_dout}}) {
    std::vector<std::uint16_t> encoded;
    if (sixteen) encoded = round_and_encode(problem.dtype, *operand.values);
    const void* source = sixteen ? static_cast<const void*>(encoded.data()) : operand.values->data();
    const std::size_t bytes = operand.values->size() * (sixteen ? 2 : sizeof(float));
    Result<measure::Buffer> buffer = measure::Buffer::allocate(device, bytes, ledger);
    if (!buffer.ok()) return buffer.status();
    if (bytes > 0)
      if (Status status = buffer.value().from_host(source, bytes); !status.ok()) return status;
    *operand.buffer = std::move(buffer.value());
  }
  if (gpu) return workload;
  const Problem& p = problem;
  const auto view = [](const measure::Buffer& buffer, std::array<std::int64_t, 4> shape) {
    return packed_view(buffer.data(), DType::f32, shape, Layout::bhsd);
  };
  workload.tensors.q = view(workload.q, {p.batch, p.query_heads, p.query_len, p.head_dim});
  workload.tensors.k = view(workload.k, {p.batch, p.kv_heads, p.kv_len, p.head_dim});
  workload.tensors.v = view(workload.v, {p.batch, p.kv_heads, p.kv_len, p.value_dim});
  workload.dout_view = view(workload.dout, {p.batch, p.query_heads, p.query_len, p.value_dim});
  return workload;
}

}  // namespace runmax::bench
