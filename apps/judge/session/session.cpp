#include "judge/session/session.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace runmax::judge {
namespace {

// What a candidate may print in all, and what is kept of it.
constexpr std::size_t most_output = 64 << 10, kept_output = 400;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Status environment(const char* what) {
  return {StatusCode::device_error, std::string("starting a worker: ") + what + ": " + std::strerror(errno)};
}

// "VmRSS:  1234 kB" of a process's status, in bytes.
std::optional<std::int64_t> status_bytes(const std::string& status, const char* name) {
  const std::size_t at = status.find(std::string("\n") + name + ":");
  if (at == std::string::npos) return std::nullopt;
  return std::strtoll(status.c_str() + at + std::strlen(name) + 2, nullptr, 10) * 1024;
}

// The child's part between fork and exec: system calls alone.
[[noreturn]] void become_worker(int socket, int input, int output, int null, int print) {
  setpgid(0, 0);
  // Above every number that is about to be given away.
  const int fds[] = {fcntl(null, F_DUPFD, 64),   fcntl(print, F_DUPFD, 64), fcntl(print, F_DUPFD, 64),
                     fcntl(socket, F_DUPFD, 64), fcntl(input, F_DUPFD, 64), fcntl(output, F_DUPFD, 64)};
  for (int i = 0; i < 6; ++i)
    if (dup2(fds[i], i) < 0) _exit(1);
  close_range(6, ~0u, 0);
  char name[] = "program";
  char command[32];
  std::snprintf(command, sizeof command, "%s", worker_command);
  char* arguments[] = {name, command, nullptr};
  char path[] = "PATH=/usr/bin:/bin", language[] = "LANG=C";
  // Which GPUs are counted, so that an index means the same there.
  char visible[256] = "X=";
  if (const char* value = std::getenv("CUDA_VISIBLE_DEVICES"))
    std::snprintf(visible, sizeof visible, "CUDA_VISIBLE_DEVICES=%s", value);
  char* variables[] = {path, language, visible[0] == 'C' ? visible : nullptr, nullptr};
  execve("/proc/self/exe", arguments, variables);
  _exit(1);
}

}  // namespace

Worker& Worker::operator=(Worker&& other) noexcept {
  std::swap(arrays_bytes_, other.arrays_bytes_);
  std::swap(memory_bytes_, other.memory_bytes_);
  std::swap(socket_, other.socket_);
  std::swap(output_, other.output_);
  std::swap(launcher_, other.launcher_);
  std::swap(worker_, other.worker_);
  std::swap(output_bytes_, other.output_bytes_);
  std::swap(output_tail_, other.output_tail_);
  std::swap(started_, other.started_);
  std::swap(confinement_, other.confinement_);
  std::swap(resources_, other.resources_);
  return *this;
}

Worker::~Worker() { kill_all(); }

void Worker::kill_all() {
  if (launcher_ > 0) {
    // The worker's first process ends its namespace; where there is none, the group is what is left to name.
    if (worker_ > 0) kill(worker_, SIGKILL);
    kill(-launcher_, SIGKILL);
    kill(launcher_, SIGKILL);
    int status = 0;
    while (waitpid(launcher_, &status, 0) < 0 && errno == EINTR) {
    }
    launcher_ = worker_ = -1;
  }
  for (int* fd : {&socket_, &output_})
    if (*fd >= 0) close(std::exchange(*fd, -1));
}

