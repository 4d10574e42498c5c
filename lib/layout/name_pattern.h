// Patterns for the names of tensors, which rules match and fill.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ttrace::layout {

// "model.layers.{i}.{rest...}": `{x}` stands for one or more characters without a dot, `{x...}` for
// one or more of any. Everything else is literal.
class NamePattern {
 public:
  using Captures = std::map<std::string, std::string>;

  // Throws an input error on braces that do not pair, more than 8 captures, and a capture without a
  // name of its own of letters, digits and underscores.
  explicit NamePattern(const std::string& text);

  const std::string& text() const { return text_; }
  const std::vector<std::string>& captures() const { return names_; }

  // What the captures stand for if the whole of `name` matches, the earlier ones as short as
  // possible. A module's further tensors ("attn[1]", "attn[mask]") are matched as the module, and
  // what is in brackets is kept as the capture "[]".
  std::optional<Captures> match(std::string_view name) const;

  // The name that the captures make of this pattern, which must be among them.
  std::string filled(const Captures& captures) const;

 private:
  struct Piece {
    std::string literal;  // or, if `capture` is not empty, what it is called
    std::string capture;
    bool dots = false;
  };

  // Pieces and characters that were left when a match failed. Every way to them fails again, so
  // each is tried once.
  using Failures = std::set<std::pair<std::size_t, std::size_t>>;

  bool match_from(std::size_t piece, std::string_view rest, Captures& captures,
                  Failures& failures) const;

  std::string text_;
  std::vector<Piece> pieces_;
  std::vector<std::string> names_;
};

}  // namespace ttrace::layout
