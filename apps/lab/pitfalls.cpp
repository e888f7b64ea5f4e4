#include "lab/pitfalls.hpp"

#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "gate/gate.hpp"
#include "kernels/lesson/bank_conflicts.hpp"
#include "lab/data.hpp"
#include "lab/faulty_kernels.hpp"

namespace runmax::lab {
namespace {

// One head on the device, and the memory of a stored matrix if asked for.
class HeadOnDevice {
 public:
  static Result<HeadOnDevice> make(const Data& data, Device device, std::size_t matrix_bytes) {
    HeadOnDevice head;
    head.n_ = data.n;
    head.ledger_ = std::make_unique<MemoryLedger>();
    struct Wanted {
      Buffer* buffer;
      std::size_t bytes;
      const std::vector<float>* source;
    };
    for (const Wanted& wanted :
         {Wanted{&head.q_, data.bytes(), &data.q}, Wanted{&head.k_, data.bytes(), &data.k},
          Wanted{&head.v_, data.bytes(), &data.v}, Wanted{&head.o_, data.bytes(), nullptr},
          Wanted{&head.matrices_, matrix_bytes, nullptr}}) {
      Result<Buffer> buffer = Buffer::allocate(device, wanted.bytes, *head.ledger_);
      if (!buffer.ok()) return buffer.status();
      *wanted.buffer = std::move(buffer.value());
      if (!wanted.source) continue;
      if (Status status = wanted.buffer->from_host(wanted.source->data(), wanted.bytes); !status.ok())
        return status;
    }
    return head;
  }

  HeadBuffers buffers() const { return {n_, &q_, &k_, &v_, &o_}; }
  const Buffer& matrices() const { return matrices_; }
  std::vector<const Buffer*> all() const { return {&q_, &k_, &v_, &o_, &matrices_}; }

  // Runs work on a poisoned output and gates every row.
  Result<gate::Verdict> gate(const Data& data, const Bench::Work& work, Bench& bench) const {
    std::vector<float> got(data.q.size(), std::numeric_limits<float>::quiet_NaN());
    if (Status status = o_.from_host(got.data(), data.bytes()); !status.ok()) return status;
    if (Status status = work(); !status.ok()) return status;
    if (Status status = bench.finish(); !status.ok()) return status;
    if (Status status = o_.to_host(got.data(), data.bytes()); !status.ok()) return status;
    gate::LessonGate gate(data.n);
    for (std::size_t r = 0; r < data.rows.size(); ++r)
      gate.add_row(0, 0, data.rows[r], data.reference[r], got.data() + data.rows[r] * head_dim, 1);
    return gate.verdict();
  }

 private:
  std::int64_t n_ = 0;
  std::unique_ptr<MemoryLedger> ledger_;
  Buffer q_, k_, v_, o_, matrices_;
};

// "passes (gate fraction 0.06)", "fails (gate fraction 1.2e+04, first at query row 0, head dimension 3)".
std::string verdict_text(const gate::Verdict& verdict) {
  if (verdict.passed) return fmt::format("passes (gate fraction {:.4f})", verdict.gate_fraction);
  const std::string place =
      fmt::format("first at query row {}, head dimension {}", verdict.offender.row, verdict.offender.dim);
  if (!verdict.finite) return fmt::format("fails (not finite, {})", place);
  return fmt::format("fails (gate fraction {:.3g}, {})", verdict.gate_fraction, place);
}

class Pitfalls {
 public:
  Pitfalls(const StudyOptions& options, double empty_launch_ms, Bench& bench)
      : options_(options), empty_launch_ms_(empty_launch_ms), bench_(bench) {}

  Result<std::vector<Pitfall>> study() {
    for (const auto step : {&Pitfalls::outlier, &Pitfalls::own_maximum, &Pitfalls::not_finite,
                            &Pitfalls::baseline, &Pitfalls::padding, &Pitfalls::launches})
      if (Status status = (this->*step)(); !status.ok()) return status;
    return std::move(list_);
  }

 private:
  bool gpu() const { return options_.facts.device.kind == DeviceKind::cuda; }

  void add(const char* name, std::string figures, std::string meaning, std::optional<bool> shown = true) {
    list_.push_back({name, shown, std::move(figures), std::move(meaning)});
  }

  Result<gate::Verdict> with_fault(Fault fault, LoudKey loud) {
    Data data = draw_data(fault_len, options_.seed, loud);
    add_reference(data, options_.threads);
    Result<HeadOnDevice> head = HeadOnDevice::make(data, options_.facts.device, 0);
    if (!head.ok()) return head.status();
    const HeadBuffers buffers = head.value().buffers();
    return head.value().gate(
        data,
        [&] {
          return gpu() ? cuda_faulty_online(fault, buffers, bench_.stream())
                       : cpu_faulty_online(fault, buffers, options_.threads);
        },
        bench_);
  }