Result<Worker> Worker::start(const WorkerOptions& options, const Arena& inputs, const Arena& outputs) {
  Worker worker;
  Setup setup;
  if (options.module.size() >= sizeof setup.module || options.symbol.size() >= sizeof setup.symbol)
    return Status(StatusCode::internal_error, "a path or a name is too long for a worker");
  std::memcpy(setup.module, options.module.data(), options.module.size());
  std::memcpy(setup.symbol, options.symbol.data(), options.symbol.size());
  std::vector<Region> regions;
  for (std::size_t i = 0; i < inputs.count(); ++i) regions.push_back(inputs.region(i));
  for (std::size_t i = 0; i < outputs.count(); ++i) regions.push_back(outputs.region(i));
  if (regions.size() > most_regions)
    return Status(StatusCode::internal_error, "too many buffers for a worker");
  setup.region_count = static_cast<std::int32_t>(regions.size());
  setup.cores = options.cores;
  setup.entry = options.entry;
  setup.device = options.device;
  worker.arrays_bytes_ = inputs.file_bytes() + outputs.file_bytes();
  worker.memory_bytes_ = options.memory_bytes;
  // Address space is no memory: libraries reserve much of it. What is resident is watched besides.
  setup.limits.memory_bytes =
      static_cast<std::uint64_t>(worker.arrays_bytes_ + options.memory_bytes) + (std::uint64_t{4} << 30);
  if (on_device(options.entry)) {
    // The driver reserves far more address space than there is memory, and dies of a limit on files.
    setup.limits.memory_bytes = 0;
    setup.limits.file_bytes = std::uint64_t{1} << 30;
    setup.limits.read_only_files = false;
    worker.memory_bytes_ = std::max(options.memory_bytes, std::int64_t{8} << 30);
  }
  setup.limits.cpu_seconds = 900;
  setup.limits.processes = 256;
  setup.limits.user = options.user;

  int sockets[2], pipes[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) return environment("socket");
  worker.socket_ = sockets[0];
  if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK) != 0) {
    close(sockets[1]);
    return environment("pipe");
  }
  worker.output_ = pipes[0];
  fcntl(pipes[1], F_SETFL, fcntl(pipes[1], F_GETFL) & ~O_NONBLOCK);
  const int on = 1;
  // The system itself says which process a message is from, in this process's numbers.
  setsockopt(worker.socket_, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t child = fork();
  if (child == 0) become_worker(sockets[1], inputs.descriptor(), outputs.descriptor(), null, pipes[1]);
  close(sockets[1]);
  close(pipes[1]);
  if (null >= 0) close(null);
  if (child < 0) return environment("fork");
  worker.launcher_ = child;
  setpgid(child, child);
  (void)send(worker.socket_, &setup, sizeof setup, MSG_NOSIGNAL);
  (void)send(worker.socket_, regions.data(), regions.size() * sizeof(Region), MSG_NOSIGNAL);
  worker.started_ = worker.wait(options.start_seconds, Clock::now());
  return worker;
}

void Worker::read_output(Outcome& outcome) {
  char buffer[4096];
  ssize_t bytes = 0;
  while (output_ >= 0 && (bytes = read(output_, buffer, sizeof buffer)) > 0) {
    output_bytes_ += static_cast<std::size_t>(bytes);
    output_tail_.append(buffer, static_cast<std::size_t>(bytes));
    if (output_tail_.size() > kept_output) output_tail_.erase(0, output_tail_.size() - kept_output);
    if (output_bytes_ > most_output) outcome.ending = Ending::flooded;
    if (outcome.ending == Ending::flooded) break;
  }
  outcome.output = output_tail_;
}

std::optional<Worker::Memory> Worker::memory() const {
  if (worker_ <= 0) return std::nullopt;
  char path[64], text[4096];
  std::snprintf(path, sizeof path, "/proc/%d/status", worker_);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  const ssize_t bytes = read(file, text, sizeof text);
  close(file);
  if (bytes <= 0) return std::nullopt;
  const std::string status(text, static_cast<std::size_t>(bytes));
  const auto now = status_bytes(status, "VmRSS"), peak = status_bytes(status, "VmHWM");
  if (!now || !peak) return std::nullopt;
  return Memory{*now, *peak};
}

