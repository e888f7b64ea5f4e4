// What judge and worker say to each other over one socket: a setup, then batches of calls. No expected value,
// no time and no verdict is part of it.
#pragma once

#include <array>
#include <cstdint>

#include "judge/confine/confine.hpp"

namespace runmax::judge {

// File descriptors that a worker starts with.
constexpr int socket_fd = 3, input_fd = 4, output_fd = 5;

// The hidden subcommand under which the program becomes a worker.
constexpr const char* worker_command = "__worker";

// Pages of one of the two files. The worker puts a page that cannot be touched on either side.
struct Region {
  std::int64_t offset = 0, bytes = 0;
  std::int32_t writable = 0;  // 0: of the inputs' file, mapped read-only
  std::int32_t reserved = 0;
};
constexpr std::size_t most_regions = 1024;

struct Setup {
  char module[512] = {};
  char symbol[64] = {};
  Limits limits;
  std::int32_t cores = 0;  // CPUs it may run on; 0 is all
  std::int32_t region_count = 0;
};

enum class Operand : int { q, k, v, o, lse, workspace };
constexpr std::size_t operand_count = 6;

// Where an array begins: a region and a byte in it. Region -1 is a null pointer.
struct Place {
  std::int32_t region = -1;
  std::int32_t reserved = 0;
  std::int64_t byte = 0;
};

struct Call {
  std::array<Place, operand_count> arrays{};
  std::int64_t batch = 1, heads = 1, kv_heads = 1, sq = 0, sk = 0, d = 0;
  std::int64_t workspace_bytes = 0;
  float scale = 1;
  std::int32_t causal = 0;
};
constexpr std::size_t most_calls = 256;

// From the worker. Whatever the kind, only the fields that its line names are set.
enum class Kind : std::int32_t {
  ready,       // confinement: the library is loaded
  not_loaded,  // text: why not
  done,        // returned: of the last call, or of the first that was not 0; calls: how many were made
  fault,       // a hint, from the candidate's own process: signal, region, byte (relative to the region)
  ended,       // status: the worker's, as waitpid gives it
};
struct Message {
  Kind kind = Kind::done;
  std::int32_t returned = 0;
  std::int32_t calls = 0;
  std::int32_t signal = 0;
  std::int32_t region = -1;
  std::int32_t status = 0;
  std::int64_t byte = 0;
  Confinement confinement;
  char text[256] = {};
};

}  // namespace runmax::judge
