// Stands in for cuda_runtime.cpp in a build without CUDA.
#include "runtime/cuda_runtime.hpp"

namespace runmax {
namespace {

Status absent() { return {StatusCode::no_device, "cuda: this library was built without CUDA (no nvcc)"}; }

}  // namespace

CurrentDevice::CurrentDevice(int) : status_(absent()) {}
CurrentDevice::~CurrentDevice() = default;
Result<DeviceFacts> cuda_facts(int) { return absent(); }
Result<void*> cuda_allocate(int, std::size_t) { return absent(); }
void cuda_free(int, void*) {}
Status cuda_synchronize(int, Stream) { return absent(); }
Status cuda_copy_to_device(int, void*, const void*, std::size_t) { return absent(); }
Status cuda_copy_to_host(int, void*, const void*, std::size_t) { return absent(); }

}  // namespace runmax
