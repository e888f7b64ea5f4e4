#include "judge/candidate/build.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "files/elements.hpp"
#include "files/input_file.hpp"
#include "judge/candidate/device_code.hpp"
#include "judge/candidate/exports.hpp"
#include "judge/candidate/sha256.hpp"
#include "judge/confine/program.hpp"

namespace runmax::judge {
namespace {

constexpr std::size_t most_source_bytes = 1 << 20, most_library_bytes = 256 << 20;
// A compiler may take this long, and this much memory in each of its processes.
constexpr double most_seconds = 120;
constexpr std::uint64_t most_memory = std::uint64_t{6} << 30;

Status failed(const std::string& what) {
  return {StatusCode::device_error, what + ": " + std::strerror(errno)};
}

bool write_text(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  return file.good();
}

// The id that owns the folder; 0 if this user may not give it away.
std::uint32_t give_away(const std::string& folder) {
  if (geteuid() != 0) return 0;
  for (const std::uint32_t user : {2000000000u + static_cast<std::uint32_t>(getpid()) % 100000000u, 65534u})
    if (chown(folder.c_str(), user, user) == 0) return user;
  return 0;
}

std::string quoted_name(const std::string& name) {
  std::string text;
  for (const char c : name) text += c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20 ? '_' : c;
  return text;
}

std::string from_environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

std::vector<std::string> compiler_words(const Candidate& candidate) {
  switch (candidate.language) {
    case Language::c:
      return {from_environment("CC", "gcc"), "-std=gnu17"};
    case Language::cuda:
      return {from_environment("CUDACXX", "nvcc"), "-std=c++17"};
    default:
      return {from_environment("CXX", "g++"), "-std=c++20"};
  }
}

// Names in quotes behind #include, if they are plain names.
std::vector<std::string> included_names(std::string_view source) {
  std::vector<std::string> names;
  while (!source.empty()) {
    const std::size_t end = std::min(source.find('\n'), source.size());
    std::string_view line = source.substr(0, end);
    source.remove_prefix(std::min(end + 1, source.size()));
    const auto skip = [&] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
    skip();
    if (!line.starts_with("#")) continue;
    line.remove_prefix(1);
    skip();
    if (!line.starts_with("include")) continue;
    line.remove_prefix(7);
    skip();
    const std::size_t close = line.find('"', 1);
    if (!line.starts_with("\"") || close == std::string_view::npos) continue;
    const std::string_view name = line.substr(1, close - 1);
    if (name.find('/') == std::string_view::npos && !name.starts_with(".")) names.emplace_back(name);
  }
  return names;
}

// The files beside the candidate that it includes, and those that they include. One that is not there is the
// compiler's to complain about.
Status read_headers(Candidate& candidate) {
  constexpr std::size_t most_headers = 32;
  const std::filesystem::path folder = std::filesystem::path(candidate.path).parent_path();
  std::vector<std::string> names = included_names(candidate.source);
  while (!names.empty()) {
    const std::string name = names.back(), path = (folder / name).string();
    names.pop_back();
    const bool known = std::any_of(candidate.headers.begin(), candidate.headers.end(),
                                   [&](const auto& h) { return h.name == name; });
    std::error_code ignored;
    if (known || !std::filesystem::is_regular_file(path, ignored)) continue;
    Result<files::FileBytes> file = files::read_file(path);
    if (!file.ok()) return {file.status().code(), path + ": " + file.status().message()};
    const files::Bytes bytes = file.value().bytes();
    if (bytes.size() > most_source_bytes || candidate.headers.size() == most_headers)
      return {StatusCode::invalid_argument,
              fmt::format("{}: a candidate has at most {} headers of at most {} bytes", path, most_headers,
                          most_source_bytes)};
    candidate.headers.push_back(
        {name, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())});
    for (std::string& more : included_names(candidate.headers.back().text)) names.push_back(std::move(more));
  }
  return {};
}

std::vector<std::string> build_words(const Candidate& candidate, const std::string& source,
                                     const std::string& library, int compute_capability) {
  std::vector<std::string> words = compiler_words(candidate);
  const auto add = [&](std::initializer_list<const char*> more) {
    words.insert(words.end(), more.begin(), more.end());
  };
  if (candidate.language == Language::cuda && candidate.manifest.tier == Tier::device) {
    const int target = compute_capability > 0 ? compute_capability : 75;
    words.push_back(fmt::format("-arch=sm_{}{}", target, target >= 90 ? "a" : ""));
    add({"-O3", "-cubin"});
  } else if (candidate.language == Language::cuda) {
    add({"-O3", "-arch=sm_75", "-shared", "-Xcompiler=-fPIC"});
  } else {
    add({"-O3", "-march=native", "-fopenmp", "-fPIC", "-shared", "-Wl,-Bsymbolic,-z,now"});
  }
  add({"-o", library.c_str(), source.c_str()});
  if (candidate.language != Language::cuda) add({"-lm"});
  return words;
}

}  // namespace

