#include "judge/candidate/expression.hpp"

namespace runmax::judge {
namespace {

constexpr double most = 9007199254740992.0;  // 2^53: doubles below it are whole numbers without a gap

// Recursive descent; the first complaint stays.
class Parser {
 public:
  Parser(std::string_view text, const Variables& variables) : text_(text), variables_(variables) {}

  Result<std::int64_t> value() {
    const double result = sum(0);
    skip();
    if (complaint_.empty() && at_ < text_.size())
      complain("expected an operator, got '" + std::string(1, text_[at_]) + "'");
    if (complaint_.empty() && result < 0) complain("is negative");
    if (!complaint_.empty())
      return Status(StatusCode::invalid_argument, complaint_ + " at column " + std::to_string(at_ + 1) +
                                                      " of '" + std::string(text_) + "'");
    return static_cast<std::int64_t>(result);
  }

 private:
  static constexpr int deepest = 32;

  void complain(const std::string& what) {
    if (complaint_.empty()) complaint_ = what;
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool take(char letter) {
    skip();
    if (at_ >= text_.size() || text_[at_] != letter) return false;
    ++at_;
    return true;
  }
  double checked(double value) {
    if (!(value <= most && value >= -most)) complain("is beyond 2^53");
    return complaint_.empty() ? value : 0;
  }

  double sum(int depth) {
    double value = product(depth);
    while (complaint_.empty()) {
      if (take('+'))
        value = checked(value + product(depth));
      else if (take('-'))
        value = checked(value - product(depth));
      else
        break;
    }
    return value;
  }

  double product(int depth) {
    double value = factor(depth);
    while (complaint_.empty()) {
      if (take('*')) {
        value = checked(value * factor(depth));
      } else if (take('/')) {
        const double by = factor(depth);
        if (by <= 0) complain("divides by " + std::to_string(static_cast<std::int64_t>(by)));
        if (!complaint_.empty()) return 0;
        const auto whole = static_cast<std::int64_t>(value), divisor = static_cast<std::int64_t>(by);
        const std::int64_t quotient = whole / divisor - (whole % divisor < 0 ? 1 : 0);
        value = static_cast<double>(quotient);
      } else {
        break;
      }
    }
    return value;
  }

  double factor(int depth) {
    if (depth > deepest) complain("has too many brackets");
    if (!complaint_.empty()) return 0;
    if (take('(')) {
      const double value = sum(depth + 1);
      if (!take(')')) complain("expected ')'");
      return value;
    }
    skip();
    const std::size_t begin = at_;
    const auto letter = [&](std::size_t i) { return i < text_.size() ? text_[i] : '\0'; };
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    const auto is_name = [&](char c) { return (c >= 'a' && c <= 'z') || c == '_' || is_digit(c); };
    if (is_digit(letter(at_))) {
      double value = 0;
      while (is_digit(letter(at_)) && complaint_.empty()) value = checked(value * 10 + (text_[at_++] - '0'));
      return value;
    }
    while (is_name(letter(at_))) ++at_;
    const auto found = variables_.find(text_.substr(begin, at_ - begin));
    if (found != variables_.end()) return static_cast<double>(found->second);
    std::string names;
    for (const auto& [name, value] : variables_) names += (names.empty() ? "" : ", ") + name;
    complain(begin == at_ ? "expected a number or a name"
                          : "there is no name '" + std::string(text_.substr(begin, at_ - begin)) + "' (" +
                                names + ")");
    return 0;
  }

  std::string_view text_;
  const Variables& variables_;
  std::size_t at_ = 0;
  std::string complaint_;
};

}  // namespace

Result<std::int64_t> evaluate(std::string_view expression, const Variables& variables) {
  return Parser(expression, variables).value();
}

}  // namespace runmax::judge
