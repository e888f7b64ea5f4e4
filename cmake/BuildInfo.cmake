# Writes apps/measure's build_info.hpp: commit, compiler and kernel source hashes. Runs at every build and touches the
# file only if something changed.
#   cmake -DOUTPUT=... -DCOMPILER=... "-DFOLDERS=a;b" [-DCOMMIT=...] -P cmake/BuildInfo.cmake
include(${CMAKE_CURRENT_LIST_DIR}/KernelHash.cmake)
get_filename_component(root ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)

if(NOT COMMIT)
  set(COMMIT unknown)
  execute_process(COMMAND git rev-parse --short=12 HEAD WORKING_DIRECTORY ${root}
    OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(COMMIT ${head})
    execute_process(COMMAND git status --porcelain --untracked-files=no WORKING_DIRECTORY ${root}
      OUTPUT_VARIABLE changes ERROR_QUIET)
    if(changes)
      string(APPEND COMMIT "-modified")
    endif()
  endif()
endif()

set(entries "")
foreach(folder IN LISTS FOLDERS)
  runmax_kernel_hash(${root} ${folder} hash)
  string(APPEND entries "    {\"${folder}\",\n     \"${hash}\"},\n")
endforeach()
file(WRITE ${OUTPUT}.new
"// Generated at every build: what was built, from which sources, by which compiler.
#pragma once

#include <array>

namespace runmax::measure {

inline constexpr const char* build_commit = \"${COMMIT}\";
inline constexpr const char* build_compiler = \"${COMPILER}\";

struct SourceHash {
  const char* folder;
  const char* sha256;
};

inline constexpr auto source_hashes = std::to_array<SourceHash>({
${entries}});

}  // namespace runmax::measure
")
execute_process(COMMAND ${CMAKE_COMMAND} -E copy_if_different ${OUTPUT}.new ${OUTPUT})
