# Writes a C++ source that holds files as byte arrays, so that the program carries its page.
#   cmake -DOUTPUT=... -DROOT=... "-DFILES=page/index.html;page/style.css" -P cmake/PageAssets.cmake
# Each file is named by its path from ROOT.
set(entries "")
set(arrays "")
set(index 0)
foreach(file IN LISTS FILES)
  file(READ ${ROOT}/${file} hex HEX)
  if(hex STREQUAL "")
    message(FATAL_ERROR "page assets: ${file} is empty")
  endif()
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "constexpr unsigned char asset_${index}[] = {${bytes}};\n")
  string(APPEND entries "    {\"${file}\", asset_${index}, sizeof asset_${index}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUTPUT}
"// Generated from the files of page/ and results/: their bytes.
#include \"page/assets.hpp\"

#include <array>

namespace runmax::page {
namespace {

${arrays}
constexpr auto assets = std::to_array<Asset>({
${entries}});

}  // namespace

std::span<const Asset> all_assets() { return assets; }

}  // namespace runmax::page
")
