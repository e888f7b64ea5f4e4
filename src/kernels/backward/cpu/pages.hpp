// Gradients of paged keys: which keys of which batch element lie in a page, and the sums over them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <tuple>

#include "kernels/forward/cpu/work.hpp"
#include "runmax/runmax.hpp"

namespace runmax::cpu {

// Keys of a batch element that lie in a page: [first_key, first_key + keys).
struct PageUse {
  std::int64_t page, batch, first_key, keys;
};

inline std::int64_t most_page_uses(const Problem& p) {
  return p.page_size == 0 ? 0 : p.batch * ceil_div(p.kv_len, p.page_size);
}

// The batch element that is at place n of the order of work.
inline std::int64_t batch_at(const Problem& p, const WorkList& list, std::int64_t n) {
  return uniform(p) ? n : list.work_at(n * p.kv_heads).batch;
}

class PageUses {
 public:
  // `memory` has room for most_page_uses.
  PageUses(const Problem& p, const TensorView& page_table, const WorkList& list, PageUse* memory)
      : problem_(p) {
    PageUse* end = memory;
    for (std::int64_t n = 0; n < p.batch; ++n) {
      const std::int64_t batch = batch_at(p, list, n), keys = list.work_at(n * p.kv_heads).sequence.kv_len;
      const auto* pages = static_cast<const std::int32_t*>(page_table.data) + batch * page_table.strides[0];
      for (std::int64_t key = 0; key < keys; key += p.page_size)
        *end++ = {pages[key / p.page_size * page_table.strides[3]], batch, key,
                  std::min(p.page_size, keys - key)};
    }
    uses_ = {memory, static_cast<std::size_t>(end - memory)};
    std::sort(uses_.begin(), uses_.end(), [](const PageUse& a, const PageUse& b) {
      return std::tie(a.page, a.batch, a.first_key) < std::tie(b.page, b.batch, b.first_key);
    });
  }

  std::span<const PageUse> of(std::int64_t page) const {
    const auto [first, last] =
        std::equal_range(uses_.begin(), uses_.end(), PageUse{page, 0, 0, 0},
                         [](const PageUse& a, const PageUse& b) { return a.page < b.page; });
    return {first, last};
  }

  // row[c] = the sum over all who use row r of the page, batch element after batch element; `of_elements` are
  // the gradients of each, (batch, kv_heads, kv_len, dim).
  template <class Real>
  void sum_row(std::span<const PageUse> users, const Real* of_elements, std::int64_t kv_head, std::int64_t r,
               std::int64_t dim, Real* row) const {
    for (std::int64_t c = 0; c < dim; ++c) {
      double sum = 0;
      for (const PageUse& use : users)
        if (r < use.keys)
          sum += static_cast<double>(
              of_elements[element_key(problem_, use.batch, kv_head, use.first_key + r) * dim + c]);
      row[c] = static_cast<Real>(sum);
    }
  }

  // A key among those of all batch elements.
  static std::int64_t element_key(const Problem& p, std::int64_t batch, std::int64_t kv_head,
                                  std::int64_t key) {
    return (batch * p.kv_heads + kv_head) * p.kv_len + key;
  }

 private:
  const Problem& problem_;
  std::span<PageUse> uses_;
};

}  // namespace runmax::cpu
