# SHA-256 over the sources of a kernel folder, so that a record can be held against the sources it measured.
#
# As a script it prints "folder sha256" for each folder:
#   cmake "-DFOLDERS=src/kernels/lesson;src/kernels/forward/cpu" -P cmake/KernelHash.cmake
# Hashed is one line "path sha256" for every .hpp, .cpp, .cuh and .cu file of the folder, sorted by path, for the
# algebra that all kernels share, and for what the folder includes of the device toolbox, directly or not.
function(runmax_toolbox_of root files result)
  set(found "")
  set(left ${files})
  while(left)
    list(POP_FRONT left file)
    file(STRINGS ${root}/${file} includes REGEX "^#include \"(\\.\\./)*device/")
    foreach(line IN LISTS includes)
      string(REGEX REPLACE "^#include \"(\\.\\./)*(device/[^\"]*)\".*" "src/\\2" included "${line}")
      list(FIND found ${included} place)
      if(place EQUAL -1)
        list(APPEND found ${included})
        list(APPEND left ${included})
      endif()
    endforeach()
  endwhile()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

function(runmax_kernel_hash root folder result)
  if(NOT IS_DIRECTORY ${root}/${folder})
    message(FATAL_ERROR "kernel hash: ${folder} is no folder of ${root}")
  endif()
  file(GLOB_RECURSE files RELATIVE ${root}
    ${root}/${folder}/*.hpp ${root}/${folder}/*.cpp ${root}/${folder}/*.cuh ${root}/${folder}/*.cu)
  runmax_toolbox_of(${root} "${files}" toolbox)
  list(APPEND files ${toolbox})
  list(APPEND files include/runmax/online_softmax.hpp)
  list(SORT files)
  set(lines "")
  foreach(file IN LISTS files)
    file(SHA256 ${root}/${file} hash)
    string(APPEND lines "${file} ${hash}\n")
  endforeach()
  string(SHA256 hash "${lines}")
  set(${result} ${hash} PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  get_filename_component(root ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
  foreach(folder IN LISTS FOLDERS)
    runmax_kernel_hash(${root} ${folder} hash)
    # message() would write to stderr.
    execute_process(COMMAND ${CMAKE_COMMAND} -E echo "${folder} ${hash}")
  endforeach()
endif()
