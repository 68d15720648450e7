#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/target/target.h"

namespace llmc::emit {

/// A relocatable ELF object whose only content is `data_bytes` bytes of read-only data under one
/// global symbol, which is hidden unless `exported`. What `.incbin` makes, but the data can be
/// streamed: the assembler would hold it twice in memory. The file is `prefix`, the data, `suffix`.
struct ElfObject {
  std::string prefix, suffix;
};
/// The data starts at a multiple of `alignment` (a power of two, at most 4096) of its section.
ElfObject elf_object(target::Architecture architecture, std::string_view symbol,
                     std::uint64_t data_bytes, std::uint64_t alignment, bool exported = false);

/// Whether `object` has the header of a 64-bit little-endian ELF object for `architecture`.
bool is_object_for(std::string_view object, target::Architecture architecture);

/// Whether the content is LLVM bitcode, which clang writes with -flto instead of an object.
bool is_bitcode(std::string_view content);

/// What a file with this content is, for messages: "a Mach-O object", "an ELF object for another
/// processor", …
std::string_view describe_format(std::string_view content);

/// Bytes of all sections of an object that a program loads (code, constants, data, zeros), or
/// nullopt when `object` is no 64-bit little-endian ELF object of sound structure.
std::optional<std::uint64_t> loaded_bytes(std::string_view object);

}  // namespace llmc::emit
