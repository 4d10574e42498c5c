// A trace of which this machine has some rank files alone: the others lie on other machines.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "trace/source.h"

namespace ttrace::trace {

// The end of the message of the error if a tensor of such a rank is opened.
inline constexpr std::string_view kOnAnotherMachine = "lies on another machine";

// An open trace some of whose ranks have their files elsewhere: nothing of them can be read here,
// but they are not lost.
class PartlyElsewhere : public Source {
 public:
  // `elsewhere`: these ranks, and what their files are called there.
  PartlyElsewhere(std::unique_ptr<Source> source, std::map<std::uint64_t, std::string> elsewhere)
      : source_(std::move(source)), elsewhere_(std::move(elsewhere)) {}

  const std::string& path() const override { return source_->path(); }
  const Manifest& manifest() const override { return source_->manifest(); }
  std::string identity() const override { return source_->identity(); }
  Fingerprint fingerprint() const override { return source_->fingerprint(); }
  std::string rank_file(std::uint64_t rank) const override {
    const auto found = elsewhere_.find(rank);
    return found == elsewhere_.end() ? source_->rank_file(rank) : found->second;
  }
  std::optional<std::string> rank_problem(std::uint64_t rank) const override {
    return elsewhere_.contains(rank) ? std::nullopt : source_->rank_problem(rank);
  }
  std::unique_ptr<Dataset> open(std::uint64_t rank, const std::string& dataset) const override {
    if (!elsewhere_.contains(rank)) return source_->open(rank, dataset);
    throw base::input_error(rank_file(rank), ": ", kOnAnotherMachine);
  }

 private:
  std::unique_ptr<Source> source_;
  std::map<std::uint64_t, std::string> elsewhere_;
};

}  // namespace ttrace::trace
