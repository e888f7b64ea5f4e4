// Running text broken into lines.
#pragma once

#include <cstddef>
#include <string>

namespace runmax::measure {

// `words` in lines of at most `columns` columns, each behind `indent` spaces; a word that is longer has a
// line of its own. Nothing for no words.
std::string paragraph(const std::string& words, std::size_t indent, std::size_t columns = 110);

}  // namespace runmax::measure
