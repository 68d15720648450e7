# llmc_embed(TARGET SYMBOL NAMES FILES): puts files into TARGET as read-only data. SYMBOL is a table of
# name, begin and end of each file that ends with zeros (compiler/driver/resources.cpp).
function(llmc_embed target symbol names files)
  set(blobs "")
  set(table "")
  foreach(name file IN ZIP_LISTS names files)
    string(MAKE_C_IDENTIFIER ${name} label)
    string(APPEND blobs "name_${label}: .asciz \"${name}\"\nbegin_${label}: .incbin \"${file}\"\nend_${label}: .byte 0\n")
    string(APPEND table ".quad name_${label}, begin_${label}, end_${label}\n")
  endforeach()
  set(listing ${CMAKE_BINARY_DIR}/${symbol}.S)
  # Relocated at load time, hence not .rodata.
  file(CONFIGURE OUTPUT ${listing} @ONLY CONTENT
"    .section .rodata.${symbol},\"a\",%progbits
${blobs}
    .section .data.rel.ro.${symbol},\"aw\",%progbits
    .balign 8
    .globl ${symbol}
    .hidden ${symbol}
${symbol}:
${table}    .quad 0, 0, 0
    .section .note.GNU-stack,\"\",%progbits
")
  set_source_files_properties(${listing} PROPERTIES OBJECT_DEPENDS "${files}" LANGUAGE ASM)
  target_sources(${target} PRIVATE ${listing})
endfunction()

# llmc_resources(TARGET): puts the sources that every bundle copies (kernel templates, public headers,
# runtime core) and the runner's into TARGET, so that the llmc binary works from anywhere.
function(llmc_resources target)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS
    ${CMAKE_SOURCE_DIR}/templates/llmc/*.h
    ${CMAKE_SOURCE_DIR}/runtime/include/llmc/*.h
    ${CMAKE_SOURCE_DIR}/runtime/core/*.h
    ${CMAKE_SOURCE_DIR}/runtime/core/*.cpp
    ${CMAKE_SOURCE_DIR}/runtime/runner/*.h
    ${CMAKE_SOURCE_DIR}/runtime/runner/*.cpp)
  list(TRANSFORM files REPLACE "^${CMAKE_SOURCE_DIR}/" "" OUTPUT_VARIABLE names)
  llmc_embed(${target} llmc_resource_table "${names}" "${files}")
endfunction()

# llmc_core_objects(TARGET): compiles the runtime core for every architecture and puts the objects into
# TARGET, so that `llmc compile` need not do so for each bundle (compiler/driver/core_objects.h). The
# flags are those of core_arguments() in compiler/driver/toolchain.cpp: objects of other flags are not
# used. With a compiler that is not a clang for the architecture, there are none.
function(llmc_core_objects target)
  set(common -std=c++20 -ffreestanding -nostdlibinc -fno-exceptions -fno-rtti -fno-threadsafe-statics
    -ffp-contract=off -fno-math-errno -fPIC -fno-stack-protector -fno-asynchronous-unwind-tables
    -ffunction-sections -fdata-sections -fno-ident -g0 -O2)
  set(flags_x86_64 -march=x86-64)
  set(flags_aarch64 -march=armv8-a -mno-outline-atomics)
  set(flags_loongarch64 -march=loongarch64)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/runtime/core/*.cpp)
  set(names "")
  set(objects "")
  foreach(architecture x86_64 aarch64 loongarch64)
    set(flags --target=${architecture}-linux-gnu ${flags_${architecture}} ${common})
    set(compile ${CMAKE_CXX_COMPILER} ${flags})
    execute_process(COMMAND ${compile} -x c++ -c /dev/null -o /dev/null RESULT_VARIABLE failed
      OUTPUT_QUIET ERROR_QUIET)
    if(failed)
      message(STATUS "llmc compile will compile the runtime for ${architecture} itself")
      continue()
    endif()
    set(folder ${CMAKE_BINARY_DIR}/core/${architecture})
    file(MAKE_DIRECTORY ${folder})
    list(JOIN flags " " text)
    file(CONFIGURE OUTPUT ${folder}/arguments @ONLY CONTENT "${text}")
    list(APPEND names ${architecture}/arguments)
    list(APPEND objects ${folder}/arguments)
    foreach(source IN LISTS sources)
      cmake_path(GET source STEM stem)
      set(object ${folder}/${stem}.o)
      add_custom_command(OUTPUT ${object}
        COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${compile} -I${CMAKE_SOURCE_DIR}/runtime/include
          -I${CMAKE_SOURCE_DIR}/templates -MD -MF ${object}.d -c ${source} -o ${object}
        DEPENDS ${source} DEPFILE ${object}.d VERBATIM
        COMMENT "Compiling ${stem} of the runtime for ${architecture}")
      list(APPEND names ${architecture}/${stem})
      list(APPEND objects ${object})
    endforeach()
  endforeach()
  add_custom_target(llmc_core_objects DEPENDS ${objects})
  add_dependencies(${target} llmc_core_objects)
  llmc_embed(${target} llmc_core_object_table "${names}" "${objects}")
endfunction()
