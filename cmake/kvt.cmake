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

# kvt_library(name [FOLDERS ...] [EXCEPT ...] [SOURCES ...] DEPENDS ...): every source of the subfolders
# named in FOLDERS (`.` is the folder itself; main.c is the program's) but those in EXCEPT, and
# SOURCES.  DEPENDS is the folder's arrow list; nothing else links.
function(kvt_library name)
  cmake_parse_arguments(ARG "" "" "FOLDERS;EXCEPT;SOURCES;DEPENDS" ${ARGN})
  foreach(folder IN LISTS ARG_FOLDERS)
    file(GLOB found CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.c)
    list(FILTER found EXCLUDE REGEX "/main\\.c$")
    if(NOT found)
      message(FATAL_ERROR "${name}: no source in ${CMAKE_CURRENT_SOURCE_DIR}/${folder}")
    endif()
    foreach(source IN LISTS ARG_EXCEPT)
      list(REMOVE_ITEM found ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    endforeach()
    list(APPEND ARG_SOURCES ${found})
  endforeach()
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
# BINARY: the target's name, if it is not the path with underscores.
# IN_MEMORY: its folders lie in memory, where there is such a place: what it asks is not about disks.
# ALONE: it runs in one thread, and is ended if it starts another: label `alone`, which is not run where
# races are looked for.
function(kvt_test name)
  cmake_parse_arguments(ARG "IN_MEMORY;ALONE" "BINARY;TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  string(REPLACE "/" "_" binary ${name})
  if(ARG_BINARY)
    set(binary ${ARG_BINARY})
  endif()
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

# kvt_tests(folder DEPENDS ... [ALONE ...] [IN_MEMORY ...] [SLOW ...] [SLOWEST ...] [EXCEPT ...]): a
# kvt_test of every <noun>_test.c below this folder, linked with <folder>_test_support, which is all
# other sources but those in fake/ and stranger_*.c: programs and modules of their own.  ctest knows it as unit/<folder>/<subfolder>/<noun>_test, CMake as <folder>_<noun>_test.
# The lists name nouns: ALONE and IN_MEMORY as above, SLOW has 300 s, SLOWEST 900 s, EXCEPT is left out.
function(kvt_tests folder)
  cmake_parse_arguments(ARG "" "" "DEPENDS;ALONE;IN_MEMORY;SLOW;SLOWEST;EXCEPT" ${ARGN})
  file(GLOB_RECURSE beds CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.c)
  list(FILTER beds EXCLUDE REGEX "_test\\.c$|/fake/|/stranger_")
  set(support test_support)
  if(beds)
    set(support ${folder}_test_support)
    kvt_library(${support} SOURCES ${beds} DEPENDS ${ARG_DEPENDS} test_support PkgConfig::cmocka)
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *_test.c)
  set(nouns "")
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH place)
    cmake_path(GET source STEM stem)
    string(REGEX REPLACE "_test$" "" noun ${stem})
    list(APPEND nouns ${noun})
    if(noun IN_LIST ARG_EXCEPT)
      continue()
    endif()
    cmake_path(APPEND place ${stem} OUTPUT_VARIABLE path)
    set(flags "")
    foreach(flag IN ITEMS ALONE IN_MEMORY)
      if(noun IN_LIST ARG_${flag})
        list(APPEND flags ${flag})
      endif()
    endforeach()
    if(noun IN_LIST ARG_SLOWEST)
      list(APPEND flags TIMEOUT 900)
    elseif(noun IN_LIST ARG_SLOW)
      list(APPEND flags TIMEOUT 300)
    endif()
    kvt_test(${folder}/${path} BINARY ${folder}_${stem} ${flags}
      SOURCES ${source} DEPENDS ${support} ${ARG_DEPENDS})
  endforeach()
  foreach(named IN LISTS ARG_ALONE ARG_IN_MEMORY ARG_SLOW ARG_SLOWEST ARG_EXCEPT)
    if(NOT named IN_LIST nouns)
      message(FATAL_ERROR "tests of ${folder}: there is no ${named}_test.c")
    endif()
  endforeach()
endfunction()
