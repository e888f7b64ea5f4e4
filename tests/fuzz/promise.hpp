// A promise that is kept in release builds too.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace runmax::fuzz {

inline void promise(bool kept, const char* what) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

// An error message is one line and says something.
template <class Status>
void promise_one_line(const Status& status) {
  const auto& message = status.message();
  promise(!message.empty(), "an error has a message");
  promise(message.find('\n') == message.npos, "an error is one line");
}

}  // namespace runmax::fuzz
