// Status and Result: the one error route of the library. Nothing here or behind it prints, throws or exits.
#ifndef RUNMAX_STATUS_HPP
#define RUNMAX_STATUS_HPP

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace runmax {

// Numbers are part of the ABI and never change.
enum class StatusCode : std::int32_t {
  ok = 0,
  invalid_argument = 1,     // the request breaks a rule; the message names argument, rule and value
  unsupported = 2,          // the request is legal, but no kernel here serves it
  workspace_too_small = 3,  // the message names both sizes
  out_of_memory = 4,
  no_device = 5,       // this machine or this build has no such device
  device_error = 6,    // the CUDA runtime reported an error
  internal_error = 7,  // a bug of ours
};

// Outcome of an operation: ok, or a code and one line that names what, where, the rule and the value.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::ok; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::ok;
  std::string message_;
};

// A value, or the status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}         // NOLINT: implicit by design
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {}  // NOLINT: implicit by design

  bool ok() const { return state_.index() == 0; }
  const T& value() const& { return std::get<0>(state_); }
  T& value() & { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  Status status() const { return ok() ? Status() : std::get<1>(state_); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace runmax

#endif  // RUNMAX_STATUS_HPP
