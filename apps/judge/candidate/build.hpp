// From the file that somebody hands in to a library that a worker can load.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "judge/candidate/manifest.hpp"

namespace runmax::judge {

// A folder in the system's place for temporary files, removed with everything in it.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> make();
  TemporaryFolder() = default;
  TemporaryFolder(TemporaryFolder&& other) noexcept { std::swap(path_, other.path_); }
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  ~TemporaryFolder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

enum class Language { cpp, c, cuda, library };

// A file as it was when the judge began: nothing that happens to it later matters.
struct Candidate {
  std::string path, file_name;
  std::string source;  // the library's bytes, if it is one
  struct Header {
    std::string name, text;
  };
  std::vector<Header> headers;  // files beside it that it includes by a plain name in quotes
  std::string sha256;           // of the source, and of the headers behind it
  Language language = Language::cpp;
  Manifest manifest;
};
// Errors begin with the path.
Result<Candidate> read_candidate(const std::string& path);

struct Build {
  TemporaryFolder folder;
  std::string module;      // empty if it failed
  std::string command;     // what was run, with names instead of temporary paths
  std::string complaint;   // one line: why it failed
  std::string output;      // the compiler's own words, with the candidate's own line numbers
  std::uint32_t user = 0;  // the unprivileged id that owns the folder and that workers take on; 0: none
  double seconds = 0;
};

// A status if this machine lacks what is needed (no compiler, no space); a candidate that does not build is a
// result.
// A kernel is compiled for the GPU of this compute capability (90); 0: for the oldest that is served.
Result<Build> build_candidate(const Candidate& candidate, int compute_capability = 0);

}  // namespace runmax::judge
