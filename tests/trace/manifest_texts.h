// Manifests as text, with one part exchanged.
#pragma once

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "base/text.h"

namespace ttrace::test {

// One tensor with `members` beside name, kind and step; meshes "" (tp 2, dp 3) and "other" (ep 4).
inline std::string tensor_text(const std::string& members) {
  return R"({"name": "w", "kind": "param", "step": 0, )" + members + "}";
}

inline std::string manifest_of(const std::string& tensors, const std::string& more = "") {
  return R"({"schema": "ttrace.manifest/2", "meshes": {)"
         R"("": {"axes": [{"name": "tp", "size": 2}, {"name": "dp", "size": 3}]}, )"
         R"("other": {"axes": [{"name": "ep", "size": 4}]}}, "tensors": [)" +
         tensors + "]" + more + "}";
}

// A manifest of one float32 tensor of shape [6, 4] and `more` members of that tensor.
inline std::string with_member(const std::string& more) {
  return manifest_of(tensor_text(R"("dtype": "float32", "shape": [6, 4], )" + more));
}

inline std::string with_mesh(const std::string& mesh) {
  return R"({"schema": "ttrace.manifest/2", "meshes": {"": )" + mesh + R"(}, "tensors": []})";
}

inline std::string with_top(const std::string& more) { return manifest_of("", ", " + more); }

inline std::string read_source_file(const std::string& path) {
  std::ifstream in(base::concat(TTRACE_SOURCE_DIR, "/", path), std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in || text.str().empty()) throw std::runtime_error("cannot read " + path);
  return text.str();
}

}  // namespace ttrace::test
