#include "bench/peers.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "measure/cpu_cache.hpp"

namespace runmax::bench {

using Json = nlohmann::json;

namespace {

Status broken(const std::string& what) { return {StatusCode::no_device, "peers: " + what}; }

// Memory that another process of this user can map by its path.
class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() {
    if (data_) munmap(data_, bytes_);
    if (file_ >= 0) close(file_);
  }

  Status allocate(std::size_t bytes) {
    bytes_ = bytes;
    file_ = memfd_create("runmax-bench", MFD_CLOEXEC);
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(bytes)) != 0)
      return {StatusCode::out_of_memory, fmt::format("peers: cannot share {} bytes", bytes)};
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (data == MAP_FAILED)
      return {StatusCode::out_of_memory, fmt::format("peers: cannot map {} bytes", bytes)};
    data_ = static_cast<char*>(data);
    return {};
  }
  char* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  std::string path() const { return fmt::format("/proc/{}/fd/{}", getpid(), file_); }

 private:
  int file_ = -1;
  char* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace

// A child process that answers one line of JSON with one line of JSON.
class PeerProgram {
 public:
  PeerProgram() = default;
  PeerProgram(const PeerProgram&) = delete;
  PeerProgram& operator=(const PeerProgram&) = delete;
  ~PeerProgram() {
    if (to_ >= 0) close(to_);
    if (from_) std::fclose(from_);
    // Its input has ended, so it ends.
    if (process_ > 0) waitpid(process_, nullptr, 0);
  }

  Status start(const std::string& command, const std::string& simd) {
    int request[2], reply[2];
    if (pipe2(request, O_CLOEXEC) != 0 || pipe2(reply, O_CLOEXEC) != 0) return broken("no pipe");
    // A peer that died must be an error of ours to report, not our end.
    signal(SIGPIPE, SIG_IGN);
    process_ = fork();
    if (process_ == 0) {
      dup2(request[0], STDIN_FILENO);
      dup2(reply[1], STDOUT_FILENO);
      if (!simd.empty()) setenv("RUNMAX_BENCH_SIMD", simd.c_str(), 1);
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    close(request[0]);
    close(reply[1]);
    to_ = request[1];
    from_ = fdopen(reply[0], "r");
    if (process_ < 0 || !from_) return broken("cannot start " + command);
    Result<Json> hello = read();
    if (!hello.ok()) return hello.status();
    if (hello.value().value("protocol", "") != "runmax.peers" || hello.value().value("version", 0) != 1)
      return broken("'" + command + "' does not speak version 1 of runmax.peers");
    return {};
  }

  Result<Json> ask(const Json& request) {
    const std::string line = request.dump() + "\n";
    for (std::size_t done = 0; done < line.size();) {
      const ssize_t written = write(to_, line.data() + done, line.size() - done);
      if (written <= 0) return broken("the program has ended");
      done += static_cast<std::size_t>(written);
    }
    return read();
  }

 private:
  Result<Json> read() {
    std::string line;
    for (int c = std::fgetc(from_); c != '\n'; c = std::fgetc(from_)) {
      if (c == EOF) return broken("the program ended without an answer; what it said stands above");
      line += static_cast<char>(c);
    }
    Json reply = Json::parse(line, nullptr, false);
    if (!reply.is_object()) return broken("not a line of JSON: " + line.substr(0, 200));
    if (reply.contains("error"))
      return broken(reply["error"].is_string() ? reply["error"].get<std::string>() : line);
    return reply;
  }

  pid_t process_ = -1;
  int to_ = -1;
  std::FILE* from_ = nullptr;
};

namespace {

// A problem's inputs and outputs in shared memory, (batch, heads, length, dim) each, by the names of the
// protocol.
struct SharedProblem {
  struct Region {
    std::string name;
    std::size_t at = 0, floats = 0;  // bytes from the beginning, elements
    bool output = false;
  };

  SharedMemory memory;
  std::vector<Region> regions;
  std::string name;

