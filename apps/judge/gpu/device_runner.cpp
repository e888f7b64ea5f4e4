// Candidates on a GPU: the worker's arrays have a twin in the device's memory, bands included, so that
// whatever is looked at afterwards is looked at in the judge, as for a function on host arrays.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>

#include "files/input_file.hpp"
#include "judge/candidate/device_code.hpp"
#include "judge/gpu/device_memory.hpp"
#include "judge/worker/runner.hpp"

namespace runmax::judge {
namespace {

std::string words(cudaError_t error, const char* doing) {
  return error == cudaSuccess ? "" : std::string(doing) + ": " + cudaGetErrorString(error);
}

constexpr Operand inputs[] = {Operand::q, Operand::k, Operand::v};
constexpr Operand echoes[] = {Operand::seen_q, Operand::seen_k, Operand::seen_v};
constexpr Operand outputs[] = {Operand::o, Operand::lse, Operand::workspace};

const Place& place(const Call& call, Operand operand) {
  return call.arrays[static_cast<std::size_t>(operand)];
}

class DeviceRunner : public Runner {
 public:
  explicit DeviceRunner(const Setup& setup) : setup_(setup) {}
  ~DeviceRunner() override { (void)cudaFree(twin_); }

  std::string take(const Arrays& arrays) override {
    arrays_ = &arrays;
    if (std::string no = begin(); !no.empty()) return no;
    std::int64_t bytes = 0;
    for (const Mapped& array : arrays) {
      offsets_.push_back(bytes);
      bytes += (array.bytes + 255) / 256 * 256;
    }
    return words(cudaMalloc(&twin_, static_cast<std::size_t>(bytes)), "memory for the arrays");
  }

  Ran run(std::span<const Call> calls) override {
    Ran ran;
    cudaError_t error = upload(calls);
    std::unique_ptr<DeviceMemoryWatch> watch;
    if (error == cudaSuccess && !calls.empty() && calls[0].watch_memory != 0)
      watch = std::make_unique<DeviceMemoryWatch>(memory_sources());
    for (const Call& call : calls) {
      if (error != cudaSuccess) break;
      error = enter(call, ran.returned);
      ++ran.calls;
      if (ran.returned != 0) break;
    }
    // Of the whole device: whatever stream the work was put into.
    const cudaError_t finished = cudaDeviceSynchronize();
    if (error == cudaSuccess) error = finished;
    if (watch && error == cudaSuccess) ran.memory_bytes = watch->end();
    if (error == cudaSuccess) error = cudaGetLastError();
    if (error == cudaSuccess) error = download(calls);
    ran.device_error = error == cudaSuccess ? "" : cudaGetErrorString(error);
    return ran;
  }

 protected:
  // Enqueues one call on the stream.
  virtual cudaError_t enter(const Call& call, std::int32_t& returned) = 0;
  virtual DeviceMemoryWatch::Sources memory_sources() const { return {}; }

  float* floats(const Call& call, Operand operand) const {
    const Place& at = place(call, operand);
    return at.region < 0 ? nullptr : reinterpret_cast<float*>(device_begin(at.region) + at.byte);
  }
  const Setup& setup() const { return setup_; }
  cudaStream_t stream() const { return stream_; }

 private:
  cudaError_t upload(std::span<const Call> calls) {
    cudaError_t error = cudaSuccess;
    for (const Call& call : calls)
      for (const auto& operands : {inputs, outputs})
        for (std::size_t i = 0; i < 3; ++i) {
          const Operand operand = operands[i];
          const std::int32_t region = place(call, operand).region;
          if (region < 0 || error != cudaSuccess) continue;
          const Mapped& host = (*arrays_)[static_cast<std::size_t>(region)];
          error = cudaMemcpyAsync(device_begin(region), host.begin, static_cast<std::size_t>(host.bytes),
                                  cudaMemcpyHostToDevice, stream_);
        }
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
    return error;
  }

  cudaError_t download(std::span<const Call> calls) {
    cudaError_t error = cudaSuccess;
    const auto fetch = [&](const Place& from, const Place& to) {
      if (from.region < 0 || to.region < 0 || error != cudaSuccess) return;
      const Mapped& host = (*arrays_)[static_cast<std::size_t>(to.region)];
      error = cudaMemcpyAsync(host.begin, device_begin(from.region), static_cast<std::size_t>(host.bytes),
                              cudaMemcpyDeviceToHost, stream_);
    };
    for (const Call& call : calls) {
      for (const Operand operand : outputs) fetch(place(call, operand), place(call, operand));
      for (std::size_t i = 0; i < 3; ++i) fetch(place(call, inputs[i]), place(call, echoes[i]));
    }
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream_);
    return error;
  }

