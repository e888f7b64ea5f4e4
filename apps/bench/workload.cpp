#include "bench/workload.hpp"

namespace runmax::bench {

Result<Workload> make_workload(const Problem& problem, measure::MemoryLedger& ledger) {
  Workload workload;
  workload.problem = problem;
  workload.drawn = inputs::draw(problem);
  struct Operand {
    measure::Buffer* buffer;
    const std::vector<float>* values;
  };
  for (const Operand& operand :
       {Operand{&workload.q, &workload.drawn.q}, Operand{&workload.k, &workload.drawn.k},
        Operand{&workload.v, &workload.drawn.v}}) {
    const std::size_t bytes = operand.values->size() * sizeof(float);
    Result<measure::Buffer> buffer = measure::Buffer::allocate({}, bytes, ledger);
    if (!buffer.ok()) return buffer.status();
    if (bytes > 0)
      if (Status status = buffer.value().from_host(operand.values->data(), bytes); !status.ok())
        return status;
    *operand.buffer = std::move(buffer.value());
  }
  return workload;
}

}  // namespace runmax::bench
