// Judging answers in f64, whose data no f32 holds, against a reference in long double.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "check/check.hpp"
#include "check/runner.hpp"
#include "inputs/draw.hpp"

namespace runmax::check {

// Data in double, laid out as HostInputs.
struct DoubleInputs {
  std::vector<double> q, k, v;
  std::vector<SequenceLengths> lengths{};
  inputs::HostOptions options{};
};

// A drawn value with 24 more bits behind its own, a function of the value alone.
double with_low_bits(float value);

std::vector<double> with_low_bits(const std::vector<float>& values);

// The drawn data of an f64 problem.
DoubleInputs double_inputs(const inputs::HostInputs& drawn);

// Puts finished answers before the gates of f64.
void judge_double(const Problem& problem, const DoubleInputs& data, const std::vector<std::int64_t>& rows,
                  int threads, const std::vector<Answer>& answers, std::vector<KernelReport>& reports,
                  const std::function<void(const std::string&)>& progress);

}  // namespace runmax::check
