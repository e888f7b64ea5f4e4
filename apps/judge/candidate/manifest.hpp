// What a candidate claims to serve, read from a comment of its source.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "judge/candidate/expression.hpp"
#include "runmax/problem.hpp"
#include "runmax/status.hpp"

namespace runmax::judge {

// host: a function on host pointers, called by the worker. device: a kernel that the judge launches.
enum class Tier { host, device };
enum class Heads { one, any, grouped };

std::string_view tier_name(Tier tier);
std::string_view heads_name(Heads heads);

// docs/decisions/0007-judge.md has the table of keys; the defaults are the exercise's.
struct Manifest {
  bool found = false;  // false: the file has none, and all of this is default
  Tier tier = Tier::host;
  std::int64_t shortest = 1, longest = 131072, multiple_of = 1;
  std::vector<std::int64_t> head_dims{64};
  Heads heads = Heads::one;
  bool unequal = false, causal = false, lse = false;
  std::int64_t key_tile = 32;
  std::int64_t align = 4;
  std::string workspace = "0";
  std::string blocks = "(n + 63)/64", threads = "256", shared_bytes = "0";  // device tier

  bool serves_length(std::int64_t n) const { return n >= shortest && n <= longest && n % multiple_of == 0; }
  bool serves_dim(std::int64_t d) const;
  // Why this problem is outside of the claim, or "".
  std::string outside(const Problem& problem) const;
  Result<std::int64_t> workspace_bytes(const Problem& problem) const;
};

// The names that expressions may use, for a problem.
Variables variables_of(const Problem& problem);

// Reads the manifest of a source (or of the text beside a library). `tier` is the one that the file's suffix
// says. Errors name line, key, rule and value.
Result<Manifest> read_manifest(std::string_view source, Tier tier);

}  // namespace runmax::judge
