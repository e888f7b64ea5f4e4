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

// What a worker calls, and where the arrays lie that it hands over.
enum class Entry : std::int32_t {
  host_function,    // of a library, on the arrays themselves
  device_function,  // of a library, on copies in the memory of a GPU
  device_kernel,    // of a cubin, launched by the worker
};
constexpr bool on_device(Entry entry) { return entry != Entry::host_function; }

struct Setup {
  char module[512] = {};
  char symbol[64] = {};
  Limits limits;
  Entry entry = Entry::host_function;
  std::int32_t device = 0;  // the GPU's index
  std::int32_t cores = 0;   // CPUs it may run on; 0 is all
  std::int32_t region_count = 0;
};

// `seen` are q, k and v as a device held them after the call.
enum class Operand : int { q, k, v, o, lse, workspace, seen_q, seen_k, seen_v };
constexpr std::size_t operand_count = 9;

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
  // Of a kernel's launch.
  std::int32_t blocks = 0, threads = 0, shared_bytes = 0;
  std::int32_t watch_memory = 0;  // 1: say how much of the device's memory it took
};
constexpr std::size_t most_calls = 256;

// From the worker. Whatever the kind, only the fields that its line names are set.
enum class Kind : std::int32_t {
  ready,         // confinement, resources: the candidate is loaded
  not_loaded,    // text: why not
  done,          // returned: of the last call, or of the first that was not 0; calls: how many were made
  fault,         // a hint, from the candidate's own process: signal, region, byte (relative to the region)
  device_error,  // text: the device's own words; the worker ends
  ended,         // status: the worker's, as waitpid gives it
};

// What a kernel occupies, as the device's runtime says; registers 0: nothing is known.
struct Resources {
  std::int32_t registers = 0;  // of a thread
  std::int32_t static_shared_bytes = 0;
  std::int32_t local_bytes = 0;   // of a thread
  std::int64_t module_bytes = 0;  // arrays of the module
};

struct Message {
  Kind kind = Kind::done;
  std::int32_t returned = 0;
  std::int32_t calls = 0;
  std::int32_t signal = 0;
  std::int32_t region = -1;
  std::int32_t status = 0;
  std::int64_t byte = 0;
  std::int64_t memory_bytes = -1;  // that a watched call took of the device's memory; -1: not watched
  Confinement confinement;
  Resources resources;
  char text[256] = {};
};

}  // namespace runmax::judge
