#include "files/output_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>

namespace runmax::files {
namespace {

namespace fs = std::filesystem;

Status failed(const std::string& path, const char* what, int error) {
  return {StatusCode::invalid_argument, path + ": " + what + ": " + std::generic_category().message(error)};
}

// Hidden files that a signal must remove. The handler may use nothing that allocates or locks.
class SignalCleanup {
 public:
  static constexpr std::size_t most_files = 8;

  // False if all slots are taken or the name is too long.
  static bool watch(const std::string& path) {
    for (Slot& slot : slots) {
      if (slot.used.load() || path.size() >= slot.path.size()) continue;
      std::memcpy(slot.path.data(), path.c_str(), path.size() + 1);
      if (watched++ == 0) install();
      slot.used.store(true);
      return true;
    }
    return false;
  }

  static void forget(const std::string& path) {
    for (Slot& slot : slots) {
      if (!slot.used.load() || path != slot.path.data()) continue;
      slot.used.store(false);
      if (--watched == 0) restore();
    }
  }

  // While `wait`, a signal is only remembered; it takes effect when the wait ends.
  static void defer(bool wait) {
    deferring.store(wait);
    if (const int signal = wait ? 0 : deferred.exchange(0)) handle(signal);
  }

 private:
  struct Slot {
    std::atomic<bool> used;
    std::array<char, 4096> path;
  };
  static constexpr std::array<int, 3> signals{SIGINT, SIGTERM, SIGHUP};

  static void handle(int signal) {
    if (deferring.load()) {
      deferred.store(signal);
      return;
    }
    for (Slot& slot : slots)
      if (slot.used.load()) ::unlink(slot.path.data());
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }

  static void install() {
    for (std::size_t i = 0; i < signals.size(); ++i) {
      struct sigaction action = {};
      action.sa_handler = handle;
      ::sigaction(signals[i], nullptr, &previous[i]);
      // nohup and the like: an ignored signal stays ignored.
      if (previous[i].sa_handler != SIG_IGN) ::sigaction(signals[i], &action, nullptr);
    }
  }

  static void restore() {
    for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &previous[i], nullptr);
  }

  static inline std::array<Slot, most_files> slots;
  static inline std::array<struct sigaction, signals.size()> previous;
  static inline int watched = 0;
  static inline std::atomic<bool> deferring{false};
  static inline std::atomic<int> deferred{0};
};

// A file size limit (ulimit -f) shall fail the write, not kill the program.
class IgnoreFileSizeSignal {
 public:
  IgnoreFileSizeSignal() {
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGXFSZ, &ignore, &previous_);
  }
  ~IgnoreFileSizeSignal() { ::sigaction(SIGXFSZ, &previous_, nullptr); }
  IgnoreFileSizeSignal(const IgnoreFileSizeSignal&) = delete;
  IgnoreFileSizeSignal& operator=(const IgnoreFileSizeSignal&) = delete;

 private:
  struct sigaction previous_;
};

std::string directory_of(const std::string& path) {
  const std::string directory = fs::path(path).parent_path().string();
  return directory.empty() ? "." : directory;
}

std::string hidden_name(const std::string& destination) {
  std::random_device random;
  constexpr char digits[] = "0123456789abcdef";
  std::string name = directory_of(destination) + "/.runmax-";
  for (int word = 0; word < 2; ++word)
    for (unsigned bits = random(), i = 0; i < 8; ++i, bits >>= 4) name += digits[bits & 15];
  return name + ".tmp";
}

// The error number of the first failure, or 0.
int write_all(int file, const std::vector<Bytes>& pieces) {
  const IgnoreFileSizeSignal ignore;
  constexpr std::size_t chunk = std::size_t{1} << 26;
  for (Bytes rest : pieces)
    while (!rest.empty()) {
      const ssize_t wrote = ::write(file, rest.data(), std::min(rest.size(), chunk));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return errno;
      rest = rest.subspan(static_cast<std::size_t>(wrote));
    }
  return ::fsync(file) == 0 ? 0 : errno;
}

// A rename survives a crash of the machine only when its directory is synced too. Some file systems cannot.
void sync_directory(const std::string& directory) {
  const int handle = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return;
  (void)::fsync(handle);
  ::close(handle);
}

// Keeps what stands at `destination` under the name `kept`, in place if the file system has hard links.
bool keep_old(const std::string& destination, const std::string& kept) {
  return ::link(destination.c_str(), kept.c_str()) == 0 || ::rename(destination.c_str(), kept.c_str()) == 0;
}

}  // namespace

