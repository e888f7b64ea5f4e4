#include "judge/candidate/exports.hpp"

#include <dlfcn.h>

#include "judge/candidate/elf.hpp"

namespace runmax::judge {

Result<std::vector<std::string>> exported_names(std::string_view file) {
  Result<Elf> elf = Elf::open(file);
  if (!elf.ok()) return elf.status();
  if (elf.value().header().e_machine != EM_X86_64 || elf.value().header().e_type != ET_DYN)
    return Status(StatusCode::invalid_argument, "must be a shared library for x86-64");
  std::vector<std::string> names;
  const Status read =
      elf.value().each_symbol(SHT_DYNSYM, [&](const Elf64_Sym& symbol, std::string_view name) {
        const bool global = ELF64_ST_BIND(symbol.st_info) != STB_LOCAL && symbol.st_shndx != SHN_UNDEF;
        if (global) names.emplace_back(name);
      });
  if (!read.ok()) return read;
  return names;
}

std::string system_name_among(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    // Markers that every linker adds are nobody's function.
    if (!name.empty() && name[0] != '_' && dlsym(RTLD_DEFAULT, name.c_str())) return name;
  return "";
}

}  // namespace runmax::judge
