#include "compiler/emit/elf_object.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace llmc::emit {
namespace {

std::string object_with(const std::string& data, target::Architecture architecture) {
  const ElfObject object = elf_object(architecture, "tiny_weights", data.size(), 64);
  return object.prefix + data + object.suffix;
}

template <class T>
T at(const std::string& object, std::uint64_t offset) {
  T value;
  EXPECT_LE(offset + sizeof value, object.size());
  std::memcpy(&value, object.data() + offset, sizeof value);
  return value;
}

TEST(ElfObject, HoldsTheDataUnderOneHiddenSymbol) {
  const std::string data(1000, 'w');
  const std::string object = object_with(data, target::Architecture::kX86_64);
  const auto header = at<Elf64_Ehdr>(object, 0);
  EXPECT_EQ(header.e_machine, EM_X86_64);
  EXPECT_EQ(header.e_type, ET_REL);
  bool found = false;
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const auto section = at<Elf64_Shdr>(object, header.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type == SHT_PROGBITS && (section.sh_flags & SHF_ALLOC) != 0) {
      EXPECT_EQ(section.sh_flags, static_cast<Elf64_Xword>(SHF_ALLOC)) << "read-only, not code";
      EXPECT_EQ(section.sh_addralign, 64u);
      EXPECT_EQ(section.sh_offset % 64, 0u);
      EXPECT_EQ(object.substr(section.sh_offset, section.sh_size), data);
      found = true;
    }
    if (section.sh_type == SHT_SYMTAB) {
      const auto strings =
          at<Elf64_Shdr>(object, header.e_shoff + section.sh_link * sizeof(Elf64_Shdr));
      const auto symbol = at<Elf64_Sym>(object, section.sh_offset + sizeof(Elf64_Sym));
      EXPECT_EQ(ELF64_ST_VISIBILITY(symbol.st_other), STV_HIDDEN);
      EXPECT_EQ(symbol.st_size, data.size());
      EXPECT_STREQ(object.data() + strings.sh_offset + symbol.st_name, "tiny_weights");
    }
  }
  EXPECT_TRUE(found);
}

TEST(ElfObject, KnowsTheArchitectures) {
  const auto machine = [](target::Architecture a) {
    return at<Elf64_Ehdr>(object_with("x", a), 0).e_machine;
  };
  EXPECT_EQ(machine(target::Architecture::kAarch64), EM_AARCH64);
  EXPECT_EQ(machine(target::Architecture::kLoongArch64), 258);
}

TEST(LoadedBytes, CountsWhatAProgramLoads) {
  EXPECT_EQ(loaded_bytes(object_with(std::string(777, 'x'), target::Architecture::kX86_64)), 777u);
}

TEST(LoadedBytes, RefusesWhatIsNoObject) {
  EXPECT_FALSE(loaded_bytes("").has_value());
  EXPECT_FALSE(loaded_bytes(std::string(64, 'x')).has_value());
  std::string object = object_with("data", target::Architecture::kX86_64);
  const std::uint64_t far = UINT64_MAX - 8;
  std::memcpy(object.data() + offsetof(Elf64_Ehdr, e_shoff), &far, sizeof far);
  EXPECT_FALSE(loaded_bytes(object).has_value());
  object = object_with("data", target::Architecture::kX86_64);
  object.resize(object.size() - 1);
  EXPECT_FALSE(loaded_bytes(object).has_value());
}

}  // namespace
}  // namespace llmc::emit
