#include "judge/confine/confine.hpp"

#include <fcntl.h>
#include <grp.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace runmax::judge {
namespace {

struct GuardWords {
  std::string_view name, purpose;
};
constexpr std::array<GuardWords, guard_count> words{{
    {"user", "an unprivileged user id of its own"},
    {"no new privileges", "nothing it executes gains any"},
    {"pid namespace", "it sees and signals its own processes alone, and they end with it"},
    {"network namespace", "no network"},
    {"ipc namespace", "no System V memory shared with others"},
    {"read-only files", "the file system cannot be written to"},
    {"address space", "a limit on memory"},
    {"processes", "a limit on processes and threads"},
    {"file size", "a limit on what it writes to files"},
    {"cpu time", "a limit beside the clock on the wall"},
}};

int unless(bool good) { return good ? 0 : errno; }

bool write_file(const char* path, const char* text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const auto size = static_cast<ssize_t>(std::strlen(text));
  const bool written = write(file, text, static_cast<std::size_t>(size)) == size;
  close(file);
  return written;
}

// Without privileges, namespaces need a user namespace first, in which the user stays who it is.
bool enter_user_namespace() {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(CLONE_NEWUSER) != 0) return false;
  char line[64];
  write_file("/proc/self/setgroups", "deny");
  std::snprintf(line, sizeof line, "%u %u 1", user, user);
  write_file("/proc/self/uid_map", line);
  std::snprintf(line, sizeof line, "%u %u 1", group, group);
  write_file("/proc/self/gid_map", line);
  return true;
}

// From Linux 5.14 on a limit of processes counts those of the user namespace alone.
bool namespaces_count_processes() {
  utsname system{};
  int major = 0, minor = 0;
  return uname(&system) == 0 && std::sscanf(system.release, "%d.%d", &major, &minor) == 2 &&
         (major > 5 || (major == 5 && minor >= 14));
}

int limit(int resource, std::uint64_t value) {
  rlimit wanted{value, value}, now{};
  // A hard limit that is lower already is as good.
  if (getrlimit(static_cast<__rlimit_resource>(resource), &now) == 0 && now.rlim_max < value)
    wanted.rlim_cur = wanted.rlim_max = now.rlim_max;
  return unless(setrlimit(static_cast<__rlimit_resource>(resource), &wanted) == 0);
}

int make_files_read_only() {
#if defined(SYS_mount_setattr) && defined(MOUNT_ATTR_RDONLY)
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  return unless(
      syscall(SYS_mount_setattr, -1, "/", 0x8000 /* AT_RECURSIVE */, &attributes, sizeof attributes) == 0);
#else
  return ENOSYS;
#endif
}

int become(uid_t user) {
  if (user == 0) return EPERM;
  return unless(setgroups(0, nullptr) == 0 && setresgid(user, user, user) == 0 &&
                setresuid(user, user, user) == 0);
}

}  // namespace

std::string_view guard_name(Guard guard) { return words[static_cast<std::size_t>(guard)].name; }
std::string_view guard_purpose(Guard guard) { return words[static_cast<std::size_t>(guard)].purpose; }

void separate(Processes processes, Confinement& c) {
  if (geteuid() != 0) c.user_namespace = enter_user_namespace() ? 1 : 0;
  c[Guard::own_network] = unless(unshare(CLONE_NEWNET) == 0);
  c[Guard::own_ipc] = unless(unshare(CLONE_NEWIPC) == 0);
  c[Guard::read_only_files] = unless(unshare(CLONE_NEWNS) == 0);
  if (c[Guard::read_only_files] == 0)
    c[Guard::read_only_files] = unless(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
  c[Guard::own_processes] = processes == Processes::shared ? -1 : unless(unshare(CLONE_NEWPID) == 0);
}

void confine(const Limits& limits, Confinement& c) {
  if (!limits.read_only_files)
    c[Guard::read_only_files] = -1;
  else if (c[Guard::read_only_files] == 0)
    c[Guard::read_only_files] = make_files_read_only();
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_NOFILE, 256);
  c[Guard::memory] = limits.memory_bytes == 0 ? -1 : limit(RLIMIT_AS, limits.memory_bytes);
  c[Guard::files] = limit(RLIMIT_FSIZE, limits.file_bytes);
  c[Guard::cpu_time] = limit(RLIMIT_CPU, limits.cpu_seconds);
  c[Guard::no_privileges] = unless(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  c[Guard::user] = become(limits.user);
  // The limit counts all processes of a user. One who shares an id with the person at the keyboard would be
  // refused its first thread, or leave that person none, so it stands only with an id or a namespace of its
  // own.
  const bool counted_alone = c[Guard::user] == 0 || (c.user_namespace == 1 && namespaces_count_processes());
  c[Guard::processes] = counted_alone ? limit(RLIMIT_NPROC, limits.processes) : c[Guard::user];
}

}  // namespace runmax::judge
