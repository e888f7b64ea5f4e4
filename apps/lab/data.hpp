// One head of the lesson's data and the reference's answer for it.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/reference.hpp"

namespace runmax::lab {

// Lengths above this are gated on a sample of query rows, so that the reference does not take longer than all
// measurements together.
constexpr std::int64_t full_reference_len = 8192;
constexpr std::int64_t sampled_row_count = 512;

// Query rows of length n that are gated, ascending.
std::vector<std::int64_t> gated_rows(std::int64_t n);

// Where the loud key lies: every query row's largest score. The lesson's place is n - 3, in the last tile of
// every sweep.
enum class LoudKey { in_last_tile, in_first_tile };

struct Data {
  std::int64_t n = 0;
  std::vector<float> q, k, v;                     // packed (n, head_dim)
  std::vector<std::int64_t> rows;                 // those that are gated
  std::vector<reference::Row<double>> reference;  // of these rows; empty until add_reference

  std::size_t bytes() const { return q.size() * sizeof(float); }  // of one matrix
};

// Draws the matrices only.
Data draw_data(std::int64_t n, std::uint64_t seed, LoudKey loud = LoudKey::in_last_tile);

// Computes the reference on `threads` threads, if that has not been done.
void add_reference(Data& data, int threads);

}  // namespace runmax::lab
