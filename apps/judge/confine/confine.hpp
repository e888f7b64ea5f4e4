// Takes from the calling process what a candidate, or its compiler, has no need of.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace runmax::judge {

// What is put between a candidate and the machine.
enum class Guard : int {
  user,             // an unprivileged user id of its own
  no_privileges,    // nothing it executes can gain any
  own_processes,    // pid namespace: it sees and signals its own alone, and all of them end with it
  own_network,      // network namespace without an interface
  own_ipc,          // System V memory and queues
  read_only_files,  // mount namespace: the file system cannot be written to
  memory,           // address space
  processes,        // number of processes and threads
  files,            // size of files it writes
  cpu_time,
};
constexpr std::size_t guard_count = 10;

// "user", "pid namespace", ...; and what it is for, in a few words.
std::string_view guard_name(Guard guard);
std::string_view guard_purpose(Guard guard);

struct Limits {
  std::uint64_t memory_bytes = 0;  // of address space; 0: not limited
  std::uint64_t cpu_seconds = 60;
  std::uint64_t file_bytes = 0;
  std::uint64_t processes = 64;
  std::uint32_t user = 0;  // id to take on, a group of the same number; 0: none
  bool read_only_files = true;
};

// Of each guard 0 if it stands, else the errno of what refused it; -1: not asked for.
struct Confinement {
  std::array<std::int32_t, guard_count> error{};
  std::int32_t user_namespace = 0;  // 1: in one of its own, where it counts its own processes alone
  std::int32_t& operator[](Guard guard) { return error[static_cast<std::size_t>(guard)]; }
  std::int32_t operator[](Guard guard) const { return error[static_cast<std::size_t>(guard)]; }
};

// First: namespaces, while the process is still privileged. One for processes holds from the next fork on,
// and ends with its first process, which suits no program that runs others in turn.
enum class Processes { shared, own };
void separate(Processes processes, Confinement& confinement);

// In the process to be confined: limits, read-only files, user id. What is refused is noted, never fatal.
// Only system calls, so that a fork of a process with threads may call it.
void confine(const Limits& limits, Confinement& confinement);

}  // namespace runmax::judge