Status check_destination(const std::string& path) {
  const std::string directory = directory_of(path);
  struct stat facts;
  if (::stat(directory.c_str(), &facts) != 0) return failed(path, "the directory cannot be used", errno);
  if (!S_ISDIR(facts.st_mode)) return failed(path, "the directory cannot be used", ENOTDIR);
  if (::access(directory.c_str(), W_OK | X_OK) != 0)
    return failed(path, "the directory cannot be written to", errno);
  if (::stat(path.c_str(), &facts) != 0)
    return errno == ENOENT ? Status() : failed(path, "cannot be examined", errno);
  if (!S_ISREG(facts.st_mode))
    return {StatusCode::invalid_argument, path + ": exists and is not a regular file"};
  if (::access(path.c_str(), W_OK) != 0) return failed(path, "cannot be replaced", errno);
  return {};
}

OutputFiles::~OutputFiles() { discard(); }

void OutputFiles::discard() {
  for (const File& file : files_) {
    ::unlink(file.hidden.c_str());
    SignalCleanup::forget(file.hidden);
  }
  files_.clear();
}

Status OutputFiles::add(const std::string& path, const std::vector<Bytes>& pieces) {
  if (!failure_.ok()) return failure_;
  failure_ = write(path, pieces);
  if (!failure_.ok()) discard();
  return failure_;
}

Status OutputFiles::write(const std::string& path, const std::vector<Bytes>& pieces) {
  if (Status status = check_destination(path); !status.ok()) return status;
  std::error_code error;
  // Writing to a symbolic link replaces what it points to, not the link.
  const fs::path resolved = fs::weakly_canonical(path, error);
  const std::string destination = error ? path : resolved.string();
  const std::string hidden = hidden_name(destination);
  if (!SignalCleanup::watch(hidden)) return failed(path, "cannot be created", ENAMETOOLONG);
  files_.push_back({path, destination, hidden});
  // New files get the permissions that the user's umask leaves; a replaced file keeps its own.
  constexpr mode_t everyone = 0666;
  const int file = ::open(hidden.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, everyone);
  if (file < 0) return failed(path, "cannot be created", errno);
  struct stat old;
  if (::stat(destination.c_str(), &old) == 0) (void)::fchmod(file, old.st_mode & 07777);
  int failure = write_all(file, pieces);
  if (::close(file) != 0 && failure == 0) failure = errno;
  if (failure != 0) return failed(path, "cannot be written", failure);
  return {};
}

Status OutputFiles::commit() {
  if (!failure_.ok()) return failure_;
  SignalCleanup::defer(true);
  // With one file the rename alone is atomic; with several, old files are kept until all have been renamed.
  std::vector<std::string> kept(files_.size());
  std::size_t done = 0;
  Status status;
  for (; done < files_.size(); ++done) {
    const File& file = files_[done];
    struct stat old;
    const bool replaces = ::stat(file.destination.c_str(), &old) == 0;
    if (replaces && !S_ISREG(old.st_mode)) {
      status = {StatusCode::invalid_argument, file.path + ": cannot be replaced: is not a regular file"};
      break;
    }
    if (replaces && files_.size() > 1) {
      const std::string name = hidden_name(file.destination);
      if (!keep_old(file.destination, name)) {
        status = failed(file.path, "cannot be replaced", errno);
        break;
      }
      kept[done] = name;
    }
    if (::rename(file.hidden.c_str(), file.destination.c_str()) != 0) {
      status = failed(file.path, "cannot be renamed into place", errno);
      break;
    }
  }
  if (!status.ok()) {
    // The file that failed has no new content, but its old one may have been moved away.
    for (std::size_t i = 0; i < files_.size(); ++i) {
      const char* const destination = files_[i].destination.c_str();
      if (!kept[i].empty()) {
        (void)::rename(kept[i].c_str(), destination);
        // Renaming one hard link over another of the same file does nothing.
        ::unlink(kept[i].c_str());
      } else if (i < done) {
        ::unlink(destination);
      }
    }
  } else {
    for (std::size_t i = 0; i < files_.size(); ++i) {
      if (!kept[i].empty()) ::unlink(kept[i].c_str());
      sync_directory(directory_of(files_[i].destination));
    }
    for (const File& file : files_) SignalCleanup::forget(file.hidden);
    files_.clear();
  }
  discard();
  SignalCleanup::defer(false);
  return status;
}

}  // namespace runmax::files
