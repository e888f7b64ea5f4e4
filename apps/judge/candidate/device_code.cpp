#include "judge/candidate/device_code.hpp"

#include "judge/candidate/elf.hpp"

namespace runmax::judge {

Result<DeviceCode> read_device_code(std::string_view cubin) {
  Result<Elf> opened = Elf::open(cubin);
  if (!opened.ok()) return opened.status();
  const Elf& elf = opened.value();
  if (elf.header().e_machine != EM_CUDA) return Status(StatusCode::invalid_argument, "holds no device code");
  DeviceCode code;
  const Status read = elf.each_symbol(SHT_SYMTAB, [&](const Elf64_Sym& symbol, std::string_view name) {
    const auto type = ELF64_ST_TYPE(symbol.st_info);
    if (symbol.st_shndx == SHN_UNDEF) {
      if (name == "malloc") code.takes_from_heap = true;
      return;
    }
    const auto section = elf.section(symbol.st_shndx);
    if (!section) return;
    const std::string_view home = elf.section_name(*section);
    if (type == STT_FUNC && home == ".text." + std::string(name))
      code.kernels.emplace_back(name);
    else if (type == STT_OBJECT && home.starts_with(".nv.global"))
      code.arrays.push_back({std::string(name), static_cast<std::int64_t>(symbol.st_size)});
  });
  if (!read.ok()) return read;
  return code;
}

}  // namespace runmax::judge
