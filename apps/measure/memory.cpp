#include "measure/memory.hpp"

#include <sys/mman.h>

#include <cstring>
#include <fstream>
#include <string>

#include "runtime/cuda_runtime.hpp"

namespace runmax::measure {
namespace {

// A field of /proc/self/status in bytes ("VmHWM", "VmRSS").
std::optional<std::int64_t> own_memory(const std::string& field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.rfind(field + ":", 0) == 0) return std::stoll(line.substr(field.size() + 1)) * 1024;
  return std::nullopt;
}

// Makes the peak resident set start again from the present one.
bool reset_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return static_cast<bool>(file);
}

std::optional<std::int64_t> gpu_free_bytes(Device device) {
  Result<DeviceFacts> facts = device_facts(device);
  if (!facts.ok()) return std::nullopt;
  return facts.value().free_bytes;
}

}  // namespace

Buffer::~Buffer() {
  if (!data_) return;
  if (device_.kind == DeviceKind::cuda)
    cuda_free(device_.index, data_);
  else
    munmap(data_, bytes_);
  ledger_->give(bytes_);
}

Result<Buffer> Buffer::allocate(Device device, std::size_t bytes, MemoryLedger& ledger) {
  Buffer buffer;
  buffer.device_ = device;
  buffer.ledger_ = &ledger;
  if (bytes == 0) return buffer;
  if (device.kind == DeviceKind::cuda) {
    Result<void*> data = cuda_allocate(device.index, bytes);
    if (!data.ok()) return data.status();
    buffer.data_ = data.value();
  } else {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
      return Status(StatusCode::out_of_memory, "cpu: cannot allocate " + std::to_string(bytes) + " bytes");
    buffer.data_ = data;
  }
  buffer.bytes_ = bytes;
  ledger.take(bytes);
  return buffer;
}

Status Buffer::from_host(const void* host, std::size_t bytes) const {
  if (device_.kind == DeviceKind::cuda) return cuda_copy_to_device(device_.index, data_, host, bytes);
  std::memcpy(data_, host, bytes);
  return {};
}

Status Buffer::to_host(void* host, std::size_t bytes) const {
  if (device_.kind == DeviceKind::cuda) return cuda_copy_to_host(device_.index, host, data_, bytes);
  std::memcpy(host, data_, bytes);
  return {};
}

SystemMemoryWatch::SystemMemoryWatch(Device device) : device_(device) {
  if (device.kind == DeviceKind::cuda)
    before_ = gpu_free_bytes(device);
  else if (reset_peak())
    before_ = own_memory("VmRSS");
}

std::optional<std::int64_t> SystemMemoryWatch::rise() const {
  if (!before_) return std::nullopt;
  if (device_.kind == DeviceKind::cuda) {
    const std::optional<std::int64_t> now = gpu_free_bytes(device_);
    return now ? std::optional(*before_ - *now) : std::nullopt;
  }
  const std::optional<std::int64_t> peak = own_memory("VmHWM");
  return peak ? std::optional(*peak - *before_) : std::nullopt;
}

}  // namespace runmax::measure