  float* floats(const Region& region) const { return reinterpret_cast<float*>(memory.data() + region.at); }
};

// What a peer on the CPU and one on a GPU have in common; Base says how it is timed.
template <class Base>
class PeerOf : public Base {
 public:
  PeerOf(std::shared_ptr<PeerProgram> program, std::shared_ptr<SharedProblem> problem, const Problem& p,
         Identity identity)
      : program_(std::move(program)), shared_(std::move(problem)), identity_(std::move(identity)) {
    output_.attention.o = check::packed_tensor({p.batch, p.query_heads, p.query_len, p.value_dim});
    output_.attention.standing = check::Standing::foreign;
    // As all fast 16-bit kernels do.
    output_.attention.rounds_weights = true;
  }

  const Identity& identity() const override { return identity_; }

  Result<Output> output() override {
    for (const SharedProblem::Region& region : shared_->regions)
      if (region.output)
        std::fill(shared_->floats(region), shared_->floats(region) + region.floats,
                  std::numeric_limits<float>::quiet_NaN());
    if (Result<Json> reply = program_->ask(request("answer")); !reply.ok()) return reply.status();
    for (const SharedProblem::Region& region : shared_->regions)
      if (std::vector<float>* values = values_of(region))
        values->assign(shared_->floats(region), shared_->floats(region) + region.floats);
    return output_;
  }

  // Others may add in another order from run to run; a millionth of the largest element is less than any
  // gate's bound for it.
  Result<bool> unchanged() override {
    if (Result<Json> reply = program_->ask(request("last")); !reply.ok()) return reply.status();
    for (const SharedProblem::Region& region : shared_->regions) {
      const std::vector<float>* first = values_of(region);
      if (!first) continue;
      float largest = 0;
      for (const float value : *first) largest = std::max(largest, std::abs(value));
      for (std::size_t i = 0; i < first->size(); ++i)
        if (!(std::abs(shared_->floats(region)[i] - (*first)[i]) <= 1e-6f * largest)) return false;
    }
    return true;
  }

 protected:
  Json request(const char* what) const {
    return {{"do", what},
            {"problem", shared_->name},
            {"implementation", identity_.implementation},
            {"threads", identity_.threads}};
  }

  Result<double> seconds_of(const Json& line) const {
    Result<Json> reply = program_->ask(line);
    if (!reply.ok()) return reply.status();
    if (reply.value().contains("refused"))
      return Status(StatusCode::unsupported,
                    identity_.implementation + ": " + reply.value()["refused"].dump());
    if (!reply.value().contains("seconds") || !reply.value()["seconds"].is_number())
      return broken(identity_.implementation + " named no time");
    return reply.value()["seconds"].template get<double>();
  }

  std::vector<float>* values_of(const SharedProblem::Region& region) {
    if (!region.output) return nullptr;
    if (region.name == "o") return &output_.attention.o.storage;
    return region.name == "dq" ? &output_.dq : region.name == "dk" ? &output_.dk : &output_.dv;
  }

  std::shared_ptr<PeerProgram> program_;
  std::shared_ptr<SharedProblem> shared_;
  Identity identity_;
  Output output_;
};

class Peer final : public PeerOf<Contender> {
 public:
  using PeerOf::PeerOf;

  Result<double> time(int runs) override {
    Json line = request("time");
    line["runs"] = runs;
    return seconds_of(line);
  }

  void flush() override { measure::flush_lines(shared_->memory.data(), shared_->memory.bytes()); }
};

class GpuPeer final : public PeerOf<GpuContender> {
 public:
  using PeerOf::PeerOf;

