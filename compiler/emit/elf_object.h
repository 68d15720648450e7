#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/target/target.h"

namespace llmc::emit {

/// The parts of a relocatable ELF object before and after its data. The object contains only
/// read-only data with one global symbol. Unlike with `.incbin`, for which the assembler needs
/// memory for two copies, the data can be streamed.
struct ElfObject {
  std::string prefix, suffix;
};
/// Returns the object for `data_bytes` bytes of data named `symbol`, which is hidden unless
/// `exported` is set. The data is aligned to `alignment`, a power of two from 16 to 4096.
ElfObject elf_object(target::Architecture architecture, std::string_view symbol,
                     std::uint64_t data_bytes, std::uint64_t alignment, bool exported = false);

/// Returns whether `object` has the header of a 64-bit little-endian ELF object for `architecture`.
bool is_object_for(std::string_view object, target::Architecture architecture);

/// Returns whether the content is LLVM bitcode, which clang writes with -flto instead of an object.
bool is_bitcode(std::string_view content);

/// Returns a description, for messages, of the format of a file that is_object_for() rejected, such
/// as "a Mach-O object".
std::string_view describe_format(std::string_view content);

/// Returns the total size in bytes of the sections that are loaded into memory (code, constants,
/// data, zero-initialized data); nullopt if `object` is not a valid 64-bit little-endian ELF
/// object.
std::optional<std::uint64_t> loaded_bytes(std::string_view object);

}  // namespace llmc::emit
