# Language level, warnings and the build type that a fresh clone gets.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "g++ ${CMAKE_CXX_COMPILER_VERSION} is too old: runmax needs g++ 12 or newer, or clang 14 or newer (set CXX)")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  message(FATAL_ERROR "clang ${CMAKE_CXX_COMPILER_VERSION} is too old: runmax needs clang 14 or newer, or g++ 12 or newer (set CXX)")
endif()
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
# A program carried to another machine finds libtbb and libhwy beside itself.
list(APPEND CMAKE_BUILD_RPATH "$ORIGIN")

# Warnings for every target of this project; no flag that assumes finite math is ever used.
function(runmax_warnings target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion>
    # g++ 12 sees overlaps in std::string's operator+ that are not there (GCC bug 105651).
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${RUNMAX_WERROR}>>:-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${RUNMAX_WERROR}>>:-Werror=all-warnings>)
endfunction()

# For the library's kernels: one that spills registers or keeps a stack frame does not compile, nor one that ptxas makes
# remarks about. With a limit on waits, which prints before it traps and so needs a stack, it does.
function(runmax_no_spills target)
  if(RUNMAX_WAIT_LIMIT)
    target_compile_definitions(${target} PRIVATE RUNMAX_WAIT_LIMIT=${RUNMAX_WAIT_LIMIT})
    return()
  endif()
  if(RUNMAX_WERROR)
    # Before the launcher of the whole build, if it has one: an empty word would be taken for the compiler.
    set(launcher ${PROJECT_SOURCE_DIR}/scripts/lib/no_ptxas_remarks ${CMAKE_CUDA_COMPILER_LAUNCHER})
    set_target_properties(${target} PROPERTIES CUDA_COMPILER_LAUNCHER "${launcher}")
  endif()
  target_compile_options(${target} PRIVATE
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${RUNMAX_WERROR}>>:-Xptxas=--warn-on-spills,--warn-on-local-memory-usage>)
endfunction()
