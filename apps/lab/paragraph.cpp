#include "lab/paragraph.hpp"

#include <sstream>

namespace runmax::lab {

std::string paragraph(const std::string& words, std::size_t indent) {
  constexpr std::size_t width = 110;
  const std::string margin(indent, ' ');
  std::istringstream stream(words);
  std::string text, line;
  for (std::string word; stream >> word;) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > width) {
      text += margin + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return line.empty() ? text : text + margin + line + "\n";
}

}  // namespace runmax::lab
