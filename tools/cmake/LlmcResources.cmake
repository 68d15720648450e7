# llmc_embed(TARGET SYMBOL NAMES FILES): puts files into TARGET as read-only data. SYMBOL is a table
# of name, begin and end of each file that ends with zeros (compiler/driver/resources.cpp).
function(llmc_embed target symbol names files)
  set(blobs "")
  set(table "")
  set(index 0)
  foreach(name file IN ZIP_LISTS names files)
    string(APPEND blobs "name_${index}: .asciz \"${name}\"\nbegin_${index}: .incbin \"${file}\"\nend_${index}: .byte 0\n")
    string(APPEND table ".quad name_${index}, begin_${index}, end_${index}\n")
    math(EXPR index "${index} + 1")
  endforeach()
  set(listing ${CMAKE_BINARY_DIR}/${symbol}.S)
  # Relocated at load time, hence not .rodata.
  file(GENERATE OUTPUT ${listing} CONTENT
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

# llmc_resources(TARGET): puts the sources that every bundle copies (kernel templates, public
# headers, runtime core) and the runner's into TARGET, so that llmc works from anywhere.
function(llmc_resources target)
  file(GLOB_RECURSE names RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS
    ${CMAKE_SOURCE_DIR}/templates/llmc/*.h
    ${CMAKE_SOURCE_DIR}/runtime/include/llmc/*.h
    ${CMAKE_SOURCE_DIR}/runtime/core/*.h
    ${CMAKE_SOURCE_DIR}/runtime/core/*.cpp
    ${CMAKE_SOURCE_DIR}/runtime/runner/*.h
    ${CMAKE_SOURCE_DIR}/runtime/runner/*.cpp)
  list(TRANSFORM names PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE files)
  llmc_embed(${target} llmc_resource_table "${names}" "${files}")
endfunction()

# llmc_embed_core(TARGET): compiles the runtime core for every architecture and puts the objects into
# TARGET, so that `llmc compile` need not do so for each bundle (compiler/driver/core_objects.h). The
# flags are those of core_arguments() in compiler/driver/toolchain.cpp: objects of other flags are
# not used. There are none where the compiler is not a clang for the architecture.
function(llmc_embed_core target)
  set(common -std=c++20 -ffreestanding -nostdlibinc -fno-exceptions -fno-rtti
    -fno-threadsafe-statics -ffp-contract=off -fno-math-errno -fPIC -fno-stack-protector
    -fno-asynchronous-unwind-tables -ffunction-sections -fdata-sections -fno-ident
    -Xclang -fno-cxx-modules -g0 -O2)
  set(flags_x86_64 -march=x86-64)
  set(flags_aarch64 -march=armv8-a -mno-outline-atomics)
  set(flags_loongarch64 -march=loongarch64)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/runtime/core/*.cpp)
  separate_arguments(first_arguments UNIX_COMMAND "${CMAKE_CXX_COMPILER_ARG1}")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} ${first_arguments} --version OUTPUT_VARIABLE version)
  set(missing "")
  set(names "")
  set(objects "")
  foreach(architecture x86_64 aarch64 loongarch64)
    set(flags --target=${architecture}-linux-gnu ${flags_${architecture}} ${common})
    set(compile ${CMAKE_CXX_COMPILER} ${first_arguments} ${flags})
    # Without the other flags: a mistake in them is an error of the build.
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} ${first_arguments}
        --target=${architecture}-linux-gnu -x c++ -c /dev/null -o /dev/null
      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed)
      message(STATUS "llmc compile will compile the runtime for ${architecture}: "
        "${CMAKE_CXX_COMPILER} is not a clang for it")
      list(APPEND missing ${architecture})
      continue()
    endif()
    set(folder ${CMAKE_BINARY_DIR}/core/${architecture})
    file(MAKE_DIRECTORY ${folder})
    list(JOIN flags " " text)
    file(CONFIGURE OUTPUT ${folder}/arguments @ONLY CONTENT "${text}")
    file(CONFIGURE OUTPUT ${folder}/compiler @ONLY CONTENT "${version}")
    list(APPEND names ${architecture}/arguments)
    list(APPEND objects ${folder}/arguments)
    foreach(source IN LISTS sources)
      cmake_path(GET source STEM stem)
      set(object ${folder}/${stem}.o)
      add_custom_command(OUTPUT ${object}
        COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${compile} -I${CMAKE_SOURCE_DIR}/runtime/include
          -I${CMAKE_SOURCE_DIR}/templates -MD -MF ${object}.d -c ${source} -o ${object}
        DEPENDS ${source} ${folder}/arguments ${folder}/compiler DEPFILE ${object}.d VERBATIM
        COMMENT "Compiling ${stem} of the runtime for ${architecture}")
      list(APPEND names ${architecture}/${stem})
      list(APPEND objects ${object})
    endforeach()
  endforeach()
  add_custom_target(llmc_embedded_core DEPENDS ${objects})
  add_dependencies(${target} llmc_embedded_core)
  list(JOIN missing "," missing)
  set(LLMC_CORE_NOT_EMBEDDED "${missing}" PARENT_SCOPE)  # architectures, for the tests
  llmc_embed(${target} llmc_core_object_table "${names}" "${objects}")
endfunction()
