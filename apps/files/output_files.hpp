// Output files that appear whole or not at all, several together.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "files/elements.hpp"

namespace runmax::files {

// Whether a file could be put at `path`: its directory exists and can be written to, and what stands there,
// if anything, is a regular file that may be written. Touches nothing. An error begins with the path.
Status check_destination(const std::string& path);

// Each file is first written in full to a hidden file beside its destination and synced; `commit` then
// renames them all. What stood at a destination stays until then. If anything fails, or the object dies
// without a commit, or SIGINT, SIGTERM or SIGHUP ends the program, the hidden files are removed and every
// destination is as it was; a signal during `commit` takes effect after it. Only SIGKILL or a crash of the
// machine can leave a hidden ".runmax-*.tmp" file, or interrupt a commit of several files. One object at a
// time.
class OutputFiles {
 public:
  OutputFiles() = default;
  ~OutputFiles();
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

  // The file at `path` shall hold these pieces, one after the other. At most 8 files. After a failure, commit
  // fails too.
  Status add(const std::string& path, const std::vector<Bytes>& pieces);
  Status commit();

 private:
  struct File {
    std::string path;         // as given, for messages
    std::string destination;  // with symbolic links followed
    std::string hidden;
  };
  Status write(const std::string& path, const std::vector<Bytes>& pieces);
  void discard();
  std::vector<File> files_;
  Status failure_;  // of the first add that failed
};

}  // namespace runmax::files
