// Memory that judge and worker share: one sealed file of the system, cut into buffers that each have pages of
// their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "judge/worker/protocol.hpp"
#include "runmax/status.hpp"

namespace runmax::judge {

// Where a buffer lies in its pages. front: it begins where they begin, so that one byte before it faults.
// back: it ends where they end. odd: at an odd multiple of its alignment, with a band on both sides.
enum class Placement { front, back, odd };

struct Wanted {
  std::int64_t bytes = 0;
  Placement placement = Placement::front;
  std::int64_t align = 4;
  std::int64_t margin = 0;  // more bands on either side, in bytes: where no page can be made untouchable
};

class Arena {
 public:
  // inputs: only the judge can write to it, in this process or by any descriptor.
  enum class Use { inputs, outputs };
  static Result<Arena> make(Use use, const std::vector<Wanted>& wanted);

  Arena() = default;
  Arena(Arena&& other) noexcept { *this = std::move(other); }
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  int descriptor() const { return descriptor_; }
  std::size_t count() const { return buffers_.size(); }
  Region region(std::size_t i) const { return buffers_[i].region; }
  std::int64_t base(std::size_t i) const { return buffers_[i].base; }  // of the buffer in its region
  std::int64_t bytes(std::size_t i) const { return buffers_[i].bytes; }
  std::int64_t file_bytes() const { return file_bytes_; }
  char* data(std::size_t i) const { return memory_ + buffers_[i].region.offset + buffers_[i].base; }
  float* floats(std::size_t i) const { return reinterpret_cast<float*>(data(i)); }

  // What lies around a buffer in its pages; a NaN for inputs.
  void fill_bands(std::size_t i) const;
  // The first byte around the buffer that is not what fill_bands wrote, relative to the buffer's beginning.
  std::optional<std::int64_t> touched_band(std::size_t i) const;

 private:
  struct Buffer {
    Region region;
    std::int64_t base = 0, bytes = 0;
  };
  template <class Visit>
  void each_band_word(std::size_t i, Visit visit) const;
  int descriptor_ = -1;
  char* memory_ = nullptr;
  std::int64_t file_bytes_ = 0;
  std::vector<Buffer> buffers_;
};

}  // namespace runmax::judge
