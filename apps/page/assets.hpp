// The files of page/ and the records that ship, as the program carries them.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace runmax::page {

struct Asset {
  std::string_view name;  // path from the root of the sources
  const unsigned char* data;
  std::size_t size;

  std::string_view text() const { return {reinterpret_cast<const char*>(data), size}; }
};

std::span<const Asset> all_assets();

// The asset of this name; every name that the program asks for is there.
std::string_view asset(std::string_view name);

}  // namespace runmax::page
