#include "judge/candidate/exports.hpp"

#include <dlfcn.h>
#include <elf.h>

#include <cstring>
#include <optional>

namespace runmax::judge {
namespace {

// A T at this byte of the file, if it is that long.
template <class T>
std::optional<T> read_at(std::string_view file, std::uint64_t at) {
  if (at > file.size() || file.size() - at < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}

Status broken(const char* what) { return {StatusCode::invalid_argument, what}; }

}  // namespace

Result<std::vector<std::string>> exported_names(std::string_view file) {
  const auto header = read_at<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return broken("is not an ELF file");
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != EM_X86_64 || header->e_type != ET_DYN)
    return broken("must be a shared library for x86-64");
  std::vector<std::string> names;
  for (std::uint64_t s = 0; s < header->e_shnum; ++s) {
    const auto section = read_at<Elf64_Shdr>(file, header->e_shoff + s * sizeof(Elf64_Shdr));
    if (!section) return broken("is cut short: section headers lie beyond its end");
    if (section->sh_type != SHT_DYNSYM) continue;
    const auto strings = read_at<Elf64_Shdr>(file, header->e_shoff + section->sh_link * sizeof(Elf64_Shdr));
    if (!strings || strings->sh_offset > file.size() || section->sh_link >= header->e_shnum)
      return broken("is cut short: its names lie beyond its end");
    const std::string_view text = file.substr(strings->sh_offset, strings->sh_size);
    for (std::uint64_t i = 0; i < section->sh_size / sizeof(Elf64_Sym); ++i) {
      const auto symbol = read_at<Elf64_Sym>(file, section->sh_offset + i * sizeof(Elf64_Sym));
      if (!symbol) return broken("is cut short: its symbols lie beyond its end");
      const bool global = ELF64_ST_BIND(symbol->st_info) != STB_LOCAL && symbol->st_shndx != SHN_UNDEF;
      if (!global || symbol->st_name >= text.size()) continue;
      const std::string_view rest = text.substr(symbol->st_name);
      names.emplace_back(rest.substr(0, rest.find('\0')));
    }
  }
  return names;
}

std::string system_name_among(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    // Markers that every linker adds are nobody's function.
    if (!name.empty() && name[0] != '_' && dlsym(RTLD_DEFAULT, name.c_str())) return name;
  return "";
}

}  // namespace runmax::judge
