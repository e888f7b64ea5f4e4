# Install rules and the package that find_package(runmax) reads.
include(CMakePackageConfigHelpers)
install(TARGETS runmax EXPORT runmaxTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/runmax DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
if(RUNMAX_BUILD_TOOLS)
  install(TARGETS runmax_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(EXPORT runmaxTargets NAMESPACE runmax:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/runmax)
configure_package_config_file(cmake/runmaxConfig.cmake.in runmaxConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/runmax)
write_basic_package_version_file(runmaxConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/runmaxConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/runmaxConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/runmax)
