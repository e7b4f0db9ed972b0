# cmake --install PREFIX: programs, library, headers, Python package, examples, systemd units.
# Target `package`: dlrun-VERSION-linux-x86_64.tar.gz, an install with every shared library but glibc's in lib/, which any folder of
# a machine with glibc >= that of the build can hold. Included by the root after all folders.
include(GNUInstallDirs)

set(programs)
foreach(target IN ITEMS dlrun dlrun-shim)
  if(TARGET ${target})
    list(APPEND programs ${target})
  endif()
endforeach()
if(TARGET dlrun)
  # DT_RPATH, not DT_RUNPATH: it must hold for the libraries of the libraries too. dlrun-shim is static and has none.
  set_target_properties(dlrun PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
  target_link_options(dlrun PRIVATE -Wl,--disable-new-dtags)
endif()
if(programs)
  install(TARGETS ${programs} RUNTIME DESTINATION bin)
endif()
set(libraries)
foreach(library IN ITEMS dlrun_client dlrun_pslite)
  if(TARGET ${library})
    list(APPEND libraries ${library})
    set_target_properties(${library} PROPERTIES INSTALL_RPATH "$ORIGIN/..")
    target_link_options(${library} PRIVATE -Wl,--disable-new-dtags)
  endif()
endforeach()
install(FILES packaging/systemd/dlrun-coordinator.service packaging/systemd/dlrun-agent.service DESTINATION lib/systemd/system)
install(FILES README.md LICENSE CHANGELOG.md DESTINATION share/doc/dlrun)
install(DIRECTORY docs/ DESTINATION share/doc/dlrun FILES_MATCHING PATTERN "*.md")

# Component `bundle`, for the tarball only: what the programs load, next to them.
set(elf_programs)
foreach(target IN LISTS programs)
  list(APPEND elf_programs "$<TARGET_FILE:${target}>")
endforeach()
set(elf_libraries)
foreach(target IN LISTS libraries)
  list(APPEND elf_libraries "$<TARGET_FILE:${target}>")
endforeach()
install(CODE "
  file(GET_RUNTIME_DEPENDENCIES
    EXECUTABLES ${elf_programs} LIBRARIES ${elf_libraries}
    RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing
    PRE_EXCLUDE_REGEXES [[^ld-linux]] [[^lib(c|m|dl|rt|pthread|util|resolv|nsl|anl|mvec|BrokenLocale|thread_db)\\.so]] [[^libnss_]])
  if(missing)
    message(FATAL_ERROR \"the package would lack: \${missing}\")
  endif()
  foreach(library IN LISTS found)
    file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib\" TYPE SHARED_LIBRARY FOLLOW_SYMLINK_CHAIN FILES \"\${library}\")
  endforeach()
" COMPONENT bundle EXCLUDE_FROM_ALL)

set(package_name dlrun-${PROJECT_VERSION}-linux-x86_64)
set(stage ${CMAKE_BINARY_DIR}/package/${package_name})
add_custom_target(package
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${CMAKE_BINARY_DIR}/package
  COMMAND ${CMAKE_COMMAND} --install ${CMAKE_BINARY_DIR} --prefix ${stage} --strip
  COMMAND ${CMAKE_COMMAND} --install ${CMAKE_BINARY_DIR} --prefix ${stage} --component bundle
  COMMAND tar --sort=name --owner=0 --group=0 --numeric-owner -czf ${CMAKE_BINARY_DIR}/${package_name}.tar.gz
          -C ${CMAKE_BINARY_DIR}/package ${package_name}
  COMMAND ${CMAKE_COMMAND} -E echo ${CMAKE_BINARY_DIR}/${package_name}.tar.gz
  VERBATIM)
if(programs OR libraries)
  add_dependencies(package ${programs} ${libraries})
endif()