// Until the worker says how it went, or until it may no longer.
Outcome Worker::wait(double seconds, Clock::time_point since) {
  Outcome outcome;
  bool settled = false, expecting_end = false;
  const auto end_with = [&](Ending ending) {
    outcome.ending = ending;
    settled = true;
  };
  while (!settled) {
    const double left = seconds - seconds_since(since);
    if (left <= 0) {
      end_with(expecting_end ? outcome.ending : Ending::hung);
      break;
    }
    pollfd fds[2] = {{socket_, POLLIN, 0}, {output_, POLLIN, 0}};
    // Long calls are looked after: memory may run away meanwhile.
    const int milliseconds = std::clamp(static_cast<int>(left * 1e3) + 1, 1, 50);
    const int ready = poll(fds, output_ >= 0 ? 2 : 1, milliseconds);
    if (ready < 0 && errno != EINTR) {
      end_with(Ending::crashed);
      break;
    }
    if (ready == 0) {
      const auto now = memory();
      if (now && now->now > arrays_bytes_ + memory_bytes_) end_with(Ending::memory);
      continue;
    }
    if (fds[0].revents != 0) {
      Message message;
      alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
      iovec part{&message, sizeof message};
      msghdr header{};
      header.msg_iov = &part;
      header.msg_iovlen = 1;
      header.msg_control = control;
      header.msg_controllen = sizeof control;
      const ssize_t bytes = recvmsg(socket_, &header, 0);
      const double when = seconds_since(since);
      if (bytes == 0 || (bytes < 0 && errno != EINTR)) {
        if (!expecting_end) outcome.ending = Ending::crashed;
        settled = true;
        break;
      }
      if (bytes != static_cast<ssize_t>(sizeof message)) {
        end_with(Ending::forged);
        break;
      }
      switch (message.kind) {
        case Kind::ready:
          if (worker_ > 0) {
            end_with(Ending::forged);
            break;
          }
          for (cmsghdr* c = CMSG_FIRSTHDR(&header); c; c = CMSG_NXTHDR(&header, c))
            if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS) {
              ucred sender{};
              std::memcpy(&sender, CMSG_DATA(c), sizeof sender);
              worker_ = sender.pid;
            }
          confinement_ = message.confinement;
          resources_ = message.resources;
          end_with(Ending::returned);
          break;
        case Kind::not_loaded:
          end_with(Ending::not_loaded);
          message.text[sizeof message.text - 1] = '\0';
          outcome.output = message.text;
          kill_all();
          return outcome;
        case Kind::done:
          outcome.seconds = when;
          outcome.returned = message.returned;
          outcome.memory_bytes = message.memory_bytes;
          end_with(message.returned == 0 ? Ending::returned : Ending::refused);
          break;
        case Kind::fault:
          if (message.region >= 0) outcome.fault_region = message.region;
          outcome.fault_byte = message.byte;
          outcome.ending = Ending::crashed;
          outcome.signal = message.signal;
          expecting_end = true;
          break;
        case Kind::device_error:
          message.text[sizeof message.text - 1] = '\0';
          outcome.device_error = message.text;
          outcome.ending = Ending::crashed;
          expecting_end = true;
          break;
        case Kind::ended:
          outcome.ending = Ending::crashed;
          if (WIFSIGNALED(message.status)) outcome.signal = WTERMSIG(message.status);
          if (WIFEXITED(message.status)) outcome.exit_status = WEXITSTATUS(message.status);
          settled = true;
          break;
        default:
          end_with(Ending::forged);
      }
    }
    if (fds[1].revents != 0) {
      Outcome printed;
      read_output(printed);
      if (printed.ending == Ending::flooded) end_with(Ending::flooded);
      if ((fds[1].revents & (POLLHUP | POLLERR)) != 0 && (fds[1].revents & POLLIN) == 0 && output_ >= 0)
        close(std::exchange(output_, -1));
    }
  }
  Outcome printed;
  read_output(printed);
  outcome.output = printed.output;
  if (printed.ending == Ending::flooded) outcome.ending = Ending::flooded;
  if (!outcome.alive()) kill_all();
  return outcome;
}

Outcome Worker::settle() {
  Outcome outcome;
  char byte = 0;
  if (recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0) {
    read_output(outcome);
  } else {
    // The end of the process is the only thing that may come by itself.
    outcome = wait(1, Clock::now());
    if (outcome.alive()) outcome.ending = Ending::forged;
  }
  if (!outcome.alive()) kill_all();
  return outcome;
}

Outcome Worker::call(const std::vector<Call>& calls, double seconds) {
  // Nothing may be waiting before the question was asked.
  Outcome outcome = settle();
  if (!outcome.alive()) return outcome;
  const Clock::time_point begin = Clock::now();
  if (send(socket_, calls.data(), calls.size() * sizeof(Call), MSG_NOSIGNAL) < 0) {
    outcome = wait(1, begin);
    if (outcome.alive()) outcome.ending = Ending::crashed;
    kill_all();
    return outcome;
  }
  return wait(seconds, begin);
}

}  // namespace runmax::judge
