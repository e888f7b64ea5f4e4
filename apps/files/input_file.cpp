#include "files/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <system_error>

namespace runmax::files {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

Status failed(const char* what) {
  return {StatusCode::invalid_argument, std::string(what) + ": " + std::generic_category().message(errno)};
}

}  // namespace

std::uint64_t physical_memory_bytes() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

Result<FileBytes> read_file(const std::string& path) {
  // O_NONBLOCK: opening a pipe without a writer must not wait.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) return failed("cannot be opened");
  struct stat facts;
  if (::fstat(file.number(), &facts) != 0) return failed("cannot be examined");
  if (!S_ISREG(facts.st_mode)) return Status(StatusCode::invalid_argument, "is not a regular file");
  const auto size = static_cast<std::size_t>(facts.st_size);
  if (size > physical_memory_bytes())
    return Status(StatusCode::invalid_argument, "is larger (" + std::to_string(size) +
                                                    " bytes) than this machine's memory (" +
                                                    std::to_string(physical_memory_bytes()) + " bytes)");
  std::unique_ptr<std::byte[]> data(new (std::nothrow) std::byte[size]);
  if (!data)
    return Status(StatusCode::out_of_memory, "cannot allocate its " + std::to_string(size) + " bytes");
  std::size_t have = 0;
  while (have < size) {
    const ssize_t got = ::read(file.number(), data.get() + have, size - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("cannot be read");
    if (got == 0)
      return Status(StatusCode::invalid_argument, "shrank while it was read: " + std::to_string(size) +
                                                      " bytes at first, then " + std::to_string(have));
    have += static_cast<std::size_t>(got);
  }
  return FileBytes(std::move(data), size);
}

}  // namespace runmax::files