Result<TemporaryFolder> TemporaryFolder::make() {
  std::string path = from_environment("TMPDIR", "/tmp") + "/runmax-judge-XXXXXX";
  if (!mkdtemp(path.data())) return failed("a temporary folder " + path);
  TemporaryFolder folder;
  folder.path_ = path;
  chmod(path.c_str(), 0755);
  return folder;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Result<Candidate> read_candidate(const std::string& path) {
  Candidate candidate;
  candidate.path = path;
  candidate.file_name = std::filesystem::path(path).filename().string();
  const std::string suffix = std::filesystem::path(path).extension().string();
  const auto wrong = [&](const std::string& what) {
    return Status(StatusCode::invalid_argument, path + ": " + what);
  };
  if (suffix == ".cpp" || suffix == ".cc" || suffix == ".cxx")
    candidate.language = Language::cpp;
  else if (suffix == ".c")
    candidate.language = Language::c;
  else if (suffix == ".cu")
    candidate.language = Language::cuda;
  else if (suffix == ".so")
    candidate.language = Language::library;
  else
    return wrong("must end in .cpp, .c, .cu or .so, got '" + suffix + "'");
  Result<files::FileBytes> file = files::read_file(path);
  if (!file.ok()) return Status(file.status().code(), path + ": " + file.status().message());
  const files::Bytes bytes = file.value().bytes();
  candidate.source.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const bool library = candidate.language == Language::library;
  const std::size_t most = library ? most_library_bytes : most_source_bytes;
  if (candidate.source.size() > most)
    return wrong(fmt::format("must be at most {} bytes, got {}", most, candidate.source.size()));
  if (candidate.source.empty()) return wrong("is empty");
  std::string everything = candidate.source;
  if (!library) {
    if (Status status = read_headers(candidate); !status.ok()) return status;
    for (const Candidate::Header& header : candidate.headers) everything += header.text;
  }
  candidate.sha256 = sha256(everything);

  std::string manifest_text = library ? "" : candidate.source, manifest_path = path;
  if (library && std::filesystem::exists(path + ".judge")) {
    manifest_path = path + ".judge";
    Result<files::FileBytes> beside = files::read_file(manifest_path);
    if (!beside.ok()) return Status(beside.status().code(), manifest_path + ": " + beside.status().message());
    const files::Bytes text = beside.value().bytes();
    manifest_text.assign(reinterpret_cast<const char*>(text.data()), text.size());
  }
  const Tier tier = candidate.language == Language::cuda ? Tier::device : Tier::host;
  Result<Manifest> manifest = read_manifest(manifest_text, tier);
  if (!manifest.ok())
    return Status(manifest.status().code(), manifest_path + ": " + manifest.status().message());
  candidate.manifest = manifest.value();
  if (candidate.manifest.tier == Tier::device && candidate.language != Language::cuda)
    return wrong("tier: a device kernel is a .cu file");
  return candidate;
}

Result<Build> build_candidate(const Candidate& candidate, int compute_capability) {
  Build build;
  Result<TemporaryFolder> folder = TemporaryFolder::make();
  if (!folder.ok()) return folder.status();
  build.folder = std::move(folder.value());
  const std::string at = build.folder.path() + "/";
  const auto begin = std::chrono::steady_clock::now();
  const bool device = candidate.manifest.tier == Tier::device;
  const std::string library = device ? "candidate.cubin" : "candidate.so";

  if (candidate.language == Language::library) {
    if (!write_text(at + library, candidate.source)) return failed("writing " + at + library);
    chmod((at + library).c_str(), 0644);
    build.user = give_away(build.folder.path());
  } else {
    const char* suffix = candidate.language == Language::c      ? ".c"
                         : candidate.language == Language::cuda ? ".cu"
                                                                : ".cpp";
    const std::string source = std::string("candidate") + suffix;
    // Complaints name the file as its author knows it.
    const std::string text = "#line 1 \"" + quoted_name(candidate.file_name) + "\"\n" + candidate.source;
    if (!write_text(at + source, text)) return failed("writing to " + build.folder.path());
    for (const Candidate::Header& header : candidate.headers)
      if (!write_text(at + header.name, header.text)) return failed("writing to " + build.folder.path());
    build.user = give_away(build.folder.path());
    const std::vector<std::string> words = build_words(candidate, source, library, compute_capability);
    for (const std::string& word : words)
      build.command += (build.command.empty() ? "" : " ") + (word == source ? candidate.file_name : word);
    Limits limits;
    limits.memory_bytes = candidate.language == Language::cuda ? 0 : most_memory;
    limits.cpu_seconds = static_cast<std::uint64_t>(most_seconds);
    limits.file_bytes = std::uint64_t{512} << 20;
    limits.processes = 128;
    limits.user = build.user;
    limits.read_only_files = false;
    Result<ProgramResult> ran = run_program(words, build.folder.path(), limits, most_seconds);
    if (!ran.ok()) return ran.status();
    const ProgramResult& result = ran.value();
    build.output = result.output;
    if (result.exit_status == 127 && result.output.empty())
      return Status(StatusCode::no_device,
                    fmt::format("{}: building it needs {}, which is not in PATH", candidate.path, words[0]));
    if (result.timed_out)
      build.complaint =
          fmt::format("the compiler had not ended after {:.0f} s and was stopped", most_seconds);
    else if (result.signal != 0)
      build.complaint =
          fmt::format("the compiler was ended by signal {} ({})", result.signal, strsignal(result.signal));
    else if (result.exit_status != 0)
      build.complaint = "it does not compile";
    if (!build.complaint.empty()) return build;
  }
  build.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  Result<files::FileBytes> made = files::read_file(at + library);
  if (!made.ok()) {
    build.complaint = "the compiler left no result: " + made.status().message();
    return build;
  }
  const files::Bytes bytes = made.value().bytes();
  const std::string_view image(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (device) {
    const Result<DeviceCode> code = read_device_code(image);
    if (!code.ok())
      build.complaint = "the cubin " + code.status().message();
    else if (std::find(code.value().kernels.begin(), code.value().kernels.end(), "attention") ==
             code.value().kernels.end())
      build.complaint =
          "it has no kernel named attention: declare it as extern \"C\" __global__ void attention(...)";
  } else {
    Result<std::vector<std::string>> names = exported_names(image);
    if (!names.ok()) {
      build.complaint = "the library " + names.status().message();
    } else if (std::find(names.value().begin(), names.value().end(), "attention") == names.value().end()) {
      build.complaint =
          "it has no function named attention with C linkage: declare it as extern \"C\" int attention(...)";
    } else if (const std::string name = system_name_among(names.value()); !name.empty()) {
      build.complaint = "exports-system-symbol: it exports " + name +
                        ", which is the system's: make it static, or give it another name";
    }
  }
  if (build.complaint.empty()) build.module = at + library;
  return build;
}

}  // namespace runmax::judge