  Result<double> time(Way way, int runs) override {
    Json line = request("time");
    line["runs"] = runs;
    line["way"] = way == Way::warm ? "warm" : way == Way::cold ? "cold" : "graph";
    return seconds_of(line);
  }
};

std::string_view causal_name(Causal causal) {
  switch (causal) {
    case Causal::bottom_right:
      return "bottom_right";
    case Causal::top_left:
      return "top_left";
    case Causal::none:
      break;
  }
  return "none";
}

}  // namespace

Result<std::shared_ptr<PeerProgram>> start_peers(const std::string& command, const std::string& simd) {
  auto program = std::make_shared<PeerProgram>();
  if (Status status = program->start(command, simd); !status.ok()) return status;
  return program;
}

namespace {

// Puts a workload's inputs into shared memory and tells the program of it. The reply names who serves it.
Result<Json> open_problem(PeerProgram& program, const Workload& workload,
                          const std::shared_ptr<SharedProblem>& shared) {
  const Problem& p = workload.problem;
  shared->name = to_text(p);
  const bool backward = workload.pass == Pass::backward;
  const std::size_t o_floats = static_cast<std::size_t>(p.batch * p.query_heads * p.query_len * p.value_dim);
  std::size_t end = 0;
  const auto place = [&](const char* name, std::size_t floats, bool output) {
    shared->regions.push_back({name, end, floats, output});
    end += (floats * sizeof(float) + 4095) / 4096 * 4096;
  };
  place("q", workload.drawn.q.size(), false);
  place("k", workload.drawn.k.size(), false);
  place("v", workload.drawn.v.size(), false);
  if (backward) {
    place("dout", o_floats, false);
    place("dq", workload.drawn.q.size(), true);
    place("dk", workload.drawn.k.size(), true);
    place("dv", workload.drawn.v.size(), true);
  } else {
    place("o", o_floats, true);
  }
  if (Status status = shared->memory.allocate(std::max<std::size_t>(end, 4096)); !status.ok()) return status;
  Json request{{"do", "open"},
               {"problem", shared->name},
               {"pass", pass_name(workload.pass)},
               {"dtype", dtype_name(p.dtype)},
               {"memory", shared->memory.path()},
               {"bytes", shared->memory.bytes()},
               {"batch", p.batch},
               {"query_heads", p.query_heads},
               {"kv_heads", p.kv_heads},
               {"query_len", p.query_len},
               {"kv_len", p.kv_len},
               {"head_dim", p.head_dim},
               {"value_dim", p.value_dim},
               {"scale", effective_scale(p)},
               {"causal", causal_name(p.causal)},
               {"window", {p.window.left, p.window.right}},
               {"softcap", p.softcap}};
  for (const SharedProblem::Region& region : shared->regions) {
    request[region.name] = region.at;
    const std::vector<float>* values = region.name == "q"      ? &workload.drawn.q
                                       : region.name == "k"    ? &workload.drawn.k
                                       : region.name == "v"    ? &workload.drawn.v
                                       : region.name == "dout" ? &workload.drawn_dout
                                                               : nullptr;
    if (values && !values->empty())
      std::memcpy(shared->floats(region), values->data(), values->size() * sizeof(float));
  }
  return program.ask(request);
}

template <class PeerType, class ContenderType>
Result<OthersOf<ContenderType>> peers_of(const std::shared_ptr<PeerProgram>& program,
                                         const Workload& workload, const std::vector<int>& threads) {
  auto shared = std::make_shared<SharedProblem>();
  const Result<Json> reply = open_problem(*program, workload, shared);
  if (!reply.ok()) return reply.status();
  OthersOf<ContenderType> others;
  for (const int count : threads) {
    for (const Json& one : reply.value().value("implementations", Json::array())) {
      Identity identity{one.value("name", "?"), one.value("kernel", ""), one.value("computed_as", ""), count};
      others.contenders.push_back(
          std::make_unique<PeerType>(program, shared, workload.problem, std::move(identity)));
    }
    for (const Json& one : reply.value().value("refused", Json::array()))
      others.refused.push_back(
          {{one.value("name", "?"), one.value("kernel", ""), "", count}, one.value("reason", "")});
  }
  return others;
}

}  // namespace

Result<Others> peers_for(const std::shared_ptr<PeerProgram>& program, const Workload& workload,
                         const std::vector<int>& threads) {
  if (!is_plain(workload.problem)) {
    Others others;
    others.refused.push_back({{"peers", "", "", threads.front()},
                              "are asked for f32 without options' tensors, packed or paged batches alone"});
    return others;
  }
  return peers_of<Peer, Contender>(program, workload, threads);
}

Result<GpuOthers> gpu_peers_for(const std::shared_ptr<PeerProgram>& program, const Workload& workload) {
  return peers_of<GpuPeer, GpuContender>(program, workload, {0});
}

}  // namespace runmax::bench
