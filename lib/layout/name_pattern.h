// Patterns that take names apart, for rules that rename.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ttrace::layout {

// "model.layers.{i}.{rest...}": `{x}` stands for one or more characters without a dot, `{x...}` for
// one or more of any. Everything else is literal.
class NamePattern {
 public:
  using Captures = std::map<std::string, std::string>;

  // Throws an input error on braces that do not pair, an empty or repeated name, and more than 8
  // captures.
  explicit NamePattern(const std::string& text);

  const std::string& text() const { return text_; }
  const std::vector<std::string>& captures() const { return names_; }

  // What the captures stand for if the whole of `name` matches, the earlier ones as short as
  // possible. The output number of a module's further tensors ("attn[1]") is matched as the module
  // and kept as the capture "[]".
  std::optional<Captures> match(std::string_view name) const;

  // The name that the captures make of this pattern, which must be among them.
  std::string filled(const Captures& captures) const;

 private:
  struct Piece {
    std::string literal;  // or, if `capture` is not empty, what it is called
    std::string capture;
    bool dots = false;
  };

  bool match_from(std::size_t piece, std::string_view rest, Captures& captures) const;

  std::string text_;
  std::vector<Piece> pieces_;
  std::vector<std::string> names_;
};

}  // namespace ttrace::layout
