# Install rules, and the files that find_package(runmax) and pkg-config read.
include(CMakePackageConfigHelpers)
set(runmax_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/runmax)

install(TARGETS runmax EXPORT runmaxTargets
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/runmax DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
if(RUNMAX_BUILD_TOOLS)
  install(TARGETS runmax_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT runmaxTargets NAMESPACE runmax:: DESTINATION ${runmax_package_dir})
configure_package_config_file(cmake/runmaxConfig.cmake.in runmaxConfig.cmake INSTALL_DESTINATION ${runmax_package_dir})
# Before 1.0 a minor version may change the interface, so 0.1 is served by 0.1.x alone.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(runmax_compatibility SameMinorVersion)
else()
  set(runmax_compatibility SameMajorVersion)
endif()
write_basic_package_version_file(runmaxConfigVersion.cmake COMPATIBILITY ${runmax_compatibility})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/runmaxConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/runmaxConfigVersion.cmake
  DESTINATION ${runmax_package_dir})

# The prefix is written relative to the .pc file, so that an installed tree may be moved.
file(RELATIVE_PATH runmax_pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
set(runmax_pc_private -pthread)
if(RUNMAX_WITH_CUDA)
  list(GET CUDAToolkit_LIBRARY_DIR 0 runmax_cuda_libraries)
  string(APPEND runmax_pc_private " -L${runmax_cuda_libraries} -lcudart_static -ldl -lrt")
endif()
configure_file(cmake/runmax.pc.in runmax.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/runmax.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
