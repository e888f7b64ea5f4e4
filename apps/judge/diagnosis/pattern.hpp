// What can be seen of an error whose cause is not known: where it is, and how large.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "judge/diagnosis/call.hpp"

namespace runmax::diagnosis {

// "0..63, 128..191", "every 2nd from 1", "3, 7, 12 and 40 others": ascending indices of [0, count) in words;
// "all" for all of them.
std::string indices_text(const std::vector<std::int64_t>& indices, std::int64_t count);

// Which rows, tiles and dimensions are wrong and by how much, in one sentence.
std::string describe_pattern(const Call& call);

ErrorMap error_map(const Call& call);

}  // namespace runmax::diagnosis
