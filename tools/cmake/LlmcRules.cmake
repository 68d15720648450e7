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
  target_compile_options(llmc_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(llmc_options INTERFACE -fsanitize=address,undefined)
endif()

if(LLMC_SANITIZE_THREADS)
  target_compile_options(llmc_options INTERFACE -fsanitize=thread)
  target_link_options(llmc_options INTERFACE -fsanitize=thread)
endif()

# llmc_unity_build(TARGET [COUNT]): with LLMC_UNITY_BUILD, so many of the target's sources (all) are compiled as one. What
# they share, headers and templates, is most of what they compile. Names in their unnamed namespaces
# must differ then. `llmc_unity_prefix` is put in front of each source. Off by default, so that builds see
# what a source forgets to include.
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
