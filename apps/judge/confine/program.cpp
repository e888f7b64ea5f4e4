#include "judge/confine/program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace runmax::judge {
namespace {

constexpr std::size_t most_output = 64 << 10;

}  // namespace

Result<ProgramResult> run_program(const std::vector<std::string>& arguments, const std::string& folder,
                                  const Limits& limits, double seconds) {
  const char* const search = std::getenv("PATH");
  const std::string path = "PATH=" + std::string(search ? search : "/usr/bin:/bin"),
                    temporary = "TMPDIR=" + folder;
  std::vector<char*> words;
  words.reserve(arguments.size() + 1);
  for (const std::string& one : arguments) words.push_back(const_cast<char*>(one.c_str()));
  words.push_back(nullptr);
  char language[] = "LANG=C";
  char* variables[] = {const_cast<char*>(path.c_str()), language, const_cast<char*>(temporary.c_str()),
                       nullptr};

  const auto fail = [&](const char* what) {
    return Status(StatusCode::device_error,
                  std::string("running ") + arguments[0] + ": " + what + ": " + std::strerror(errno));
  };
  int pipes[2];
  if (pipe2(pipes, O_CLOEXEC) != 0) return fail("pipe");
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    dup2(null, 0);
    dup2(pipes[1], 1);
    dup2(pipes[1], 2);
    Confinement confinement;
    if (chdir(folder.c_str()) != 0) _exit(127);
    separate(Processes::shared, confinement);
    confine(limits, confinement);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execvpe(words[0], words.data(), variables);
    _exit(127);
  }
  close(pipes[1]);
  if (null >= 0) close(null);
  if (child < 0) {
    close(pipes[0]);
    return fail("fork");
  }
  setpgid(child, child);

  ProgramResult result;
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    const double left =
        seconds - std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (left <= 0) {
      result.timed_out = true;
      break;
    }
    pollfd waiting{pipes[0], POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(left * 1e3) + 1) <= 0) continue;
    char buffer[4096];
    const ssize_t bytes = read(pipes[0], buffer, sizeof buffer);
    if (bytes <= 0) break;
    if (result.output.size() < most_output) result.output.append(buffer, static_cast<std::size_t>(bytes));
  }
  // The end of its output need not be its own end.
  int status = 0;
  while (!result.timed_out) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) break;
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > seconds)
      result.timed_out = true;
    usleep(1000);
  }
  kill(-child, SIGKILL);
  if (result.timed_out)
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  close(pipes[0]);
  if (WIFEXITED(status)) result.exit_status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

}  // namespace runmax::judge