  char* device_begin(std::int32_t region) const {
    return static_cast<char*>(twin_) + offsets_[static_cast<std::size_t>(region)];
  }

  // The device's context, while the process may still open its files.
  std::string begin() {
    if (stream_) return "";
    cudaError_t error = cudaSetDevice(setup_.device);
    if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    return words(error, "the GPU");
  }

  Setup setup_;
  const Arrays* arrays_ = nullptr;
  std::vector<std::int64_t> offsets_;
  void* twin_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

// A kernel of a cubin, launched with the geometry that comes with the call.
class KernelRunner : public DeviceRunner {
 public:
  using DeviceRunner::DeviceRunner;

  std::string load(Resources& resources) override {
    Result<files::FileBytes> file = files::read_file(setup().module);
    if (!file.ok()) return file.status().message();
    const files::Bytes bytes = file.value().bytes();
    image_.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    Result<DeviceCode> code = read_device_code(image_);
    if (!code.ok()) return "the cubin " + code.status().message();
    code_ = std::move(code.value());
    cudaError_t error =
        cudaLibraryLoadData(&library_, image_.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (error == cudaSuccess) error = cudaLibraryGetKernel(&kernel_, library_, setup().symbol);
    if (error != cudaSuccess) return words(error, "loading the kernel");
    cudaFuncAttributes attributes{};
    error = cudaFuncGetAttributes(&attributes, kernel_);
    resources.registers = attributes.numRegs;
    resources.static_shared_bytes = static_cast<std::int32_t>(attributes.sharedSizeBytes);
    resources.local_bytes = static_cast<std::int32_t>(attributes.localSizeBytes);
    resources.module_bytes = code_.array_bytes();
    int most = 0;
    if (error == cudaSuccess)
      error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, setup().device);
    most -= resources.static_shared_bytes;
    if (error == cudaSuccess && most > 0)
      error = cudaFuncSetAttribute(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
    return words(error, "asking about the kernel");
  }

 protected:
  cudaError_t enter(const Call& call, std::int32_t&) override {
    const float *q = floats(call, Operand::q), *k = floats(call, Operand::k), *v = floats(call, Operand::v);
    float *o = floats(call, Operand::o), *workspace = floats(call, Operand::workspace);
    int n = static_cast<int>(call.sk);
    void* arguments[] = {&q, &k, &v, &o, &n, &workspace};
    return cudaLaunchKernel(kernel_, dim3(static_cast<unsigned>(call.blocks)),
                            dim3(static_cast<unsigned>(call.threads)), arguments,
                            static_cast<std::size_t>(call.shared_bytes), stream());
  }

  DeviceMemoryWatch::Sources memory_sources() const override {
    DeviceMemoryWatch::Sources sources;
    sources.heap = code_.takes_from_heap;
    for (const DeviceCode::Array& array : code_.arrays) {
      DeviceMemoryWatch::Array found;
      if (cudaLibraryGetGlobal(&found.data, &found.bytes, library_, array.name.c_str()) == cudaSuccess)
        sources.arrays.push_back(found);
    }
    (void)cudaGetLastError();
    return sources;
  }

 private:
  std::string image_;
  DeviceCode code_;
  cudaLibrary_t library_ = nullptr;
  cudaKernel_t kernel_ = nullptr;
};

// A function of a library that launches for itself, in the context and on the stream that it finds.
class FunctionRunner : public DeviceRunner {
 public:
  using DeviceRunner::DeviceRunner;

  std::string load(Resources&) override {
    std::string complaint;
    function_ = load_function(setup().module, setup().symbol, complaint);
    return complaint;
  }

 protected:
  cudaError_t enter(const Call& c, std::int32_t& returned) override {
    returned = function_(floats(c, Operand::q), floats(c, Operand::k), floats(c, Operand::v),
                         floats(c, Operand::o), floats(c, Operand::lse), c.batch, c.heads, c.kv_heads, c.sq,
                         c.sk, c.d, c.scale, c.causal, floats(c, Operand::workspace), stream());
    return cudaSuccess;
  }
  DeviceMemoryWatch::Sources memory_sources() const override { return {{}, true, true}; }

 private:
  Function function_ = nullptr;
};

}  // namespace

std::unique_ptr<Runner> make_device_runner(const Setup& setup) {
  switch (setup.entry) {
    case Entry::device_function:
      return std::make_unique<FunctionRunner>(setup);
    case Entry::device_kernel:
      return std::make_unique<KernelRunner>(setup);
    case Entry::host_function:
      break;
  }
  return nullptr;
}

}  // namespace runmax::judge
