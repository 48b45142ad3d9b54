# The only place that knows compiler flags, and the four verbs every folder's CMakeLists.txt uses.

if(KVT_SANITIZE)
  include(CheckLinkerFlag)
  check_linker_flag(C -fuse-ld=gold KVT_HAS_GOLD)
endif()

function(kvt_target target)
  set_target_properties(${target} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS ON)
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes
    -Wmissing-prototypes -Wold-style-definition -Wcast-qual -Wwrite-strings -Wvla -Wundef
    -Wformat=2 -fno-common -fstack-protector-strong
    -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/= # a failed assertion names the file, not whose
    $<$<C_COMPILER_ID:Clang>:-Wcomma -Wunreachable-code>
    $<$<C_COMPILER_ID:GNU>:-Wlogical-op -Wduplicated-cond -Wduplicated-branches>)
  if(KVT_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${KVT_SANITIZE} -fno-omit-frame-pointer)
    if(NOT KVT_SANITIZE STREQUAL "thread")
      target_compile_options(${target} PRIVATE -fno-sanitize-recover=all)
    endif()
    target_link_options(${target} PUBLIC -fsanitize=${KVT_SANITIZE})
  endif()
  if(KVT_COVERAGE)
    target_compile_options(${target} PRIVATE --coverage)
    target_link_options(${target} PUBLIC --coverage)
  endif()
endfunction()

# kvt_test_linker(target): hundreds of tests are linked with sanitizers, each with most of the tree; gold
# takes less than half as long as the usual linker.
function(kvt_test_linker target)
  if(KVT_SANITIZE AND KVT_HAS_GOLD)
    target_link_options(${target} PRIVATE -fuse-ld=gold)
  endif()
endfunction()

# kvt_library(name SOURCES ... DEPENDS ...): DEPENDS is the folder's arrow list; nothing else links.
function(kvt_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  kvt_target(${name})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS})
endfunction()

# kvt_program(name SOURCES ... DEPENDS ...): an installed program; its sources are main.c and wiring.
function(kvt_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  kvt_target(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# kvt_test(folder/noun_test ...): one cmocka binary, one ctest named after it, labelled `unit`.
# The source is tests/unit/<folder>/<noun>_test.c; name keeps the folder so that it is unique.
# IN_MEMORY: its folders lie in memory, where there is such a place: what it asks is not about disks.
# ALONE: it runs in one thread, and is ended if it starts another: label `alone`, which is not run where
# races are looked for.
function(kvt_test name)
  cmake_parse_arguments(ARG "IN_MEMORY;ALONE" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  string(REPLACE "/" "_" binary ${name})
  add_executable(${binary} ${ARG_SOURCES})
  kvt_target(${binary})
  kvt_test_linker(${binary})
  target_link_libraries(${binary} PRIVATE ${ARG_DEPENDS} test_support)
  add_test(NAME unit/${name} COMMAND ${binary})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(KVT_SANITIZE)
    math(EXPR ARG_TIMEOUT "3 * ${ARG_TIMEOUT}")
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(ARG_ALONE)
    list(APPEND ARG_LABELS alone)
    target_link_libraries(${binary} PRIVATE test_alone)
  endif()
  # Those that may take longest begin first, or one of them goes on alone at the end.
  set_tests_properties(unit/${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} COST ${ARG_TIMEOUT}
    LABELS "${ARG_LABELS}" SKIP_RETURN_CODE 77)
  if(ARG_IN_MEMORY AND IS_DIRECTORY /dev/shm)
    set_tests_properties(unit/${name} PROPERTIES ENVIRONMENT TMPDIR=/dev/shm)
  endif()
endfunction()
