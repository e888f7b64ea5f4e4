// The rows of K or V of one KV head wherever they lie: in a tensor of any type, packed behind other
// sequences, or page by page.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/forward/cpu/elements.hpp"
#include "kernels/forward/cpu/geometry.hpp"
#include "kernels/forward/cpu/tiles.hpp"
#include "runmax/runmax.hpp"

namespace runmax::cpu {

class KvRows {
 public:
  // Rows from `start` on of one head.
  KvRows(const TensorView& view, std::int64_t batch, std::int64_t head, std::int64_t start)
      : first_(element_rows(view, batch, head, start)) {}

  // A head of a pool of pages; row j of `rows` is row j % page_size of page table[j / page_size].
  KvRows(const TensorView& pool, std::int64_t head, const TensorView& table, std::int64_t batch,
         std::int64_t page_size, std::int64_t rows)
      : first_(element_rows(pool, 0, head, 0)),
        rows_(rows),
        page_size_(page_size),
        page_stride_(pool.strides[0]),
        table_(static_cast<const std::int32_t*>(table.data) + batch * table.strides[0]),
        table_stride_(table.strides[3]) {}

  // True if all rows can be read as they lie.
  bool direct() const { return page_size_ == 0 && first_.dtype == DType::f32; }
  StridedRows strided(std::int64_t row) const { return as_strided(run(row, 1).rows); }

  // Rows [row, row + count) as they lie: read(done, how many, the rows, at one distance from each other).
  template <class Read>
  void for_each_run(std::int64_t row, std::int64_t count, Read read) const {
    for (std::int64_t done = 0; done < count;) {
      const Run piece = run(row + done, count - done);
      read(done, piece.count, piece.rows);
      done += piece.count;
    }
  }

  // Packs rows [row, row + count): pack(done, how many, their FP32 rows), each time from a multiple of a
  // panel on. `stage` holds a panel of rows.
  template <class Pack>
  void for_each_piece(std::int64_t row, std::int64_t count, std::int64_t channels, float* stage,
                      Pack pack) const {
    for (std::int64_t done = 0; done < count;) {
      if (first_.dtype == DType::f32) {
        const Run piece = run(row + done, count - done);
        const std::int64_t whole =
            done + piece.count == count ? piece.count : piece.count / forward_tile.panel * forward_tile.panel;
        if (whole > 0) {
          pack(done, whole, as_strided(piece.rows));
          done += whole;
          continue;
        }
      }
      const std::int64_t some = std::min(forward_tile.panel, count - done);
      for (std::int64_t staged = 0; staged < some;) {
        const Run piece = run(row + done + staged, some - staged);
        element_functions().widen(piece.rows, piece.count, channels, stage + staged * channels);
        staged += piece.count;
      }
      pack(done, some, StridedRows{stage, channels, 1});
      done += some;
    }
  }

 private:
  // Rows that lie at one distance from each other.
  struct Run {
    ElementRows rows;
    std::int64_t count = 0;
  };

  Run run(std::int64_t row, std::int64_t count) const {
    Run piece{first_, count};
    piece.rows.data = at(row);
    if (page_size_ == 0) {
      piece.rows.later = at(row + prefetch_rows);
      return piece;
    }
    piece.count = std::min(count, page_size_ - row % page_size_);
    // The same row of a later page: what lies behind this one in memory is some other head's.
    const std::int64_t later = row + round_up(prefetch_rows, page_size_);
    piece.rows.later = later < rows_ ? at(later) : nullptr;
    return piece;
  }

  const void* at(std::int64_t row) const {
    if (page_size_ == 0) return element_at(first_.data, first_.dtype, row * first_.row_stride);
    const std::int64_t page = table_[row / page_size_ * table_stride_];
    return element_at(first_.data, first_.dtype, page * page_stride_ + row % page_size_ * first_.row_stride);
  }

  static StridedRows as_strided(const ElementRows& rows) {
    return {static_cast<const float*>(rows.data), rows.row_stride, rows.channel_stride};
  }

  ElementRows first_;
  std::int64_t rows_ = 0;       // where it is paged
  std::int64_t page_size_ = 0;  // 0: not paged
  std::int64_t page_stride_ = 0;
  const std::int32_t* table_ = nullptr;
  std::int64_t table_stride_ = 0;
};

}  // namespace runmax::cpu