  Status outlier() {
    options_.progress("pitfall: the outlier in the first and in the last tile");
    Result<gate::Verdict> first = with_fault(Fault::output_not_rescaled, LoudKey::in_first_tile);
    if (!first.ok()) return first.status();
    Result<gate::Verdict> last = with_fault(Fault::output_not_rescaled, LoudKey::in_last_tile);
    if (!last.ok()) return last.status();
    const bool shown = first.value().passed && !last.value().passed;
    add("right in testing, wrong in production: the outlier lands early",
        fmt::format(
            "without the rescale of the output, N = {}: outlier in the first tile {}, in the last tile {}",
            fault_len, verdict_text(first.value()), verdict_text(last.value())),
        shown ? "test data whose largest score comes first never exercises the rescale; only the late "
                "outlier finds "
                "the fault"
              : "the two places of the outlier do not tell the fault apart here",
        shown);
    return {};
  }

  Status own_maximum() {
    options_.progress("pitfall: a tile weighted against its own maximum");
    Result<gate::Verdict> tile = with_fault(Fault::tile_against_itself, LoudKey::in_last_tile);
    if (!tile.ok()) return tile.status();
    Result<gate::Verdict> normalized = with_fault(Fault::normalized_per_tile, LoudKey::in_last_tile);
    if (!normalized.ok()) return normalized.status();
    Result<gate::Verdict> right = with_fault(Fault::none, LoudKey::in_last_tile);
    if (!right.ok()) return right.status();
    const bool shown = !tile.value().passed && !normalized.value().passed && right.value().passed;
    add("a tile weighted against its own maximum, or normalised on its own",
        fmt::format("N = {}: own maximum {}; normalised per tile {}; the right rule {}", fault_len,
                    verdict_text(tile.value()), verdict_text(normalized.value()),
                    verdict_text(right.value())),
        shown ? "weights are comparable only against one running maximum, and rows sum to one only if the "
                "division "
                "comes once, at the end"
              : "the gate does not tell these faults from the right rule here",
        shown);
    return {};
  }

  Status not_finite() {
    options_.progress("pitfall: exponentials and denominators that are not finite");
    Result<gate::Verdict> before = with_fault(Fault::sum_before_max, LoudKey::in_last_tile);
    if (!before.ok()) return before.status();
    Result<gate::Verdict> underflow = with_fault(Fault::underflow, LoudKey::in_last_tile);
    if (!underflow.ok()) return underflow.status();
    const bool shown = !before.value().finite && !underflow.value().finite;
    add("the maximum was subtracted and it is still inf, or the denominator underflows",
        fmt::format("N = {}: sum updated before the maximum {}; denominator that underflows {}", fault_len,
                    verdict_text(before.value()), verdict_text(underflow.value())),
        shown
            ? "a comparison that lets NaN through would accept both, so the gate asks for finite values first"
            : "these faults stay finite here",
        shown);
    return {};
  }

  // Median milliseconds of a kernel of the registry on this data.
  Result<Summary> time_kernel(const char* kernel, const Data& data) {
    Result<Plan> planned = plan(lab_problem(data.n, data.n, options_.seed), options_.facts,
                                {.kernel = kernel, .threads = options_.threads});
    if (!planned.ok()) return planned.status();
    Result<HeadOnDevice> head =
        HeadOnDevice::make(data, options_.facts.device, planned.value().workspace_bytes);
    if (!head.ok()) return head.status();
    const HeadBuffers b = head.value().buffers();
    const auto view = [&](const Buffer* buffer) {
      return packed_view(buffer->data(), DType::f32, {1, 1, data.n, head_dim}, Layout::bhsd,
                         options_.facts.device);
    };
    const Tensors tensors{view(b.q), view(b.k), view(b.v), view(b.o), {}};
    const Workspace workspace{head.value().matrices().data(), head.value().matrices().bytes()};
    return bench_.time([&] { return run(planned.value(), tensors, workspace, bench_.stream()); },
                       CacheState::warm, head.value().all(), {});
  }

