#include "bench/workload.hpp"

#include <algorithm>
#include <thread>

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

Result<Workload> make_workload(const Problem& problem, Pass pass, Device device,
                               measure::MemoryLedger& ledger) {
  const bool gpu = device.kind == DeviceKind::cuda, sixteen = is_sixteen_bit(problem.dtype);
  if ((problem.dtype != DType::f32 && !(gpu && sixteen)) || problem.mask || problem.bias || problem.alibi ||
      problem.sink || problem.dropout > 0 || problem.page_size > 0 || problem.seqused ||
      !problem.varlen.empty())
    return Status(StatusCode::unsupported,
                  std::string("bench: times f32") + (gpu ? ", f16 and bf16" : "") +
                      " without mask, bias, alibi, sink, dropout, paged, seqused or varlen so far, got " +
                      to_text(problem));
  Workload workload;
  workload.problem = problem;
  workload.pass = pass;
  workload.drawn = inputs::draw(problem);
  if (pass == Pass::backward) workload.drawn_dout = inputs::draw_dout(problem);
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
  return workload;
}

}  // namespace runmax::bench
