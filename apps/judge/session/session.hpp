// The judge's side of one worker: starts it, calls it, waits no longer than it may, and ends it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "judge/session/arena.hpp"
#include "judge/worker/protocol.hpp"

namespace runmax::judge {

struct WorkerOptions {
  std::string module;
  std::string symbol = "attention";
  Entry entry = Entry::host_function;
  std::int32_t device = 0;  // the GPU's index
  std::int32_t cores = 1;
  std::uint32_t user = 0;                             // id to take on; 0: the judge's own
  double start_seconds = 20;                          // to load the library
  std::int64_t memory_bytes = std::int64_t{1} << 30;  // resident, beyond its arrays
};

// How a batch of calls ended. Everything but returned and refused ends the worker.
enum class Ending {
  returned,  // every call returned 0
  refused,   // a call returned something else
  crashed,
  hung,
  flooded,     // more output than anybody reads
  memory,      // more memory than it may have
  forged,      // a message that no worker sends
  not_loaded,  // it never came to the first call
};

struct Outcome {
  Ending ending = Ending::returned;
  std::int32_t returned = 0;                 // by the call that was refused
  int signal = 0;                            // of a crash
  int exit_status = 0;                       // of a crash without a signal: it ended itself
  std::optional<std::int32_t> fault_region;  // where the address of a fault lies, if near a buffer
  std::int64_t fault_byte = 0;               // from the beginning of the region
  std::string output;                        // what the candidate printed last
  std::string device_error;                  // the GPU's own words
  std::int64_t memory_bytes = -1;            // of the device, taken by a watched call
  double seconds = 0;                        // from the call to "done"
  bool alive() const { return ending == Ending::returned || ending == Ending::refused; }
};

class Worker {
 public:
  // Arenas must outlive the worker. Regions are numbered inputs first, then outputs.
  static Result<Worker> start(const WorkerOptions& options, const Arena& inputs, const Arena& outputs);

  Worker() = default;
  Worker(Worker&& other) noexcept { *this = std::move(other); }
  Worker& operator=(Worker&& other) noexcept;
  ~Worker();

  // What came of loading the library; anything but `returned` means that it cannot be called.
  const Outcome& started() const { return started_; }
  const Confinement& confinement() const { return confinement_; }
  const Resources& resources() const { return resources_; }

  Outcome call(const std::vector<Call>& calls, double seconds);

  // After the last call: whether anything came that nobody asked for.
  Outcome settle();

  // Resident memory of the worker now and at most since it began, in bytes; nothing if the system is silent.
  struct Memory {
    std::int64_t now = 0, peak = 0;
  };
  std::optional<Memory> memory() const;

 private:
  Outcome wait(double seconds, std::chrono::steady_clock::time_point since);
  void read_output(Outcome& outcome);
  void kill_all();
  std::int64_t arrays_bytes_ = 0;
  std::int64_t memory_bytes_ = 0;
  int socket_ = -1;
  int output_ = -1;
  int launcher_ = -1;  // the process whose group the worker is in
  int worker_ = -1;    // the worker itself, as this process numbers it
  std::size_t output_bytes_ = 0;
  std::string output_tail_;
  Outcome started_;
  Confinement confinement_;
  Resources resources_;
};

}  // namespace runmax::judge
