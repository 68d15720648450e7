# How every library and program of the project is built: warnings are errors, no contraction of
# floating point (the numerics contract), sources found by folder so that a new file needs no edit.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Protobuf REQUIRED)

add_library(onnx_proto_dep INTERFACE)
target_compile_definitions(onnx_proto_dep INTERFACE ONNX_ML=1 ONNX_NAMESPACE=onnx)
target_link_libraries(onnx_proto_dep INTERFACE onnx_proto protobuf::libprotobuf)
add_library(xxhash_dep INTERFACE)
target_link_libraries(xxhash_dep INTERFACE xxhash)

# Programs with debug information and sanitizers take GNU ld several times as long as lld.
find_program(LLMC_LLD NAMES ld.lld-19 ld.lld)
if(LLMC_LLD AND CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  add_link_options(-fuse-ld=lld)
endif()

add_library(llmc_options INTERFACE)
target_compile_options(llmc_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Werror
  -ffp-contract=off)
target_include_directories(llmc_options INTERFACE
  ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/runtime/include ${CMAKE_SOURCE_DIR}/templates)
if(LLMC_SANITIZE)
  # Without the checks of null pointers, through which an access ends the program anyway, and of the
  # types of objects with virtual functions: they take an eighth of the compiler's time.
  target_compile_options(llmc_options INTERFACE -fsanitize=address,undefined -fno-sanitize=null,vptr
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(llmc_options INTERFACE -fsanitize=address,undefined)
endif()

if(LLMC_SANITIZE_THREADS)
  target_compile_options(llmc_options INTERFACE -fsanitize=thread)
  target_link_options(llmc_options INTERFACE -fsanitize=thread)
endif()

# llmc_unity_build(TARGET [COUNT]): with LLMC_UNITY_BUILD, COUNT sources of TARGET (default: all) are
# compiled as one translation unit: most of what they compile is headers that they share. Names in
# unnamed namespaces must then be unique. `llmc_unity_prefix` is inserted before each source.
function(llmc_unity_build target)
  get_target_property(type ${target} TYPE)
  if(LLMC_UNITY_BUILD AND NOT type STREQUAL "INTERFACE_LIBRARY")
    set(count 0)
    if(ARGC GREATER 1)
      set(count ${ARGV1})
    endif()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${count}
      UNITY_BUILD_CODE_BEFORE_INCLUDE "${llmc_unity_prefix}")
  endif()
endfunction()

# llmc_lower_optimization(TARGET): -O1 in release builds, for code that no run waits for, with less
# inlining: the code is a third smaller and compiles in three quarters of the time.
function(llmc_lower_optimization target)
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "INTERFACE_LIBRARY")
    set(release $<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>)
    target_compile_options(${target} PRIVATE $<${release}:-O1>)
    if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
      target_compile_options(${target} PRIVATE "$<${release}:SHELL:-mllvm -inline-threshold=10>")
    endif()
  endif()
endfunction()

# llmc_precompiled_headers(GROUP HEADER... [LINK LIBRARY...] [OPTIONS OPTION...]): one precompiled header
# for the targets that name GROUP in llmc_use_precompiled(), which need the same options. Only
# headers of other projects: when one of llmc changes, little has to be compiled again. A source
# that lacks a standard #include compiles all the same; -DLLMC_PRECOMPILED_HEADERS=OFF finds it.
function(llmc_precompiled_headers group)
  if(NOT LLMC_PRECOMPILED_HEADERS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINK;OPTIONS")
  set(target llmc_precompiled_${group})
  set(source ${CMAKE_BINARY_DIR}/precompiled_${group}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${target} PRIVATE llmc_options ${arg_LINK})
  target_compile_options(${target} PRIVATE ${arg_OPTIONS} "SHELL:-Xclang -fno-pch-timestamp")
  list(TRANSFORM arg_UNPARSED_ARGUMENTS REPLACE "^.+$" "<\\0>" OUTPUT_VARIABLE headers)
  target_precompile_headers(${target} PRIVATE ${headers})
  # Objects of a target wait for custom targets it depends on, not for objects of other targets.
  add_custom_target(llmc_precompile_${group} DEPENDS $<TARGET_OBJECTS:${target}>)
  # A precompiled header contains the path of its folder. ccache hashes its .sum file instead, so that build
  # folders share objects: versions of the compiler and of the headers.
  set(sum ${CMAKE_CXX_COMPILER_VERSION})
  foreach(header ${arg_UNPARSED_ARGUMENTS})
    find_file(file ${header} PATHS ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES} NO_CACHE REQUIRED)
    file(SHA256 ${file} hash)
    string(APPEND sum " ${hash}")
    set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    unset(file)
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir/cmake_pch.hxx.pch.sum
    CONTENT "${sum}\n")
endfunction()

# llmc_use_precompiled(TARGET GROUP): compiles TARGET with the precompiled header of GROUP. (CMake's
# REUSE_FROM passes it by -Xclang, where ccache leaves the path absolute: no shared objects again.)
function(llmc_use_precompiled target group)
  set(header llmc_precompiled_${group})
  if(TARGET ${header} AND TARGET ${target})
    get_target_property(folder ${header} BINARY_DIR)
    set(file ${folder}/CMakeFiles/${header}.dir/cmake_pch.hxx.pch)
    get_target_property(type ${target} TYPE)
    if(NOT type STREQUAL "INTERFACE_LIBRARY")
      target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include-pch ${file}>")
      add_dependencies(${target} llmc_precompile_${group})
    endif()
  endif()
endfunction()

if(LLMC_PRECOMPILED_HEADERS AND CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache")
  # Without these ccache does not cache what includes a precompiled header.
  list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER
    env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=true)
endif()
set(llmc_standard_headers algorithm array charconv cmath cstdint cstring filesystem functional map
  memory optional set span string string_view utility variant vector)

# llmc_library(NAME FOLDER [DEPENDENCY...]): library llmc_NAME of all .cpp files below FOLDER.
function(llmc_library name folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
  if(sources)
    add_library(llmc_${name} STATIC ${sources})
    target_link_libraries(llmc_${name} PUBLIC llmc_options ${ARGN})
  else()
    add_library(llmc_${name} INTERFACE)
    target_link_libraries(llmc_${name} INTERFACE llmc_options ${ARGN})
  endif()
endfunction()

# llmc_program(NAME FOLDER [LIBRARY...]): program NAME at the top of the build folder.
function(llmc_program name folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
  if(sources)
    add_executable(${name} ${sources})
    target_link_libraries(${name} PRIVATE llmc_options ${ARGN})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  endif()
endfunction()

# llmc_link(TARGET LIBRARY...): adds libraries, whether TARGET has sources yet or not.
function(llmc_link target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")
    target_link_libraries(${target} INTERFACE ${ARGN})
  else()
    target_link_libraries(${target} PUBLIC ${ARGN})
  endif()
endfunction()
