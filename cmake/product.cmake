# Libraries that others link: what is installed exports its public functions and nothing else.

find_program(CMAKE_OBJCOPY objcopy REQUIRED)

# kvt_product(name SOURCES ... DEPENDS ... FOLDERS ... SYMBOLS ... SUMMARY text LIBS_PRIVATE ...
#             [PACKAGE name])
#
# lib<name>.so, lib<name>.a and <package>.pc, in the install component <package>, which is <name>
# unless it is said.  DEPENDS is what it is linked with, FOLDERS our own static libraries among that:
# the archive takes the objects it needs out of them into one, in which every other symbol is local.
# SYMBOLS are patterns of its own functions, and names of those that our other libraries have too:
# these are weak in the archive, so that a program can link several.  LIBS_PRIVATE is what a static
# link needs beside.
function(kvt_product name)
  cmake_parse_arguments(ARG "" "SUMMARY;PACKAGE" "SOURCES;DEPENDS;FOLDERS;SYMBOLS;LIBS_PRIVATE" ${ARGN})
  if(NOT ARG_PACKAGE)
    set(ARG_PACKAGE ${name})
  endif()
  string(MAKE_C_IDENTIFIER ${name} id)
  string(TOUPPER ${id} version_node)
  set(keep "")
  set(need "")
  set(weak "")
  set(script "${version_node}_0 {\n  global:\n")
  foreach(symbol IN LISTS ARG_SYMBOLS)
    string(APPEND script "    ${symbol};\n")
    list(APPEND keep --keep-global-symbol=${symbol})
    if(NOT symbol MATCHES "\\*")
      list(APPEND need LINKER:--undefined=${symbol})
      list(APPEND weak --weaken-symbol=${symbol})
    endif()
  endforeach()
  string(APPEND script "  local:\n    *;\n};\n")
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.map CONTENT "${script}" @ONLY)

  add_library(${id}_objects OBJECT ${ARG_SOURCES})
  set_target_properties(${id}_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
  kvt_target(${id}_objects)
  target_link_libraries(${id}_objects PRIVATE ${ARG_DEPENDS})

  add_library(${id}_shared SHARED $<TARGET_OBJECTS:${id}_objects>)
  kvt_target(${id}_shared)
  set_target_properties(${id}_shared PROPERTIES OUTPUT_NAME ${name} LINKER_LANGUAGE C
    VERSION 0.${PROJECT_VERSION_MINOR}.${PROJECT_VERSION_PATCH} SOVERSION 0
    LINK_DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/${name}.map)
  target_link_options(${id}_shared PRIVATE ${need} LINKER:--as-needed
    LINKER:--version-script=${CMAKE_CURRENT_BINARY_DIR}/${name}.map)
  target_link_libraries(${id}_shared PRIVATE ${ARG_DEPENDS})

  set(archives "")
  foreach(folder IN LISTS ARG_FOLDERS)
    list(APPEND archives $<TARGET_FILE:${folder}>)
  endforeach()
  list(TRANSFORM need REPLACE "^LINKER:" "-Wl,")
  set(archive ${CMAKE_CURRENT_BINARY_DIR}/lib${name}.a)
  add_custom_command(OUTPUT ${archive}
    COMMAND ${CMAKE_C_COMPILER} -r -nostdlib -o ${id}_whole.o ${need}
      $<TARGET_OBJECTS:${id}_objects> ${archives}
    COMMAND ${CMAKE_OBJCOPY} --wildcard ${keep} ${weak} ${id}_whole.o ${id}.o
    COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
    COMMAND ${CMAKE_AR} rcs ${archive} ${id}.o
    DEPENDS ${id}_objects $<TARGET_OBJECTS:${id}_objects> ${ARG_FOLDERS}
    WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}
    COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(${id}_static ALL DEPENDS ${archive})

  list(JOIN ARG_LIBS_PRIVATE " " libs)
  # The folder may be moved: everything is said from where the file itself lies.
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR
    BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE include)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${ARG_PACKAGE}.pc CONTENT
"includedir=\${pcfiledir}/${include}
libdir=\${pcfiledir}/..

Name: ${ARG_PACKAGE}
Description: ${ARG_SUMMARY}
Version: ${PROJECT_VERSION}
Cflags: -I\${includedir}
Libs: -L\${libdir} -l${name}
Libs.private: ${libs}
" @ONLY)
  install(TARGETS ${id}_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${ARG_PACKAGE})
  install(FILES ${archive} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${ARG_PACKAGE})
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${ARG_PACKAGE}.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT ${ARG_PACKAGE})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kvtier COMPONENT ${ARG_PACKAGE} EXCLUDE_FROM_ALL
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
endfunction()
