# Build rules shared by every folder: one target per folder, one call per target.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(DLRUN_CCACHE ccache)
if(DLRUN_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${DLRUN_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${DLRUN_CCACHE})
endif()

add_library(dlrun_flags INTERFACE)
target_include_directories(dlrun_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/gen)
target_compile_options(dlrun_flags INTERFACE
  -Wall -Wextra -Wno-missing-field-initializers
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>  # false alarms of GCC 12 on the operator+ of std::string
  -march=x86-64-v2 -fno-omit-frame-pointer
  $<$<BOOL:${DLRUN_WERROR}>:-Werror>)
if(DLRUN_SANITIZE)
  target_compile_options(dlrun_flags INTERFACE -fsanitize=${DLRUN_SANITIZE} -fno-sanitize-recover=undefined)
  target_link_options(dlrun_flags INTERFACE -fsanitize=${DLRUN_SANITIZE})
endif()
if(DLRUN_PLANTED_BUGS)
  target_compile_definitions(dlrun_flags INTERFACE DLRUN_PLANTED_BUGS=1)
endif()

# dlrun_library(NAME SOURCES... [DEPS ...] [PRIVATE_DEPS ...]): a static library of this folder.
function(dlrun_library name)
  cmake_parse_arguments(A "" "" "DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(${name} STATIC ${A_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC dlrun_flags ${A_DEPS} PRIVATE ${A_PRIVATE_DEPS})
endfunction()

# dlrun_header_library(NAME [DEPS ...]): headers only.
function(dlrun_header_library name)
  cmake_parse_arguments(A "" "" "DEPS" ${ARGN})
  add_library(${name} INTERFACE)
  target_link_libraries(${name} INTERFACE dlrun_flags ${A_DEPS})
endfunction()

# dlrun_program(NAME SOURCES... [DEPS ...])
function(dlrun_program name)
  cmake_parse_arguments(A "" "" "DEPS" ${ARGN})
  add_executable(${name} ${A_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE dlrun_flags ${A_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endfunction()

# The tests that another build than dev runs, e.g. under TSan; empty: all. Names: cmake/test_subsets.cmake.
set(DLRUN_TEST_SUBSET "" CACHE STRING "which subset of the tests to build: empty, tsan, cuda or fuzz")
option(DLRUN_LONG "test timeouts for the full counts of test.sh --long" OFF)
include(test_subsets)

add_custom_target(dlrun_tests)  # every test and fuzz program of this build

# dlrun_subset_allows(OUT NAME): whether this build has the test. Targets of a subset get the subset's name as a prefix in ctest.
function(dlrun_subset_allows out name)
  set(${out} TRUE PARENT_SCOPE)
  if(DLRUN_TEST_SUBSET AND NOT name IN_LIST DLRUN_SUBSET_${DLRUN_TEST_SUBSET})
    set(${out} FALSE PARENT_SCOPE)
  endif()
endfunction()

# dlrun_test(NAME LABEL SOURCES... [DEPS ...] [TIMEOUT s]): a GoogleTest program.
# LABEL: unit | sim | integration | framework | gpu. Tests of real processes (integration, framework) run one at a time.
function(dlrun_test name label)
  cmake_parse_arguments(A "" "TIMEOUT" "DEPS" ${ARGN})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 120)
  endif()
  add_executable(${name} ${A_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE dlrun_flags ${A_DEPS} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  dlrun_subset_allows(allowed ${name})
  if(NOT allowed)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
    return()
  endif()
  add_dependencies(dlrun_tests ${name})
  dlrun_add_test(${name} ${label} ${A_TIMEOUT} ${name})
endfunction()

# dlrun_add_test(NAME LABEL TIMEOUT COMMAND...): registers any command as a test.
function(dlrun_add_test name label timeout)
  set(shown ${name})
  set(labels ${label})
  if(DLRUN_TEST_SUBSET)
    set(shown ${DLRUN_TEST_SUBSET}.${name})
    set(labels ${DLRUN_TEST_SUBSET})
  endif()
  if(DLRUN_LONG)
    math(EXPR timeout "${timeout} * 60")
  endif()
  set(serial FALSE)
  if(label MATCHES "integration|framework")
    set(serial TRUE)
  endif()
  add_test(NAME ${shown} COMMAND ${ARGN})
  set_tests_properties(${shown} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout} RUN_SERIAL ${serial}
    ENVIRONMENT "DLRUN_SOURCE_DIR=${CMAKE_SOURCE_DIR};DLRUN_BUILD_DIR=${CMAKE_BINARY_DIR}")
endfunction()

# dlrun_fuzz(NAME SOURCE... [DEPS ...]): a libFuzzer program (LLVMFuzzerTestOneInput), in the fuzz preset only. As a test it
# runs for $DLRUN_FUZZ_SECONDS (12) from the seeds in seeds/NAME beside its source, if there are any.
function(dlrun_fuzz name)
  cmake_parse_arguments(A "" "" "DEPS" ${ARGN})
  if(NOT DLRUN_FUZZ)
    return()
  endif()
  add_executable(${name} ${A_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE dlrun_flags ${A_DEPS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(dlrun_tests ${name})
  dlrun_add_test(${name} fuzz 300 ${CMAKE_SOURCE_DIR}/tools/run-fuzz.sh $<TARGET_FILE:${name}>
    ${CMAKE_CURRENT_SOURCE_DIR}/seeds/${name})
endfunction()

# dlrun_bench(NAME SOURCES... [DEPS ...]): the program bench_NAME (hyphens allowed), in the bench preset only.
function(dlrun_bench name)
  cmake_parse_arguments(A "" "" "DEPS" ${ARGN})
  dlrun_program(bench_${name} ${A_UNPARSED_ARGUMENTS} DEPS ${A_DEPS})
endfunction()

# dlrun_capnp(TARGET SCHEMA... [DEPS ...]): a static library of the code that capnp generates from the schemas of this
# folder, under ${CMAKE_BINARY_DIR}/gen/<folder>; included as "<folder>/x.capnp.h". DEPS: the targets of imported schemas.
function(dlrun_capnp name)
  cmake_parse_arguments(A "" "" "DEPS" ${ARGN})
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(out ${CMAKE_BINARY_DIR}/gen/${folder})
  file(MAKE_DIRECTORY ${out})
  set(sources)
  foreach(schema IN LISTS A_UNPARSED_ARGUMENTS)
    add_custom_command(
      OUTPUT ${out}/${schema}.c++ ${out}/${schema}.h
      COMMAND ${CAPNP_EXECUTABLE} compile -o${CAPNPC_CXX_EXECUTABLE}:${out} --src-prefix=${CMAKE_CURRENT_SOURCE_DIR}
              -I${CAPNP_INCLUDE_DIRS} ${CMAKE_CURRENT_SOURCE_DIR}/${schema}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${schema}
      VERBATIM)
    list(APPEND sources ${out}/${schema}.c++ ${out}/${schema}.h)
  endforeach()
  add_library(${name} STATIC ${sources})
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "-w")
  target_link_libraries(${name} PUBLIC dlrun_flags CapnProto::capnp ${A_DEPS})
  if(A_DEPS)
    add_dependencies(${name} ${A_DEPS})
  endif()
endfunction()
