#include "compiler/emit/elf_object.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "compiler/support/check.h"

namespace llmc::emit {
namespace {

template <class T>
void append(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void align(std::string& out, std::uint64_t base, std::uint64_t unit) {
  while ((base + out.size()) % unit != 0) out += '\0';
}

struct Machine {
  Elf64_Half machine;
  Elf64_Word flags;
};
Machine machine_of(target::Architecture architecture) {
  switch (architecture) {
    case target::Architecture::kX86_64:
      return {EM_X86_64, 0};
    case target::Architecture::kAarch64:
      return {EM_AARCH64, 0};
    case target::Architecture::kLoongArch64:
      return {258 /* EM_LOONGARCH */, 0x43 /* object ABI v1, double-float */};
  }
  LLMC_CHECK(false);
  return {};
}

/// Returns the header of a 64-bit little-endian ELF file; nullopt for any other content.
std::optional<Elf64_Ehdr> elf_header(std::string_view object) {
  Elf64_Ehdr header;
  if (object.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, object.data(), sizeof header);
  const bool known = std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
                     header.e_ident[EI_CLASS] == ELFCLASS64 &&
                     header.e_ident[EI_DATA] == ELFDATA2LSB;
  return known ? std::optional(header) : std::nullopt;
}

/// A string table under construction. add() returns the offset of the string.
class Strings {
 public:
  Elf64_Word add(std::string_view text) {
    const auto at = static_cast<Elf64_Word>(table_.size());
    table_.append(text).push_back('\0');
    return at;
  }
  const std::string& table() const { return table_; }

 private:
  std::string table_{'\0'};
};

}  // namespace

ElfObject elf_object(target::Architecture architecture, std::string_view symbol,
                     std::uint64_t data_bytes, std::uint64_t alignment, bool exported) {
  ElfObject object;
  LLMC_CHECK(alignment >= 16 && alignment <= 4096 && (alignment & (alignment - 1)) == 0);
  const std::uint64_t data_offset = std::max<std::uint64_t>(alignment, sizeof(Elf64_Ehdr));
  const std::uint64_t base = data_offset + data_bytes;  // where the suffix starts

  enum Section { kNull, kData, kStack, kSymbols, kStrings, kNames, kCount };
  Strings strings, names;
  Elf64_Shdr headers[kCount] = {};
  std::string& out = object.suffix;

  Elf64_Shdr& data = headers[kData];
  data.sh_name = names.add(".rodata." + std::string(symbol));
  data.sh_type = SHT_PROGBITS;
  data.sh_flags = SHF_ALLOC;
  data.sh_offset = data_offset;
  data.sh_size = data_bytes;
  data.sh_addralign = alignment;

  Elf64_Shdr& stack = headers[kStack];  // declares that no executable stack is needed
  stack.sh_name = names.add(".note.GNU-stack");
  stack.sh_type = SHT_PROGBITS;
  stack.sh_offset = base;
  stack.sh_addralign = 1;

  align(out, base, 8);
  Elf64_Sym null_symbol = {};
  Elf64_Sym data_symbol = {};
  data_symbol.st_name = strings.add(symbol);
  data_symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
  data_symbol.st_other = exported ? STV_DEFAULT : STV_HIDDEN;
  data_symbol.st_shndx = kData;
  data_symbol.st_size = data_bytes;
  Elf64_Shdr& symbols = headers[kSymbols];
  symbols.sh_name = names.add(".symtab");
  symbols.sh_type = SHT_SYMTAB;
  symbols.sh_offset = base + out.size();
  symbols.sh_size = 2 * sizeof(Elf64_Sym);
  symbols.sh_link = kStrings;
  symbols.sh_info = 1;  // index of the first non-local symbol
  symbols.sh_addralign = 8;
  symbols.sh_entsize = sizeof(Elf64_Sym);
  append(out, null_symbol);
  append(out, data_symbol);

  const auto add_table = [&](Section section, const char* name, const Strings& table) {
    headers[section].sh_type = SHT_STRTAB;
    headers[section].sh_name = names.add(name);
    headers[section].sh_offset = base + out.size();
    headers[section].sh_size = table.table().size();
    headers[section].sh_addralign = 1;
    out += table.table();
  };
  add_table(kStrings, ".strtab", strings);
  const Elf64_Word own_name = names.add(".shstrtab");
  const std::string table = names.table();
  headers[kNames] = {.sh_name = own_name,
                     .sh_type = SHT_STRTAB,
                     .sh_flags = 0,
                     .sh_addr = 0,
                     .sh_offset = base + out.size(),
                     .sh_size = table.size(),
                     .sh_link = 0,
                     .sh_info = 0,
                     .sh_addralign = 1,
                     .sh_entsize = 0};
  out += table;
  align(out, base, 8);

  const Machine machine = machine_of(architecture);
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_REL;
  header.e_machine = machine.machine;
  header.e_flags = machine.flags;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof header;
  header.e_shoff = base + out.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = kCount;
  header.e_shstrndx = kNames;
  append(object.prefix, header);
  object.prefix.resize(data_offset, '\0');
  for (const Elf64_Shdr& section : headers) append(out, section);
  return object;
}

bool is_object_for(std::string_view object, target::Architecture architecture) {
  const auto header = elf_header(object);
  return header && header->e_type == ET_REL &&
         header->e_machine == machine_of(architecture).machine;
}

bool is_bitcode(std::string_view content) {
  return content.starts_with("BC\xC0\xDE") ||
         content.starts_with("\xDE\xC0\x17\x0B");  // raw bitcode, bitcode with a wrapper
}

std::string_view describe_format(std::string_view content) {
  const auto begins = [&](std::initializer_list<unsigned char> bytes) {
    return content.size() >= bytes.size() &&
           std::equal(bytes.begin(), bytes.end(), content.begin(),
                      [](unsigned char a, char b) { return a == static_cast<unsigned char>(b); });
  };
  if (content.starts_with(ELFMAG)) return "an ELF object for another processor";
  if (begins({0xcf, 0xfa, 0xed, 0xfe}) || begins({0xce, 0xfa, 0xed, 0xfe}))
    return "a Mach-O object";
  if (begins({0x64, 0x86}) || begins({0x64, 0xaa}) || begins({0x4c, 0x01})) return "a COFF object";
  if (is_bitcode(content)) return "LLVM bitcode";
  if (content.starts_with(std::string_view("\0asm", 4))) return "a WebAssembly object";
  return "a file that is no object";
}

std::optional<std::uint64_t> loaded_bytes(std::string_view object) {
  const auto found = elf_header(object);
  if (!found) return std::nullopt;
  const Elf64_Ehdr& header = *found;
  const bool sound = header.e_shentsize == sizeof(Elf64_Shdr) && header.e_shoff <= object.size() &&
                     header.e_shnum <= (object.size() - header.e_shoff) / sizeof(Elf64_Shdr);
  if (!sound) return std::nullopt;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, object.data() + header.e_shoff + i * sizeof section, sizeof section);
    if ((section.sh_flags & SHF_ALLOC) == 0) continue;
    if (__builtin_add_overflow(bytes, section.sh_size, &bytes)) return std::nullopt;
  }
  return bytes;
}

}  // namespace llmc::emit
