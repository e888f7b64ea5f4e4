// Sections and symbols of an ELF file in memory: nothing is believed before it was found inside the file.
#pragma once

#include <elf.h>

#include <cstring>
#include <functional>
#include <optional>
#include <string_view>

#include "runmax/status.hpp"

namespace runmax::judge {

class Elf {
 public:
  // An error says what is wrong with the file.
  static Result<Elf> open(std::string_view file) {
    Elf elf;
    elf.file_ = file;
    const auto header = elf.at<Elf64_Ehdr>(0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64)
      return Status(StatusCode::invalid_argument, "is not an ELF file of 64 bits");
    elf.header_ = *header;
    return elf;
  }
  const Elf64_Ehdr& header() const { return header_; }

  std::optional<Elf64_Shdr> section(std::uint64_t index) const {
    if (index >= header_.e_shnum) return std::nullopt;
    return at<Elf64_Shdr>(header_.e_shoff + index * sizeof(Elf64_Shdr));
  }
  std::string_view section_name(const Elf64_Shdr& section) const {
    const auto names = this->section(header_.e_shstrndx);
    return names ? text(*names, section.sh_name) : std::string_view();
  }

  // Every symbol of the tables of one type: SHT_DYNSYM or SHT_SYMTAB.
  Status each_symbol(std::uint32_t type,
                     const std::function<void(const Elf64_Sym&, std::string_view name)>& visit) const {
    for (std::uint64_t s = 0; s < header_.e_shnum; ++s) {
      const auto table = section(s);
      if (!table) return cut_short("section headers lie");
      if (table->sh_type != type) continue;
      const auto strings = section(table->sh_link);
      if (!strings || strings->sh_offset > file_.size()) return cut_short("names lie");
      for (std::uint64_t i = 0; i < table->sh_size / sizeof(Elf64_Sym); ++i) {
        const auto symbol = at<Elf64_Sym>(table->sh_offset + i * sizeof(Elf64_Sym));
        if (!symbol) return cut_short("symbols lie");
        visit(*symbol, text(*strings, symbol->st_name));
      }
    }
    return {};
  }

 private:
  // A T at this byte of the file, if it is that long.
  template <class T>
  std::optional<T> at(std::uint64_t byte) const {
    if (byte > file_.size() || file_.size() - byte < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, file_.data() + byte, sizeof value);
    return value;
  }
  std::string_view text(const Elf64_Shdr& strings, std::uint64_t byte) const {
    if (strings.sh_offset > file_.size()) return {};
    const std::string_view all = file_.substr(strings.sh_offset, strings.sh_size);
    if (byte >= all.size()) return {};
    const std::string_view rest = all.substr(byte);
    return rest.substr(0, rest.find('\0'));
  }
  static Status cut_short(const char* what) {
    return {StatusCode::invalid_argument, std::string("is cut short: ") + what + " beyond its end"};
  }

  std::string_view file_;
  Elf64_Ehdr header_{};
};

}  // namespace runmax::judge
