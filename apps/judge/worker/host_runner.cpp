// A function of a shared library, on the worker's own addresses.
#include <dlfcn.h>

#include "judge/worker/runner.hpp"

namespace runmax::judge {
namespace {

class HostRunner : public Runner {
 public:
  explicit HostRunner(const Setup& setup) : setup_(setup) {}

  std::string take(const Arrays& arrays) override {
    arrays_ = &arrays;
    return "";
  }
  std::string load(Resources&) override {
    std::string complaint;
    function_ = load_function(setup_.module, setup_.symbol, complaint);
    return complaint;
  }
  Ran run(std::span<const Call> calls) override {
    Ran ran;
    for (const Call& c : calls) {
      const auto floats = [&](Operand operand) {
        return static_cast<float*>(address_of(*arrays_, c.arrays[static_cast<std::size_t>(operand)]));
      };
      ran.returned = function_(floats(Operand::q), floats(Operand::k), floats(Operand::v), floats(Operand::o),
                               floats(Operand::lse), c.batch, c.heads, c.kv_heads, c.sq, c.sk, c.d, c.scale,
                               c.causal, floats(Operand::workspace), nullptr);
      ++ran.calls;
      if (ran.returned != 0) break;
    }
    return ran;
  }

 private:
  Setup setup_;
  const Arrays* arrays_ = nullptr;
  Function function_ = nullptr;
};

}  // namespace

Function load_function(const char* library, const char* symbol, std::string& complaint) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void* address = handle ? dlsym(handle, symbol) : nullptr;
  if (address) return reinterpret_cast<Function>(address);
  const char* error = dlerror();
  complaint = error ? error : "unknown error";
  return nullptr;
}

std::unique_ptr<Runner> make_host_runner(const Setup& setup) { return std::make_unique<HostRunner>(setup); }

}  // namespace runmax::judge
