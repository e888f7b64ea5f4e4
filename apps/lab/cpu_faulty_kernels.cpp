#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <cmath>

#include "kernels/lesson/online/host.hpp"
#include "lab/faulty_kernels.hpp"
#include "lab/report.hpp"

namespace runmax::lab {
namespace {

constexpr float score_scale = 0.125f;  // 1/sqrt(64)
static_assert(head_dim == 64);

// Calls rows(first, last) for blocks of 64 query rows on `threads` threads.
template <class Rows>
void for_row_blocks(std::int64_t n, int threads, Rows rows) {
  constexpr std::int64_t block = lesson::rows_per_block;
  tbb::task_arena arena(std::max(threads, 1));
  arena.execute([&] {
    tbb::parallel_for(std::int64_t{0}, (n + block - 1) / block,
                      [&](std::int64_t b) { rows(b * block, std::min(n, (b + 1) * block)); });
  });
}

}  // namespace

Status cpu_faulty_online(Fault fault, const HeadBuffers& head, int threads) {
  lesson::HostHead host;
  host.q = {head.q->floats(), head_dim, 1};
  host.k = {head.k->floats(), head_dim, 1};
  host.v = {head.v->floats(), head_dim, 1};
  host.o = {head.o->floats(), head_dim, 1};
  host.query_len = host.kv_len = head.n;
  host.head_dim = host.value_dim = head_dim;
  host.scale = score_scale;
  with_rule(fault, [&](auto rule) {
    for_row_blocks(head.n, threads, [&](std::int64_t first, std::int64_t last) {
      lesson::online_host_rows(
          host, first, last,
          [&](std::int64_t) {
            return lesson::Keys{0, head.n};
          },
          rule);
    });
  });
  return {};
}

Status cpu_untiled_naive(const HeadBuffers& head, const Buffer& matrices, int threads) {
  const std::int64_t n = head.n;
  const float *q = head.q->floats(), *k = head.k->floats(), *v = head.v->floats();
  float *scores = matrices.floats(), *o = head.o->floats();
  for_row_blocks(n, threads, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        float dot = 0;
        for (std::int64_t c = 0; c < head_dim; ++c) dot += q[i * head_dim + c] * k[j * head_dim + c];
        scores[i * n + j] = dot * score_scale;
      }
  });
  for_row_blocks(n, threads, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      float* row = scores + i * n;
      const float max = *std::max_element(row, row + n);
      float sum = 0;
      for (std::int64_t j = 0; j < n; ++j) sum += row[j] = std::exp(row[j] - max);
      for (std::int64_t j = 0; j < n; ++j) row[j] /= sum;
    }
  });
  for_row_blocks(n, threads, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i)
      for (std::int64_t c = 0; c < head_dim; ++c) {
        float out = 0;
        for (std::int64_t j = 0; j < n; ++j) out += scores[i * n + j] * v[j * head_dim + c];
        o[i * head_dim + c] = out;
      }
  });
  return {};
}

}  // namespace runmax::lab
