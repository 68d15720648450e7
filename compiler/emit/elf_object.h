#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/target/target.h"

namespace llmc::emit {

/// A relocatable ELF object that contains only `data_bytes` bytes of read-only data under one
/// global symbol, which is hidden unless `exported`. Equivalent to `.incbin`, but the data can be
/// streamed; the assembler would hold it twice in memory. The file consists of `prefix`, the data
/// and `suffix`.
struct ElfObject {
  std::string prefix, suffix;
};
/// Returns the object without its data. The data is aligned to `alignment` within its section (a
/// power of two, at most 4096).
ElfObject elf_object(target::Architecture architecture, std::string_view symbol,
                     std::uint64_t data_bytes, std::uint64_t alignment, bool exported = false);

/// Returns whether `object` has the header of a 64-bit little-endian ELF object for `architecture`.
bool is_object_for(std::string_view object, target::Architecture architecture);

/// Returns whether the content is LLVM bitcode, which clang writes with -flto instead of an object.
bool is_bitcode(std::string_view content);

/// Returns a description of the file format for messages: "a Mach-O object", "an ELF object for
/// another processor", …
std::string_view describe_format(std::string_view content);

/// Returns the total bytes of all sections of an object that are loaded (code, constants, data,
/// zero-initialized data), or nullopt if `object` is not a valid 64-bit little-endian ELF object.
std::optional<std::uint64_t> loaded_bytes(std::string_view object);

}  // namespace llmc::emit
