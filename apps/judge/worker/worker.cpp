#include "judge/worker/worker.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "judge/worker/runner.hpp"

namespace runmax::judge {
namespace {

// What the handler of faults needs; set before the candidate is loaded.
const Arrays* mapped_regions = nullptr;
std::int64_t page_bytes = 4096;

void say(const Message& message) { (void)send(socket_fd, &message, sizeof message, MSG_NOSIGNAL); }

// Says which region the address belongs to, its untouchable neighbours included, then dies of the signal.
void on_fault(int signal, siginfo_t* info, void*) {
  Message message;
  message.kind = Kind::fault;
  message.signal = signal;
  const char* address = static_cast<const char*>(info->si_addr);
  for (std::size_t i = 0; mapped_regions && i < mapped_regions->size(); ++i) {
    const Mapped& region = (*mapped_regions)[i];
    if (address < region.begin - page_bytes || address >= region.begin + region.bytes + page_bytes) continue;
    message.region = static_cast<std::int32_t>(i);
    message.byte = address - region.begin;
  }
  say(message);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  sigaction(signal, &standard, nullptr);
}

void catch_faults() {
  static char stack[65536];
  stack_t alternate{};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS}) sigaction(signal, &action, nullptr);
}

// Maps every region; the pages are made present, so that memory that appears later is the candidate's.
bool map_regions(const std::vector<Region>& regions, Arrays& mapped) {
  for (const Region& region : regions) {
    const std::size_t bytes = static_cast<std::size_t>(region.bytes);
    const std::size_t guard = static_cast<std::size_t>(page_bytes);
    void* reserved =
        mmap(nullptr, bytes + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) return false;
    char* const begin = static_cast<char*>(reserved) + guard;
    const int protection = region.writable ? PROT_READ | PROT_WRITE : PROT_READ;
    if (bytes > 0 && mmap(begin, bytes, protection, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
                          region.writable ? output_fd : input_fd, region.offset) == MAP_FAILED)
      return false;
    mapped.push_back({begin, region.bytes});
  }
  return true;
}

void keep_to_cores(std::int32_t cores) {
  cpu_set_t allowed, kept;
  if (cores <= 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  CPU_ZERO(&kept);
  // The last ones: the first are where a machine's own work tends to be.
  for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && cores > 0; --cpu)
    if (CPU_ISSET(cpu, &allowed)) {
      CPU_SET(cpu, &kept);
      --cores;
    }
  sched_setaffinity(0, sizeof kept, &kept);
}

// Loads the candidate and serves batches of calls until the socket closes.
int serve(const Setup& setup, const std::vector<Region>& regions, Confinement confinement) {
  Message message;
  const auto refuse = [&](const std::string& why) {
    message.kind = Kind::not_loaded;
    std::snprintf(message.text, sizeof message.text, "%s", why.c_str());
    say(message);
    return 0;
  };
  static Arrays mapped;
  if (!map_regions(regions, mapped)) return refuse(std::string("memory: ") + std::strerror(errno));
  mapped_regions = &mapped;
  close(input_fd);
  close(output_fd);
  if (!on_device(setup.entry)) keep_to_cores(setup.cores);
  const std::unique_ptr<Runner> runner =
      on_device(setup.entry) ? make_device_runner(setup) : make_host_runner(setup);
  if (!runner) return refuse("this build has no CUDA");
  // A GPU's files are opened while they can be.
  if (const std::string complaint = runner->take(mapped); !complaint.empty()) return refuse(complaint);
  confine(setup.limits, confinement);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  catch_faults();

  if (const std::string complaint = runner->load(message.resources); !complaint.empty())
    return refuse(complaint);
  message.kind = Kind::ready;
  message.confinement = confinement;
  say(message);

  std::vector<Call> calls(most_calls);
  while (true) {
    const ssize_t bytes = recv(socket_fd, calls.data(), calls.size() * sizeof(Call), 0);
    if (bytes <= 0) return 0;
    const Ran ran = runner->run({calls.data(), static_cast<std::size_t>(bytes) / sizeof(Call)});
    Message done;
    done.kind = ran.device_error.empty() ? Kind::done : Kind::device_error;
    done.returned = ran.returned;
    done.calls = ran.calls;
    done.memory_bytes = ran.memory_bytes;
    std::snprintf(done.text, sizeof done.text, "%s", ran.device_error.c_str());
    say(done);
    // A device's error stays with the process.
    if (done.kind == Kind::device_error) return 0;
  }
}

template <class T>
bool receive(T* values, std::size_t count) {
  const std::size_t bytes = count * sizeof(T);
  return recv(socket_fd, values, bytes, 0) == static_cast<ssize_t>(bytes);
}

// The first process of the namespace: waits for the worker, and all that it left behind ends with it.
int guard_worker(pid_t worker) {
  for (const int fd : {0, 1, 2, input_fd, output_fd}) close(fd);
  Message ended;
  ended.kind = Kind::ended;
  while (true) {
    const pid_t pid = waitpid(-1, &ended.status, 0);
    if (pid == worker || (pid < 0 && errno != EINTR)) break;
  }
  say(ended);
  return 0;
}

}  // namespace

int worker_main() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  page_bytes = sysconf(_SC_PAGESIZE);
  Setup setup;
  if (!receive(&setup, 1)) return 1;
  if (setup.region_count < 0 || setup.region_count > static_cast<std::int32_t>(most_regions)) return 1;
  std::vector<Region> regions(static_cast<std::size_t>(setup.region_count));
  if (!receive(regions.data(), regions.size())) return 1;

  Confinement confinement;
  // A GPU's driver does not start in namespaces of its own: "OS call failed".
  if (on_device(setup.entry)) {
    for (const Guard guard :
         {Guard::own_processes, Guard::own_network, Guard::own_ipc, Guard::read_only_files})
      confinement[guard] = -1;
  } else {
    separate(Processes::own, confinement);
  }
  const pid_t guardian = fork();
  if (guardian < 0) return 1;
  if (guardian > 0) {
    close(socket_fd);
    int status = 0;
    while (waitpid(guardian, &status, 0) < 0 && errno == EINTR) {
    }
    return 0;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const pid_t worker = fork();
  if (worker < 0) _exit(1);
  if (worker > 0) _exit(guard_worker(worker));
  // Nothing that the candidate registers for the end of the process runs.
  _exit(serve(setup, regions, confinement));
}

}  // namespace runmax::judge
