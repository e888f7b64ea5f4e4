#include "measure/paragraph.hpp"

#include <sstream>

namespace runmax::measure {

std::string paragraph(const std::string& words, std::size_t indent, std::size_t columns) {
  const std::string margin(indent, ' ');
  std::istringstream stream(words);
  std::string text, line;
  for (std::string word; stream >> word;) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > columns) {
      text += margin + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return line.empty() ? text : text + margin + line + "\n";
}

}  // namespace runmax::measure
