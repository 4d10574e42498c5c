// An open trace with its manifest replaced.
#pragma once

#include <utility>

#include "trace/source.h"

namespace ttrace::trace {

class WithManifest : public Source {
 public:
  // `source` must outlive this.
  WithManifest(const Source& source, Manifest manifest)
      : source_(&source), manifest_(std::move(manifest)) {}

  const std::string& path() const override { return source_->path(); }
  const Manifest& manifest() const override { return manifest_; }
  std::string identity() const override { return source_->identity(); }
  std::string rank_file(std::uint64_t rank) const override { return source_->rank_file(rank); }
  std::optional<std::string> rank_problem(std::uint64_t rank) const override {
    return source_->rank_problem(rank);
  }
  std::unique_ptr<Dataset> open(std::uint64_t rank, const std::string& dataset) const override {
    return source_->open(rank, dataset);
  }

 private:
  const Source* source_;
  Manifest manifest_;
};

}  // namespace ttrace::trace
