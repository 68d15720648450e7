# llmc_resources(TARGET): puts the sources that every bundle copies (kernel templates, public headers,
# runtime core) and the runner's into TARGET as read-only data, so that the llmc binary works from anywhere. The table
# is compiler/driver/resources.h's: name, begin and end of each file, sorted by name.
function(llmc_resources target)
  file(GLOB_RECURSE files RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS
    ${CMAKE_SOURCE_DIR}/templates/llmc/*.h
    ${CMAKE_SOURCE_DIR}/runtime/include/llmc/*.h
    ${CMAKE_SOURCE_DIR}/runtime/core/*.h
    ${CMAKE_SOURCE_DIR}/runtime/core/*.cpp
    ${CMAKE_SOURCE_DIR}/runtime/runner/*.h
    ${CMAKE_SOURCE_DIR}/runtime/runner/*.cpp)
  list(SORT files)
  set(blobs "")
  set(table "")
  set(index 0)
  foreach(file IN LISTS files)
    string(APPEND blobs "name_${index}: .asciz \"${file}\"\nbegin_${index}: .incbin \"${CMAKE_SOURCE_DIR}/${file}\"\nend_${index}: .byte 0\n")
    string(APPEND table ".quad name_${index}, begin_${index}, end_${index}\n")
    list(APPEND paths ${CMAKE_SOURCE_DIR}/${file})
    math(EXPR index "${index} + 1")
  endforeach()
  set(listing ${CMAKE_BINARY_DIR}/llmc_resources.S)
  # Relocated at load time, hence not .rodata.
  file(CONFIGURE OUTPUT ${listing} @ONLY CONTENT
"    .section .rodata.llmc_resources,\"a\",%progbits
${blobs}
    .section .data.rel.ro.llmc_resources,\"aw\",%progbits
    .balign 8
    .globl llmc_resource_table
    .hidden llmc_resource_table
llmc_resource_table:
${table}    .quad 0, 0, 0
    .section .note.GNU-stack,\"\",%progbits
")
  set_source_files_properties(${listing} PROPERTIES OBJECT_DEPENDS "${paths}" LANGUAGE ASM)
  target_sources(${target} PRIVATE ${listing})
endfunction()