  Status baseline() {
    options_.progress("pitfall: a baseline that nobody would ship");
    const std::int64_t n = gpu() ? gpu_baseline_len : cpu_baseline_len;
    Data data = draw_data(n, options_.seed);
    add_reference(data, options_.threads);
    const auto matrix = static_cast<std::size_t>(n * n) * sizeof(float);
    Result<HeadOnDevice> head = HeadOnDevice::make(data, options_.facts.device, gpu() ? 2 * matrix : matrix);
    if (!head.ok()) return head.status();
    const HeadBuffers buffers = head.value().buffers();
    const Bench::Work untiled_work = [&] {
      return gpu() ? cuda_untiled_naive(buffers, head.value().matrices(), bench_.stream())
                   : cpu_untiled_naive(buffers, head.value().matrices(), options_.threads);
    };
    Result<gate::Verdict> right = head.value().gate(data, untiled_work, bench_);
    if (!right.ok()) return right.status();
    Result<Summary> untiled = bench_.time(untiled_work, CacheState::warm, head.value().all(), {});
    if (!untiled.ok()) return untiled.status();
    Result<Summary> tiled = time_kernel(gpu() ? "cuda_lesson_naive" : "cpu_naive", data);
    if (!tiled.ok()) return tiled.status();
    Result<Summary> online = time_kernel(gpu() ? "cuda_lesson_online" : "cpu_lesson_online", data);
    if (!online.ok()) return online.status();
    const double fair = tiled.value().median / online.value().median;
    const double unfair = untiled.value().median / online.value().median;
    const bool shown = untiled.value().median > tiled.value().median;
    add("benchmarked against a naive that nobody would ship",
        fmt::format("N = {}: untiled naive {:.4f} ms ({}), tiled naive {:.4f} ms, online {:.4f} ms: "
                    "naive/online {:.3f} "
                    "against the tiled one, {:.3f} against the untiled one",
                    n, untiled.value().median, verdict_text(right.value()), tiled.value().median,
                    online.value().median, fair, unfair),
        shown
            ? fmt::format(
                  "the same right answer computed {:.1f}x slower makes online look {:.1f}x better without a "
                  "byte less",
                  untiled.value().median / tiled.value().median, unfair / fair)
            : "the untiled baseline is not slower here, so the caches do the tile's work",
        shown);
    return {};
  }

  Status padding() {
    const int unpadded_ways = lesson::bank_conflict_ways(static_cast<int>(head_dim));
    const int padded_ways = lesson::bank_conflict_ways(static_cast<int>(head_dim) + 1);
    const std::string arithmetic = fmt::format(
        "by arithmetic a key tile unpadded is {}-way, padded by one float {}-way; the value tile is {}-way "
        "without padding",
        unpadded_ways, padded_ways, lesson::bank_conflict_ways(1));
    if (!gpu()) {
      add("every shared tile padded out of habit", arithmetic,
          "not applicable here: a CPU has no shared memory and no banks", std::nullopt);
      return {};
    }
    options_.progress("pitfall: the key tile without its padding");
    Data data = draw_data(gpu_baseline_len, options_.seed);
    add_reference(data, options_.threads);
    Result<HeadOnDevice> head = HeadOnDevice::make(data, options_.facts.device, 0);
    if (!head.ok()) return head.status();
    const HeadBuffers buffers = head.value().buffers();
    const Bench::Work unpadded_work = [&] { return cuda_unpadded_online(buffers, bench_.stream()); };
    Result<gate::Verdict> right = head.value().gate(data, unpadded_work, bench_);
    if (!right.ok()) return right.status();
    Result<Summary> unpadded = bench_.time(unpadded_work, CacheState::warm, head.value().all(), {});
    if (!unpadded.ok()) return unpadded.status();
    Result<Summary> padded = time_kernel("cuda_lesson_online", data);
    if (!padded.ok()) return padded.status();
    const double factor = unpadded.value().median / padded.value().median;
    add("every shared tile padded out of habit",
        fmt::format("N = {}: key tile unpadded {:.4f} ms ({}), padded {:.4f} ms; {}", data.n,
                    unpadded.value().median, verdict_text(right.value()), padded.value().median, arithmetic),
        fmt::format(
            "one float a row makes the kernel {:.2f}x faster where lanes walk down keys; where they read "
            "neighbours it would buy nothing",
            factor),
        factor > 1);
    return {};
  }

  Status launches() {
    const char* name = "fused, and the launch count expected to pay";
    if (!gpu()) {
      add(name, "", "not applicable here: a CPU launches no kernels", std::nullopt);
      return {};
    }
    const Data data = draw_data(gpu_baseline_len, options_.seed);
    Result<Summary> naive = time_kernel("cuda_lesson_naive", data);
    if (!naive.ok()) return naive.status();
    Result<Summary> online = time_kernel("cuda_lesson_online", data);
    if (!online.ok()) return online.status();
    const double difference = naive.value().median - online.value().median;
    const double saved = 2 * empty_launch_ms_;
    add(name,
        fmt::format("N = {}: two launches saved are {:.4f} ms; naive - online is {:+.4f} ms", data.n, saved,
                    difference),
        "what fusion buys is the buffer, not the launches: count the bytes before attributing the result",
        std::abs(difference) > saved);
    return {};
  }

  const StudyOptions& options_;
  double empty_launch_ms_;
  Bench& bench_;
  std::vector<Pitfall> list_;
};

}  // namespace

Result<std::vector<Pitfall>> study_pitfalls(const StudyOptions& options, double empty_launch_ms,
                                            Bench& bench) {
  return Pitfalls(options, empty_launch_ms, bench).study();
}

}  // namespace runmax::lab
