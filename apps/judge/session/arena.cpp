#include "judge/session/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace runmax::judge {
namespace {

// A NaN that nobody computes, and whose bytes differ from one another.
constexpr std::uint32_t band = 0x7fc5a39bu;

std::int64_t round_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

#if !defined(F_SEAL_FUTURE_WRITE)
constexpr int F_SEAL_FUTURE_WRITE = 0x0010;
#endif

}  // namespace

Result<Arena> Arena::make(Use use, const std::vector<Wanted>& wanted) {
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  Arena arena;
  for (const Wanted& one : wanted) {
    Buffer buffer;
    buffer.bytes = one.bytes;
    const std::int64_t align = std::max<std::int64_t>(one.align, 4);
    if (one.placement == Placement::odd) buffer.base = round_up(256, align) + 3 * align;
    buffer.region.bytes = round_up(std::max<std::int64_t>(buffer.base + one.bytes, 1), page);
    if (one.placement == Placement::odd && buffer.region.bytes - buffer.base - one.bytes < 256)
      buffer.region.bytes += page;
    if (one.placement == Placement::back) buffer.base = (buffer.region.bytes - one.bytes) / align * align;
    const std::int64_t margin = round_up(one.margin, page);
    buffer.base += margin;
    buffer.region.bytes += 2 * margin;
    buffer.region.offset = arena.file_bytes_;
    buffer.region.writable = use == Use::outputs ? 1 : 0;
    arena.file_bytes_ += buffer.region.bytes;
    arena.buffers_.push_back(buffer);
  }
  const auto fail = [&](const char* what) {
    return Status(StatusCode::out_of_memory,
                  std::string(what) + " of " + std::to_string(arena.file_bytes_) +
                      " bytes for the candidate's arrays: " + std::strerror(errno));
  };
  arena.descriptor_ = memfd_create("arrays", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (arena.descriptor_ < 0) return fail("shared memory");
  if (ftruncate(arena.descriptor_, arena.file_bytes_) != 0) return fail("shared memory");
  void* memory = mmap(nullptr, static_cast<std::size_t>(std::max<std::int64_t>(arena.file_bytes_, 1)),
                      PROT_READ | PROT_WRITE, MAP_SHARED, arena.descriptor_, 0);
  if (memory == MAP_FAILED) return fail("mapping");
  arena.memory_ = static_cast<char*>(memory);
  // Nobody can cut the file short under the judge; and inputs take no new writable mapping.
  const int seals =
      F_SEAL_SHRINK | F_SEAL_GROW | (use == Use::inputs ? F_SEAL_FUTURE_WRITE : 0) | F_SEAL_SEAL;
  if (fcntl(arena.descriptor_, F_ADD_SEALS, seals) != 0) return fail("sealing");
  for (std::size_t i = 0; i < arena.count(); ++i) arena.fill_bands(i);
  return arena;
}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(memory_, other.memory_);
  std::swap(file_bytes_, other.file_bytes_);
  std::swap(buffers_, other.buffers_);
  return *this;
}

Arena::~Arena() {
  if (memory_) munmap(memory_, static_cast<std::size_t>(std::max<std::int64_t>(file_bytes_, 1)));
  if (descriptor_ >= 0) close(descriptor_);
}

// Words of 4 bytes; buffers begin and end at such. The last bytes of one whose size is no multiple are its
// own.
template <class Visit>
void Arena::each_band_word(std::size_t i, Visit visit) const {
  const Buffer& buffer = buffers_[i];
  char* const region = memory_ + buffer.region.offset;
  for (std::int64_t at = 0; at + 4 <= buffer.base; at += 4)
    if (!visit(reinterpret_cast<std::uint32_t*>(region + at), at - buffer.base)) return;
  for (std::int64_t at = round_up(buffer.base + buffer.bytes, 4); at + 4 <= buffer.region.bytes; at += 4)
    if (!visit(reinterpret_cast<std::uint32_t*>(region + at), at - buffer.base)) return;
}

void Arena::fill_bands(std::size_t i) const {
  each_band_word(i, [](std::uint32_t* word, std::int64_t) {
    *word = band;
    return true;
  });
}

std::optional<std::int64_t> Arena::touched_band(std::size_t i) const {
  std::optional<std::int64_t> touched;
  each_band_word(i, [&](const std::uint32_t* word, std::int64_t at) {
    if (*word == band) return true;
    touched = at;
    return false;
  });
  return touched;
}

}  // namespace runmax::judge
