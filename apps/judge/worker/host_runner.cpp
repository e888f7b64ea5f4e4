// The host tier: a function of a shared library, on the worker's own addresses.
#include <dlfcn.h>

#include "judge/worker/runner.hpp"

namespace runmax::judge {
namespace {

using Function = int (*)(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* workspace,
                         void* stream);

class HostRunner : public Runner {
 public:
  explicit HostRunner(Function function) : function_(function) {}
  std::int32_t run(const Call& c, const Arrays& a) override {
    return function_(a.q, a.k, a.v, a.o, a.lse, c.batch, c.heads, c.kv_heads, c.sq, c.sk, c.d, c.scale,
                     c.causal, a.workspace, nullptr);
  }

 private:
  Function function_;
};

}  // namespace

std::unique_ptr<Runner> make_host_runner(const char* library, const char* symbol, std::string& complaint) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void* address = handle ? dlsym(handle, symbol) : nullptr;
  if (address) return std::make_unique<HostRunner>(reinterpret_cast<Function>(address));
  const char* error = dlerror();
  complaint = error ? error : "unknown error";
  return nullptr;
}

}  // namespace runmax::judge
